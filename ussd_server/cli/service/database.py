"""`database`: the rules that the database keeps by itself."""

from __future__ import annotations

from ussd_server.cli.commands import group, show_lines
from ussd_server.database.tables import Table, fixed_columns


@group()
def database() -> None:
    """What the database keeps by itself, at its prompt too."""


@database.command()
def rules() -> None:
    """Show the columns of each table that never change, as their classes mark them.

    The triggers that keep them are compared by `ussd-server check`.
    """
    columns = {table._meta.table_name: fixed_columns(table) for table in Table.__subclasses__()}
    marked = [{"table": table, "never_changes": names} for table, names in sorted(columns.items()) if names]
    lines = (f"{each['table']}: {', '.join(each['never_changes'])}" for each in marked)
    show_lines(marked, lines, "No column is fixed.")
