"""`database`: the rules that the database keeps by itself."""

from __future__ import annotations

from collections import defaultdict

from ussd_server.cli.commands import group, show_lines
from ussd_server.database.fixed_columns import fixed_columns


@group()
def database() -> None:
    """What the database keeps by itself, at its prompt too."""


@database.command()
def rules() -> None:
    """Show the columns of each table that never change, as the SQL of the tables marks them.

    The triggers that keep them are compared by `ussd-server check`.
    """
    columns = defaultdict(list)
    for each in fixed_columns():
        columns[each.table].append(each.column)
    rows = [{"table": table, "never_changes": names} for table, names in sorted(columns.items())]
    show_lines(rows, (f"{each['table']}: {', '.join(each['never_changes'])}" for each in rows), "No column is fixed.")
