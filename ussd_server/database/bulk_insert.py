"""Inserts many rows in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ussd_server.database.columns import Table
from ussd_server.database.unit_of_work import dialect, run_query

_MOST_ROWS = 1000


def insert_rows(table: type[Table], rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, each with its values by column as `values_of` returns them; a column that is missing is null.

    Call inside a unit of work, because many rows take several statements.
    """
    meta: Any = table._meta
    columns = ", ".join(meta.columns)
    insert = f"INSERT INTO {meta.table_name} ({columns}) {dialect().rows_of(meta.table_name, meta.columns)}"
    for start in range(0, len(rows), _MOST_ROWS):
        run_query(insert, rows=orjson.dumps(rows[start : start + _MOST_ROWS]).decode())
