"""Columns that never change: `-- fixed` stands behind the column in the SQL of its table.

Rules in SQL write `fixed(NEW, payouts)` for the columns that are marked where their table is created.
`-- fixed by transactions_payout` names the trigger that keeps a column by itself. For a column that a migration adds,
the mark makes the trigger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from ussd_server.database.unit_of_work import is_postgres

_FOLDER = Path(__file__).parent
# A migration of one statement may end with quotes.
_MARK = re.compile(r" -- fixed(?: by (\w+))?(?=$|\")", re.MULTILINE)
_TABLE = re.compile(r"(CREATE|ALTER) TABLE (?:IF NOT EXISTS )?(\w+)")
_COLUMN = re.compile(r".* ADD COLUMN (?:IF NOT EXISTS )?(\w+)|    (\w+)")
_LIST = re.compile(r"fixed\((NEW|OLD), (\w+)\)")


class FixedColumn(NamedTuple):
    """A column that never changes. `rule` is the trigger that its mark names; `is_added`: a migration adds it."""

    table: str
    column: str
    rule: str | None
    is_added: bool


def fixed_columns(table: str = "") -> list[FixedColumn]:
    """Return the marked columns of a table, or of every table, in the order of the files."""
    return [each for each in _all() if each.table == (table or each.table)]


def with_lists(text: str) -> str:
    """Return SQL with the columns for which `fixed(NEW, table)` stands, and without marks."""

    def columns(found: re.Match[str]) -> str:
        row, table = found.groups()
        marked = [each for each in fixed_columns(table) if each.rule is None and not each.is_added]
        names = ", ".join(f"{row}.{each.column}" for each in marked)
        return fill(names, 110, initial_indent=" " * 8, subsequent_indent=" " * 8).lstrip()

    return _LIST.sub(columns, _MARK.sub("", text))


def add_rules(db: Any, text: str) -> None:
    """Create the trigger of each column that a text adds with a mark which names no trigger."""
    for each in _marked(text):
        if each.is_added and each.rule is None:
            name, event = f"{each.table}_{each.column}_fixed", f"UPDATE OF {each.column}"
            refuse(db, name, event, each.table, f"NEW.{each.column} {{differs}} OLD.{each.column}")


def refuse(db: Any, name: str, event: str, table: str, condition: str = "") -> None:
    """Create a trigger that refuses a change; without a condition, every one. `{differs}` compares null as a value."""
    condition = condition.format(differs="IS DISTINCT FROM" if is_postgres() else "IS NOT")
    if is_postgres():
        when = f"WHEN ({condition}) " if condition else ""
        action = f"FOR EACH ROW {when}EXECUTE FUNCTION refuse_change()"
    else:
        when = f"WHEN {condition} " if condition else ""
        action = f"{when}BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed or removed'); END"
    db.execute_sql(f"CREATE TRIGGER {name} BEFORE {event} ON {table} {action}")


@cache
def _all() -> tuple[FixedColumn, ...]:
    paths = [*sorted(_FOLDER.glob("schema/tables/*.sql")), *sorted(_FOLDER.glob("migrations/*.py"))]
    return tuple(each for path in paths for each in _marked(path.read_text(encoding="utf-8")))


def _marked(text: str) -> Iterator[FixedColumn]:
    statement, table = "", ""
    for line in text.splitlines():
        if begun := _TABLE.search(line):
            statement, table = begun.groups()
        if (mark := _MARK.search(line)) and (column := _COLUMN.match(line)):
            yield FixedColumn(table, column[1] or column[2], mark[1], statement == "ALTER")
