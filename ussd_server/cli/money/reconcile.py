"""`reconcile`: compare a provider's statement with our transactions, and review the differences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import click

from ussd_server.cli import services
from ussd_server.cli.commands import EXAMPLE_ID, Group, progress, show, wants_json
from ussd_server.cli.money.layouts import (
    RefusedFileError,
    layout,
    layouts,
    reading_of,
    reading_options,
    written_balance,
)
from ussd_server.cli.names import Days, file_argument, two_people
from ussd_server.context import operator_context
from ussd_server.services.reconciliation import messages
from ussd_server.spreadsheets.delimited import line_writer
from ussd_server.status import ServiceError
from ussd_server.values import shillings, written_amount
from ussd_server.wire import writer

_EXAMPLE = "mtn statement.csv --csv result.csv"
_HAS_DIFFERENCES = 1
_PAGE = 100
_MOST_SHOWN = 50
_written_line = writer(messages.ComparedLine)


class _Reconcile(Group):
    """`review` is a group of commands; anything else is the account of a statement."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *self.get_help_option_names(ctx)}:
            args = ["statement", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_Reconcile,
    example=_EXAMPLE,
    options_metavar="",
    subcommand_metavar=(
        "ACCOUNT FILE [--dry-run] [--yes] [--all] [--json] [--csv OUT] [--covers DAYS] | layout ... | review ..."
    ),
)
def reconcile() -> None:
    """Compare a provider's statement with our transactions, and review the differences.

    \b
    ussd-server reconcile mtn statement.csv
    ussd-server reconcile mtn statement.xlsx --csv result.csv
    ussd-server reconcile mtn statement.csv --dry-run
    ussd-server reconcile layout mtn statement.csv
    ussd-server reconcile mtn statement.csv --covers 2026-11-20..2026-11-20 --by Ann --and Ben
    ussd-server reconcile review list

    ACCOUNT is the name of a connection's account at its provider: mtn, airtel, or what USSD_<NAME>_ACCOUNT says. FILE
    is CSV or XLSX as downloaded from the provider. Every difference waits on the review list until an operator
    ends it. Importing the same file again stores nothing; --dry-run stores nothing at all. A file with more than 1,000
    differences, or that differs in more than half of its lines, or whose running balance breaks, is stored with --yes
    only. With --covers two people state that FILE has every line of some days, which its balances do not show. The
    first 50 differences are shown; --all shows the others too. The exit status is 0 when the books agree, 1 with
    differences, and 2 for a file that cannot be read or needs --yes. A file is read right or refused whole, by its
    row: --dates and --thousands say what its lines leave open, and `reconcile layout` shows how it is read.
    """


@reconcile.command(hidden=True, example=_EXAMPLE)
@click.argument("account", type=str.lower)
@file_argument
@click.option("--csv", "csv_path", type=click.Path(dir_okay=False, path_type=Path), help="Write every line's result.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Compare, and store nothing.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Store a statement that looks like the wrong file.")
@click.option("--all", "shows_all", is_flag=True, help="Show every difference, not only the first 50.")
@reading_options
@click.option("--covers", type=Days(), help="The days in Kampala of which FILE has every line, both included.")
@click.option("--by", help="Your name, with --covers.")
@click.option("--and", "second", help="The name of a second person, with --covers.")
@click.pass_context
def statement(
    ctx: click.Context,
    account: str,
    file: Path,
    csv_path: Path | None,
    is_dry_run: bool,
    is_confirmed: bool,
    shows_all: bool,
    dates: str | None,
    thousands: str | None,
    all_in: bool,
    our_number: str | None,
    covers: tuple[date, date] | None,
    by: str | None,
    second: str | None,
) -> None:
    """Compare a statement, and exit with 1 when there are differences."""
    if csv_path is not None and csv_path.exists() and csv_path.samefile(file):
        raise click.UsageError("The results would replace the statement; name another file for --csv.")
    if (covers is not None) != bool(by and second):
        raise click.UsageError("--covers needs --by and --and, the names of two people.")
    statements = services().provider_statements
    with file.open("rb") as source, _csv_writer(csv_path) as write, progress("lines") as show_lines:
        request = messages.ReconcileStatement(
            account,
            file.name,
            source,
            write,
            show_lines,
            is_dry_run=is_dry_run,
            is_confirmed=is_confirmed,
            reading=reading_of(dates, thousands, all_in, our_number),
            covers=covers,
            by=by or "",
            second=second or "",
        )
        try:
            result = statements.reconcile(request, operator_context())
        except ServiceError as refusal:
            raise RefusedFileError(f"{file.name}: {refusal}") from None
        if result.doubt and not result.is_stored and not is_dry_run:
            raise RefusedFileError(f"{result.doubt} Nothing was stored; --dry-run shows them, --yes stores them.")
    if wants_json():
        _print_json(result)
    else:
        _print_sentences(result, None if shows_all else _MOST_SHOWN)
    if next(result.differences(), None) is not None:
        ctx.exit(_HAS_DIFFERENCES)


