"""Inserts many rows in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ussd_server.database.columns import Table
from ussd_server.database.unit_of_work import database, is_postgres

_MOST_ROWS = 1000


def insert_rows(table: type[Table], rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, each with its values by column as `values_of` returns them; a column that is missing is null.

    Call inside a unit of work: many rows take several statements.
    """
    meta: Any = table._meta
    columns = ", ".join(meta.columns)
    if is_postgres():
        source = f"SELECT {columns} FROM jsonb_populate_recordset(NULL::{meta.table_name}, %s::jsonb)"  # noqa: S608
    else:
        values = ", ".join(f"value ->> '{column}'" for column in meta.columns)
        source = f"SELECT {values} FROM json_each(?)"  # noqa: S608
    statement = f"INSERT INTO {meta.table_name} ({columns}) {source}"
    for start in range(0, len(rows), _MOST_ROWS):
        database.execute_sql(statement, (orjson.dumps(rows[start : start + _MOST_ROWS]).decode(),))
