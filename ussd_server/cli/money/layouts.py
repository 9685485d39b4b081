"""`reconcile layout` and `reconcile layouts`: how a statement is read, and what operators say of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from ussd_server.cli import services
from ussd_server.cli.commands import EXAMPLE_ID, command, group, progress, show, show_lines, wants_json
from ussd_server.cli.names import KnownFile, KnownName, by_option, file_argument
from ussd_server.context import operator_context
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.providers.statement_format import DateOrder, StatementField, Thousands
from ussd_server.services.reconciliation.messages import BalanceBreak, StatementReading
from ussd_server.services.reconciliation.reading.stated_direction import StatedDirection
from ussd_server.services.statement_layouts.messages import (
    ColumnView,
    KeepLayout,
    LayoutView,
    LineView,
    PreviewStatement,
    RemoveLayout,
    StatementPreview,
)
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds, shillings, written_amount
from ussd_server.wire import writer

_THOUSANDS = {mark.name.lower(): mark for mark in Thousands}
written_balance = writer(BalanceBreak)


class RefusedFileError(click.ClickException):
    """A statement that cannot be read, or is probably the wrong file."""

    exit_code = 2


column_option = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="FIELD=HEADING",
    help=f"What a column holds: {', '.join(StatementField)}.",
)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--dates`, `--thousands`, `--all-in` and `--our-number`, passed as `dates`, `thousands` and so on."""
    dates = click.option(
        "--dates",
        type=click.Choice([order.value for order in DateOrder]),
        help="Whether day or month comes first in 03/04/2026.",
    )
    thousands = click.option(
        "--thousands", type=click.Choice(list(_THOUSANDS)), help="What separates thousands in 5.000 or 5,000."
    )
    return dates(thousands(direction_options(command)))