@reconcile.command(example=f"{EXAMPLE_ID} --by Ann --and Ben")
@click.argument("statement_id")
@two_people()
def undo(statement_id: str, by: str, second: str) -> None:
    """Remove an import and its differences, unless the review of one has ended.

    The same file can be imported again afterwards.
    """
    statements = services().provider_statements
    with progress():
        undone = statements.undo(messages.UndoImport(statement_id, by, second), operator_context())
        while statements.clean():
            continue
    document = {"statement_id": undone.statement_id, "file_name": undone.file_name, "removed": True}
    show(document, f"The import of {undone.file_name} is removed.")


@reconcile.group()
def review() -> None:
    """Differences that wait for an operator."""


@review.command(name="list")
@click.option("--statement", "statement_id", help="The differences of one statement, ended ones too.")
@click.option("--all", "shows_all", is_flag=True, help="Show every difference, not only the first 50.")
def list_(statement_id: str | None, shows_all: bool) -> None:
    """Show the differences whose review is open, newest first."""
    differences: list[messages.DifferenceView] = []
    cursor = None
    while True:
        wanted = messages.ListDifferences(statement_id, cursor=cursor, limit=_PAGE)
        page = services().differences.list(wanted, operator_context())
        differences += page.items
        cursor = page.next_cursor
        if cursor is None or (len(differences) > _MOST_SHOWN and not shows_all and not wants_json()):
            break
    first = differences if shows_all else differences[:_MOST_SHOWN]
    sentence = "\n".join(map(_sentence_of_review, first)) or "No difference waits for a review."
    if len(differences) > len(first):
        sentence += "\nThere are more; --all shows them."
    show({"items": [_plain_difference(each) for each in differences]}, sentence)


@review.command(example=f"{EXAMPLE_ID} --reason 'Known' --by Ann")
@click.argument("difference_id", metavar="ID")
@click.option("--reason", required=True, help="What explains the difference.")
@click.option("--by", default="operator", help="Your name.")
def end(difference_id: str, reason: str, by: str) -> None:
    """End the review of a difference that is explained. No money moves."""
    ended = services().differences.end(messages.EndDifference(difference_id, reason, by), operator_context())
    show(_plain_difference(ended), _sentence_of_review(ended))


@review.command(example=f"{EXAMPLE_ID} --reason 'Line 12' --by Ann --and Ben")
@click.argument("difference_id", metavar="ID")
@click.option("--reason", required=True, help="How you know; the client reads it.")
@two_people()
def conclude(difference_id: str, reason: str, by: str, second: str) -> None:
    """Set a payment to succeeded, as the provider's statement says, and move its money.

    For a payment that has no outcome, or failed, here; two people must agree.
    """
    ended = services().differences.conclude(
        messages.ConcludeFromStatement(difference_id, reason, by, second), operator_context()
    )
    show(_plain_difference(ended), _sentence_of_review(ended))


reconcile.add_command(layout)
reconcile.add_command(layouts)


