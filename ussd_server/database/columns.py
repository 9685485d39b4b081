"""Column types, the base class of all tables, and inserts of many rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson
from peewee import SQL, BigIntegerField, Field, Model, TextField

from ussd_server.database.unit_of_work import database, dialect, run_query
from ussd_server.values import iso_milliseconds


class IdField(Field):
    """A UUID, in Python lower-case text with dashes."""

    field_type = "UUID"

    def python_value(self, value: Any) -> str | None:
        return None if value is None else str(value)


class MomentField(Field):
    """A moment in UTC with milliseconds: `timestamptz` on PostgreSQL, sortable ISO 8601 text on SQLite."""

    field_type = "TIMESTAMPTZ"

    def db_value(self, value: datetime | None) -> str | None:
        return None if value is None else iso_milliseconds(value)

    def python_value(self, value: datetime | str | None) -> datetime | None:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        return None if value is None else value.astimezone(UTC)


class CentsField(BigIntegerField):
    """Money in whole cents. Raises TypeError unless the value is an `int`: Peewee rounds 1.9 to 1 and accepts True."""

    def db_value(self, value: Any) -> int | None:
        if value is not None and type(value) is not int:
            raise TypeError("money is whole cents in an int")
        return value

    adapt = db_value


class JsonField(TextField):
    """A JSON document, stored as text on both databases."""

    def db_value(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def python_value(self, value: str | None) -> Any:
        return None if value is None else json.loads(value)


class PeopleField(TextField):
    """Ids of people, in Python a frozenset."""

    def db_value(self, value: Collection[str] | None) -> str | None:
        return None if value is None else " ".join(sorted(value))

    def python_value(self, value: str | None) -> frozenset[str] | None:
        return None if value is None else frozenset(value.split())


def _plural(table: type[Model]) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", table.__name__).lower() + "s"


class Table(Model):
    """A table of the open database. `DeliveryAttempt` is `delivery_attempts`; other names are in `Meta`."""

    class Meta:
        database = database
        table_function = _plural


def values_of(row: Table) -> dict[str, Any]:
    """Return the columns of a row that are not null, converted for the database."""
    converters = _converters(type(row))
    return {
        name: converters[name](value) if name in converters else value
        for name, value in row.__data__.items()
        if value is not None
    }


@cache
def _converters(table: type[Table]) -> dict[str, Callable[[Any], Any]]:
    """Return the converter of each column that needs one."""
    fields = table._meta.fields.items()
    converted = MomentField | CentsField | JsonField | PeopleField
    return {name: field.db_value for name, field in fields if isinstance(field, converted)}


def written_moment(column: MomentField) -> Any:
    """Select a column as the text that `iso_milliseconds` returns: cheaper than making a datetime first."""
    return SQL(dialect().moment(column.column_name))


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