def direction_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--all-in` and `--our-number`, passed as `all_in` and `our_number`."""
    all_in = click.option("--all-in", is_flag=True, help="Every line came in, as in a list of receipts.")
    our_number = click.option(
        "--our-number", metavar="NUMBER", help="Our phone or account: lines to it came in, lines from it went out."
    )
    return all_in(our_number(command))


def reading_of(
    dates: str | None, thousands: str | None, all_in: bool, our_number: str | None, columns: tuple[str, ...] = ()
) -> StatementReading:
    """Return what the options say of a file."""
    return StatementReading(
        DateOrder(dates) if dates else None,
        _THOUSANDS[thousands] if thousands else None,
        _columns(columns) or None,
        StatedDirection(all_in, our_number),
    )


class _ProviderAndFile(click.Argument):
    """`[PROVIDER] FILE`, passed as a pair."""

    def __init__(self, names: list[str], **options: Any) -> None:
        super().__init__(names, nargs=-1, required=True, metavar="[PROVIDER] FILE", **options)

    def type_cast_value(self, ctx: click.Context, value: Any) -> tuple[str | None, Path]:
        words = list(value or ())
        if len(words) not in (1, 2):
            raise click.UsageError("Name the file, and before it the provider.", ctx)
        provider = KnownName(PROVIDER_NAMES).convert(words[0], self, ctx) if len(words) == 2 else None
        return provider, KnownFile().convert(words[-1], self, ctx)


@command(example="mtn statement.csv")
@click.argument("named", cls=_ProviderAndFile)
@reading_options
@column_option
@click.pass_context
def layout(
    ctx: click.Context,
    named: tuple[str | None, Path],
    dates: str | None,
    thousands: str | None,
    all_in: bool,
    our_number: str | None,
    columns: tuple[str, ...],
) -> None:
    """Show how a statement is read, and store nothing.

    Each column with the field that it holds, the first lines, the sums of what succeeded, and the period. Without
    PROVIDER it is the one whose headings fit best. --column tries other fields, as `reconcile layouts add` keeps them.
    The exit status is 2 for a file that is refused.
    """
    provider, path = named
    with path.open("rb") as source, progress():
        request = PreviewStatement(source, provider, reading_of(dates, thousands, all_in, our_number, columns))
        try:
            preview = services().statement_layouts.preview(request, operator_context())
        except ServiceError as refusal:
            if refusal.code is not Code.INVALID_REQUEST:
                raise
            raise RefusedFileError(f"{path.name}: {refusal}") from None
    show(_document(preview), "\n".join(_sentences(preview)))
    if preview.problem and wants_json():
        raise RefusedFileError(f"{path.name}: {preview.problem}")
    if preview.problem:
        ctx.exit(RefusedFileError.exit_code)


@group()
def layouts() -> None:
    """What operators say of the columns of statements."""


@layouts.command(
    example="mtn statement.csv --column id=Id --column date=Date --column type=Type --column amount=Amount --by Ann"
)
@click.argument("provider", type=KnownName(PROVIDER_NAMES))
@file_argument
@column_option
@direction_options
@by_option
def add(provider: str, file: Path, columns: tuple[str, ...], all_in: bool, our_number: str | None, by: str) -> None:
    """Keep how a file is read, for every file of this provider with the same headings.

    Only the columns of --column are read then; without it those that are read already. Another layout for these
    headings is replaced.
    """
    direction = StatedDirection(all_in, our_number)
    with file.open("rb") as source:
        request = KeepLayout(provider, source, _columns(columns) or None, by, direction)
        kept = services().statement_layouts.keep(request, operator_context())
    show(kept, _sentence(kept))


@layouts.command(name="list")
def list_() -> None:
    """Show the layouts that are kept."""
    kept = services().statement_layouts.list(operator_context())
    show_lines(kept, map(_sentence, kept), "No layout is kept.")


@layouts.command(example=f"{EXAMPLE_ID} --by Ann")
@click.argument("layout_id", metavar="ID")
@by_option
def remove(layout_id: str, by: str) -> None:
    """Forget a layout. Statements that were imported with it stay."""
    removed = services().statement_layouts.remove(RemoveLayout(layout_id, by), operator_context())
    show(removed, f"The layout {removed.layout_id} is removed.")


def _columns(pairs: tuple[str, ...]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for pair in pairs:
        field, is_given, heading = pair.partition("=")
        if not is_given or not heading.strip() or field in columns:
            raise click.BadParameter(f"{pair!r} must be FIELD=HEADING, each field once.", param_hint="--column")
        columns[field.strip().lower()] = heading.strip()
    return columns


def _document(preview: StatementPreview) -> dict[str, Any]:
    period = {"from": preview.first_at, "to": preview.last_at}
    return {
        "provider": preview.provider,
        "columns": list(map(writer(ColumnView), preview.columns)),
        "lines": list(map(writer(LineView), preview.lines)),
        "sums": {"in": shillings(preview.in_cents), "out": shillings(preview.out_cents)},
        "period": {name: iso_milliseconds(moment) if moment else None for name, moment in period.items()},
        "balance": preview.balance and written_balance(preview.balance),
        "problem": preview.problem,
    }


def _sentences(preview: StatementPreview) -> Iterator[str]:
    yield f"{preview.provider}:"
    for column in preview.columns:
        field = f"{column.field} ({column.how})" if column.field else "not read"
        yield f"  {column.heading or '(no heading)'}: {field}"
    for line in preview.lines:
        yield (
            f"line {line.line}  {line.id}  {iso_milliseconds(line.at)}  {written_amount(line.amount_cents)}  "
            f"{line.kind}  {line.status}"
        )
    yield f"in {written_amount(preview.in_cents)}, out {written_amount(preview.out_cents)}"
    if preview.first_at and preview.last_at:
        yield f"from {iso_milliseconds(preview.first_at)} to {iso_milliseconds(preview.last_at)}"
    if preview.balance:
        balance, expected = preview.balance.found_cents, preview.balance.expected_cents
        yield (
            f"line {preview.balance.line} does not follow: the balance is {written_amount(balance)}, "
            f"and not {written_amount(expected)}"
        )
    if preview.problem:
        yield f"Refused: {preview.problem}"


def _sentence(kept: LayoutView) -> str:
    columns = ", ".join(f"{field}={heading!r}" for field, heading in kept.columns.items())
    said = "  every line came in" if kept.all_in else f"  our number {kept.our_number}" if kept.our_number else ""
    return f"{kept.layout_id}  {kept.provider}  {columns}{said}  by {kept.created_by}"
