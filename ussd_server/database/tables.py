"""Tables: column types, rows, and compiled queries, whose SQL Peewee generates once.

For a wide table, generating a statement takes longer than running it. `Model._meta` is no private part: Peewee
documents it as the way to the name, the columns and the fields of a table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar

import orjson
from peewee import AsIs, BigIntegerField, Field, Model, Query, TextField

from ussd_server.database.unit_of_work import database, dialect, for_update, run_query
from ussd_server.values import iso_milliseconds
from ussd_server.wire import columns_of

_MOST_ROWS = 1000


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

    def change(self, **columns: Any) -> None:
        """Set some columns of the row, and save these alone."""
        for name, value in columns.items():
            setattr(self, name, value)
        self.save(only=list(columns))

    @classmethod
    def put(cls, key: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
        """Insert a row, or set these columns of the row that has the key, which is unique."""
        conflict_target = [getattr(cls, name) for name in key]
        cls.insert(**key, **columns).on_conflict(conflict_target=conflict_target, update=columns).execute()


def fixed(column: Any) -> Any:
    """Mark a column that never changes: a rule in `schema/` refuses it, and a test compares both."""
    column.is_fixed = True
    return column


def fixed_columns(table: type[Table]) -> list[str]:
    """Return the names of the columns that never change."""
    return [name for name, column in table._meta.columns.items() if getattr(column, "is_fixed", False)]


Row = TypeVar("Row", bound=Table)


def values_of(row: Table) -> dict[str, Any]:
    """Return the columns of a row that are not null, converted for the database."""
    converters = _converters(type(row))
    return {
        name: converters[name](value) if name in converters else value
        for name, value in columns_of(row).items()
        if value is not None
    }


def row_of(table: type[Row], columns: Mapping[str, Any]) -> Row:
    """Return a row of these columns without the defaults of the others, which no query has written.

    The constructor of the model takes 46 us for the 51 columns of a payment, this takes 4.
    """
    row = table(__no_default__=True)
    columns_of(row).update(columns)
    return row


@cache
def _converters(table: type[Table]) -> dict[str, Callable[[Any], Any]]:
    fields = table._meta.fields.items()
    converted = MomentField | CentsField | JsonField | PeopleField
    return {name: field.db_value for name, field in fields if isinstance(field, converted)}


def insert_rows(table: type[Table], rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, each with its values by column as `values_of` returns them; a column that is missing is null.

    Call inside a unit of work, because many rows take several statements.
    """
    meta: Any = table._meta
    columns = ", ".join(meta.columns)
    insert = f"INSERT INTO {meta.table_name} ({columns}) {dialect().rows_of(meta.table_name, meta.columns)}"
    for start in range(0, len(rows), _MOST_ROWS):
        run_query(insert, rows=orjson.dumps(rows[start : start + _MOST_ROWS]).decode())


class _Parameter(NamedTuple):
    """A parameter of a query; each call gives its value."""

    name: str
    convert: Callable[[Any], Any]


class _Column(NamedTuple):
    """A column of the result. `read` converts the database's value; None keeps it as it is."""

    name: str
    read: Callable[[Any], Any] | None


class _Written:
    def __init__(self, sql: str, parameters: Sequence[Any]) -> None:
        self.sql = sql
        # The name of a parameter with its converter, or None with a constant.
        self.parameters: list[tuple[str | None, Any]] = [
            (each.name, each.convert) if isinstance(each, _Parameter) else (None, each) for each in parameters
        ]
        self.columns: list[_Column] = []


def param(field: Field, name: str = "") -> Any:
    """Return a parameter with the type of `field`, named `name` or as the field."""
    return AsIs(_Parameter(name or field.name, field.db_value), converter=False)


class CompiledQuery:
    """A query with parameters. `make` builds it at its first use, once for each kind of database."""

    def __init__(self, make: Callable[[], Query]) -> None:
        self._make = make
        self._written: dict[type, _Written] = {}

    def rows(self, model: Any, **values: Any) -> list[Any]:
        """Run a SELECT; return rows of `model`. Further selected columns are attributes with their names."""
        return _rows(model, *self._ask(values))

    def first(self, model: Any, **values: Any) -> Any:
        """Run a SELECT; return its first row as `rows` does, or None."""
        return next(iter(self.rows(model, **values)), None)

    def tuples(self, **values: Any) -> list[Any]:
        """Run a SELECT; return tuples of the database's own values, without conversion."""
        _, cursor = self._ask(values)
        return list(cursor.fetchall())

    def run(self, **values: Any) -> int:
        """Run an INSERT or UPDATE; return the number of rows it changed."""
        _, cursor = self._ask(values)
        return int(database.rows_affected(cursor))

    def _ask(self, values: dict[str, Any]) -> tuple[_Written, Any]:
        written = self._words()
        return written, database.execute_sql(written.sql, _filled(written, values))

    def _words(self) -> _Written:
        kind = type(database.obj)
        written = self._written.get(kind)
        if written is None:
            written = self._written[kind] = _Written(*self._make().sql())
        return written


def find_row(table: type[Row], row_id: str) -> Row:
    """Return the row with this id, of a table whose rows are never removed: it exists."""
    return _the_one(table, _by_id(table, is_locked=False), row_id)


def lock_row(table: type[Row], row_id: str) -> Row:
    """As `find_row`, and lock the row until the unit of work ends."""
    return _the_one(table, _by_id(table, is_locked=True), row_id)


@cache
def _by_id(table: type[Table], *, is_locked: bool) -> CompiledQuery:
    key: Any = table._meta.primary_key
    rows = table.select().where(key == param(key, "row_id"))
    return CompiledQuery(lambda: for_update(rows) if is_locked else rows)


def _the_one(table: type[Row], rows: CompiledQuery, row_id: str) -> Row:
    row: Row | None = rows.first(table, row_id=row_id)
    assert row is not None, "a row of an id that is known is never removed"
    return row


def _filled(written: _Written, values: dict[str, Any]) -> list[Any]:
    return [each if name is None else each(values[name]) for name, each in written.parameters]


def _rows(model: Any, written: _Written, cursor: Any) -> list[Any]:
    if not written.columns:
        fields = model._meta.fields
        names = [column[0] for column in cursor.description]
        written.columns = [_Column(name, fields[name].python_value if name in fields else None) for name in names]
    return [_row(model, written.columns, values) for values in cursor.fetchall()]


def _row(model: Any, columns: list[_Column], values: Sequence[Any]) -> Any:
    row = row_of(model, {})
    kept = columns_of(row)
    for (name, read), value in zip(columns, values, strict=True):
        if read is not None:
            kept[name] = read(value)
        else:
            setattr(row, name, value)
    return row
