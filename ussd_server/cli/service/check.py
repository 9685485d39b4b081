"""`check`: verify money, status histories, events and the schema."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import click

from ussd_server.cli import open_services, show, with_json
from ussd_server.cli.progress import progress
from ussd_server.services.operations.book_check.check import MarkError, Violation, check_ranges
from ussd_server.services.operations.book_check.examinations import keep_check
from ussd_server.services.operations.messages import BoundedCheck

_MOST_IN_JSON = 1000
_MOST_ROWS = 1_000_000


@click.command
@click.option("--from", "mark", metavar="MARK", help="Continue from the mark that an earlier check printed.")
@click.option("--batch", default=10_000, show_default=True, type=click.IntRange(1, _MOST_ROWS), help="Rows in a range.")
@click.option(
    "--ranges", type=click.IntRange(min=1), help="Stop after so many ranges and print the mark to continue from."
)
@with_json
def check(mark: str | None, batch: int, ranges: int | None, as_json: bool) -> None:
    """Check balances, holds, statuses, histories, events, names and the schema.

    May run while the service does. Prints a sentence for every violation, and exits with 1 if there is one. An
    interrupted check prints the mark from which the next one can continue.
    """
    rows: Counter[str] = Counter()
    found: list[Violation] = []
    number, is_whole = 0, mark is None
    try:
        with open_services() as services, progress("rows") as show_rows:
            for checked in check_ranges(mark, batch, services.clock.now(), services.runtime.vault):
                rows[checked.part] += checked.rows
                show_rows(rows.total())
                found += checked.violations[: _MOST_IN_JSON - len(found)]
                number += len(checked.violations)
                if not as_json:
                    for violation in checked.violations:
                        click.echo(str(violation))
                mark = checked.mark
                ranges = ranges and ranges - 1
                if ranges == 0:
                    break
            checked_rows = BoundedCheck(dict(rows), tuple(map(str, found)), mark)
            keep_check(checked_rows, services.clock.now(), is_whole=is_whole)
    except MarkError as refusal:
        raise click.BadParameter(str(refusal), param_hint="--from") from None
    except BaseException:
        if mark:
            click.echo(f"Go on with --from {mark}", err=True)
        raise
    result = {"ok": not number, "rows": rows, "violations": list(map(asdict, found)), "number": number, "mark": mark}
    show(result, _summary(rows, number, mark), as_json=as_json)
    if number:
        raise SystemExit(1)


def _summary(rows: Counter[str], number: int, mark: str | None) -> str:
    seen = ", ".join("the schema" if part == "schema" else f"{count} {part}" for part, count in rows.items())
    decision = f"{number} violation{'s' * (number != 1)}" if number else "everything is as it must be"
    return f"Checked {seen}: {decision}." + (f"\nGo on with --from {mark}" if mark else "")
