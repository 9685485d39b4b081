"""`check`: verify money, status histories, events and the schema."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import datetime

import click

from ussd_server.cli import services
from ussd_server.cli.commands import command, progress, show, wants_json
from ussd_server.services.operations.book_check.check import MarkError, Violation, check_ranges
from ussd_server.services.operations.book_check.examinations import keep_check, recent_since
from ussd_server.services.operations.book_check.sums import AccountSums, Shortfall, account_sums, shortfalls
from ussd_server.services.operations.messages import BoundedCheck, rows_in_words
from ussd_server.values import written_amount

_MOST_IN_JSON = 1000
_MOST_ROWS = 1_000_000


@command()
@click.option("--from", "mark", metavar="MARK", help="Continue from the mark that an earlier check printed.")
@click.option("--batch", default=10_000, show_default=True, type=click.IntRange(1, _MOST_ROWS), help="Rows in a range.")
@click.option(
    "--ranges", type=click.IntRange(min=1), help="Stop after so many ranges and print the mark to continue from."
)
@click.option("--full", is_flag=True, help="Check everything, however old.")
def check(mark: str | None, batch: int, ranges: int | None, full: bool) -> None:
    """Check balances, holds, statuses, histories, events, names and the schema.

    May run while the service does. Prints a sentence for every violation, and exits with 1 if there is one. An
    interrupted check prints the mark from which the next one can continue.

    Once a month, and after a violation, everything is checked. In between, accounts with all their
    transfers, and of the rest what began since 31 days before the last full check.
    """
    rows: Counter[str] = Counter()
    violations: list[Violation] = []
    number, is_whole, since = 0, mark is None, None
    try:
        with progress("rows") as show_rows:
            since = None if full else recent_since(services().clock.now())
            for checked in check_ranges(mark, batch, services().clock.now(), services().runtime.vault, since):
                rows[checked.part] += checked.rows
                show_rows(rows.total())
                violations += checked.violations[: _MOST_IN_JSON - len(violations)]
                number += len(checked.violations)
                if not wants_json():
                    for violation in checked.violations:
                        click.echo(str(violation))
                mark = checked.mark
                ranges = ranges and ranges - 1
                if ranges == 0:
                    break
            checked_rows = BoundedCheck(dict(rows), tuple(map(str, violations)), mark)
            keep_check(checked_rows, services().clock.now(), is_whole=is_whole, since=since)
    except MarkError as refusal:
        raise click.BadParameter(str(refusal), param_hint="--from") from None
    except BaseException:
        if mark:
            click.echo(_go_on(mark, since), err=True)
        raise
    result = {
        "ok": not number,
        "rows": rows,
        "violations": list(map(asdict, violations)),
        "number": number,
        "mark": mark,
        "since": since,
        "movements": (sums := account_sums()),
        "shortfalls": (owed := shortfalls()),
    }
    show(result, "\n".join([_summary(rows, number, mark, since), *map(_of_sums, sums), *map(_of_shortfall, owed)]))
    if number:
        raise SystemExit(1)


def _summary(rows: Counter[str], number: int, mark: str | None, since: datetime | None) -> str:
    decision = f"{number} violation{'s' * (number != 1)}" if number else "everything is as it must be"
    of = f", of all since {since:%Y-%m-%d}" if since else ""
    return f"Checked {rows_in_words(rows)}{of}: {decision}." + (f"\n{_go_on(mark, since)}" if mark else "")


def _of_sums(sums: AccountSums) -> str:
    ledger, used, held = map(written_amount, (sums.ledger_cents, sums.used_cents, sums.held_cents))
    return f"{sums.account}: {ledger} in the ledger, {used} by its movements, {held} held."


def _of_shortfall(owed: Shortfall) -> str:
    return f"Client {owed.client_id} has a shortfall of {written_amount(owed.amount_cents)}."


def _go_on(mark: str, since: datetime | None) -> str:
    return f"Go on with --from {mark}" + ("" if since else " --full")