@contextmanager
def _csv_writer(path: Path | None) -> Iterator[Callable[[messages.ComparedLine], object]]:
    """Give a function that writes a line's result; the file appears when all are written."""
    if path is None:
        yield lambda _: None
        return
    if path.exists() and not path.is_file():
        # A device or a pipe, such as /dev/stdout, is written to; a file would take its place.
        with path.open("w", encoding="utf-8", newline="") as file:
            yield line_writer(file, messages.ComparedLine)
        return
    path = path.resolve()
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            yield line_writer(file, messages.ComparedLine)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _plain_difference(difference: messages.DifferenceView) -> dict[str, Any]:
    return {**asdict(difference), **_written_line(difference)}


def _print_json(result: messages.Reconciliation) -> None:
    """Print one document; the differences one by one, because there may be very many."""
    seen = result.statement
    statement_id = json.dumps(seen.statement_id if result.is_stored else None)
    click.echo(f'{{\n  "statement_id": {statement_id},\n  "lines": {json.dumps(dict(seen.lines))},', nl=False)
    click.echo('\n  "differences": [', nl=False)
    separator = ""
    for each in result.differences():
        click.echo(f"{separator}\n    {json.dumps(_written_line(each), ensure_ascii=False)}", nl=False)
        separator = ","
    sums = {name: shillings(cents) for name, cents in _sums(result).items()}
    balance = result.balance and written_balance(result.balance)
    click.echo(f'\n  ],\n  "sums": {json.dumps(sums)},\n  "balance": {json.dumps(balance)}\n}}')


def _print_sentences(result: messages.Reconciliation, most: int | None) -> None:
    view = result.statement
    for each in islice(result.differences(), most):
        click.echo(_sentence(each))
    if most is not None and view.difference_count > most:
        click.echo(f"and {view.difference_count - most:,} more differences; --all shows them")
    click.echo(
        f"{view.account}, {view.first_at:%Y-%m-%d %H:%M} to {view.last_at:%Y-%m-%d %H:%M} UTC: "
        + ", ".join(f"{count} {verdict}" for verdict, count in sorted(view.lines.items()))
    )
    click.echo(", ".join(f"{name} {written_amount(cents)}" for name, cents in _sums(result).items()))
    if result.balance is not None:
        expected, balance = map(written_amount, (result.balance.expected_cents, result.balance.found_cents))
        click.echo(f"line {result.balance.line}  balance {balance}, and {expected} would follow")
    if result.is_repeat:
        click.echo("This file was imported before; nothing was stored.")
    elif not result.is_stored:
        needs = f"{result.doubt} Storing it needs --yes." if result.doubt else ""
        click.echo(f"This was a dry run; nothing was stored. {needs}".rstrip())
    if result.is_stored:
        click.echo(f"Statement {view.statement_id}")


def _sums(result: messages.Reconciliation) -> dict[str, int]:
    ours, theirs = result.statement.ours_cents, result.statement.theirs_cents
    return {"ours": ours, "theirs": theirs, "difference": ours - theirs}


def _sentence(each: messages.ComparedLine | messages.DifferenceView) -> str:
    place = "no line" if each.line is None else f"line {each.line}"
    ours, theirs = (
        written_amount(side) if isinstance(side, int) else side or "nothing" for side in (each.ours, each.theirs)
    )
    names = [each.provider_id, each.reference, each.dated, each.party]
    about = f", transaction {each.transaction_id}" if each.transaction_id else ""
    if each.transaction_id and each.verdict is messages.Verdict.NOT_OURS:
        about += ", which another line matches already"
    return f"{place}  {each.verdict}: ours {ours}, theirs {theirs}  {'  '.join(filter(None, names))}{about}"


def _sentence_of_review(difference: messages.DifferenceView) -> str:
    ending = f"  ended by {difference.ended_by}: {difference.reason}" if difference.ended_at else ""
    ending += f"  movement {difference.movement_id}" if difference.movement_id else ""
    return f"{difference.difference_id}  {difference.file_name}  {_sentence(difference)}{ending}"
