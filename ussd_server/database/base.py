"""The database: how a unit of work begins and ends, and the column types every table shares."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import count
from random import getrandbits
from typing import Any

import psycopg
from peewee import (
    BigIntegerField,
    DatabaseProxy,
    Field,
    InterfaceError,
    Model,
    OperationalError,
    PostgresqlDatabase,
    TextField,
    fn,
)
from playhouse.pool import (
    MaxConnectionsExceeded,
)

from ussd_server.database.connections import Connection, database_at


class _Database(DatabaseProxy):
    """Stands for the open database, in its own kind of transaction; Peewee's proxy knows one kind only."""

    def atomic(self, *given: Any, **named: Any) -> Any:
        """A transaction, or a savepoint within one."""
        return self.obj.atomic(*given, **named)


database = _Database()

DATABASE_TROUBLE = (OperationalError, InterfaceError, MaxConnectionsExceeded)
"""What is raised when the database is away, overloaded or full: the call may be tried again later."""

# Deadlock, serialization, a lock or a statement that took too long: the server has rolled back, and lives.
_ROLLED_BACK = ("40P01", "40001", "55P03", "57014")

_ids_made = count(getrandbits(31))
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def open_database(url: str, max_connections: int) -> None:
    """Bind all tables to the database at `url` (`sqlite:///...` or `postgresql://...`).

    Raises ValueError for any other kind of address. Nothing is connected yet.
    """
    database.initialize(database_at(url, max_connections))


def is_postgres() -> bool:
    """Whether the open database is PostgreSQL."""
    return isinstance(database.obj, PostgresqlDatabase)


def unit_of_work() -> AbstractContextManager[Any]:
    """One database transaction; it begins as a writer on SQLite, so that what it reads first stays true."""
    block: AbstractContextManager[Any] = database.atomic()
    return block


@contextmanager
def without_timeouts() -> Iterator[None]:
    """Let PostgreSQL take as long as it needs over this thread's statements; its own timeouts stay as they are."""
    if not is_postgres():
        yield
        return
    connection = database.connection()
    connection.answer_seconds = None
    try:
        yield
    finally:
        connection.answer_seconds = Connection.answer_seconds


def release_connection() -> None:
    """Give this thread's connection back to the pool, if it took one."""
    if database.obj is not None and not database.is_closed():
        database.close()


def close_connections() -> None:
    """Close this thread's connection and every idle one, because the server went away or the work is over."""
    release_connection()
    database.close_idle()


def is_reachable() -> bool:
    """Whether the database answers a trivial query now."""
    try:
        database.execute_sql("SELECT 1").fetchone()
    except DATABASE_TROUBLE:
        close_connections()
        return False
    return True


def database_now() -> datetime:
    """The database's own time (UTC)."""
    if is_postgres():
        (moment,) = database.execute_sql("SELECT clock_timestamp()").fetchone()
        return MomentField().python_value(moment)  # type: ignore[return-value]
    (text,) = database.execute_sql("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')").fetchone()
    return datetime.fromisoformat(text)


def was_rolled_back(trouble: Exception) -> bool:
    """Whether a database in trouble said itself that nothing was changed, and can be asked again at once."""
    cause = getattr(trouble, "orig", None)
    return isinstance(cause, psycopg.Error) and cause.sqlstate in _ROLLED_BACK


def new_id(moment: datetime, after: str | None = None) -> str:
    """Return a version 7 UUID for a row made at `moment` (UTC): rows made later sort later.

    Ids of one process and one millisecond sort in the order in which they were made. Clocks of several processes
    differ: an id that certainly follows another, whatever the clocks say, is made `after` that.
    """
    # 32 bits of counter, which begins below its middle so that it never wraps, and 40 random bits.
    made = f"{next(_ids_made) & 0xFFFFFFFF:08x}"
    rest = f"7{made[:3]}-8{made[3:6]}-{made[6:]}{getrandbits(40):010x}"
    made_id = f"{_time_part(moment)}-{rest}"
    if after is None or made_id > after:
        return made_id
    return f"{_time_digits(int(after[:8] + after[9:13], 16) + 1)}-{rest}"


def new_id_floor(moment: datetime) -> str:
    """The smallest id that a row made at `moment` can have: comparing ids with it compares times."""
    return f"{_time_part(moment)}-7000-8000-000000000000"


@lru_cache(maxsize=256)
def _time_part(moment: datetime) -> str:
    """The first 48 bits of an id that is made at `moment`."""
    return _time_digits(max(0, int(moment.timestamp() * 1000)))


def _time_digits(milliseconds: int) -> str:
    digits = f"{milliseconds:012x}"[-12:]
    return f"{digits[:8]}-{digits[8:]}"


def is_id(text: str) -> bool:
    """Whether `text` is an id in its one form: lower-case hexadecimal with dashes."""
    return bool(_ID.fullmatch(text))


def for_update(rows: Any) -> Any:
    """Lock the rows of a query until the unit of work ends; SQLite's writer has locked everything already.

    `FOR NO KEY UPDATE`, because the stronger lock deadlocks with the foreign keys that point at these rows.
    """
    return rows.for_update("FOR NO KEY UPDATE") if is_postgres() else rows


def skip_locked(rows: Any) -> Any:
    """Lock those rows of a query that nobody else holds, until the unit of work ends, and leave the others out."""
    return rows.for_update("FOR NO KEY UPDATE SKIP LOCKED") if is_postgres() else rows


def advisory_lock(lane: int) -> None:
    """Let one unit of work at a time pass here, over all processes; SQLite's writer is alone already."""
    if is_postgres():
        database.execute_sql("SELECT pg_advisory_xact_lock(%s)", (lane,))


class IdField(Field):
    """A UUID, as lower-case text with dashes on the inside."""

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
    """Money in whole cents. Refuses whatever is not exactly an `int`, because Peewee cuts 1.9 to 1 and takes True."""

    def db_value(self, value: Any) -> int | None:
        if value is not None and type(value) is not int:
            raise TypeError("money is whole cents in an int")
        return value

    adapt = db_value


class JsonField(TextField):
    """A JSON document kept as text, the same on both databases."""

    def db_value(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def python_value(self, value: str | None) -> Any:
        return None if value is None else json.loads(value)


class Table(Model):
    """What every table is: a model bound to the one database."""

    class Meta:
        database = database
        legacy_table_names = False


def values_of(row: Table) -> dict[str, Any]:
    """The columns of a row that are not null, as the database takes them."""
    converters = _converters(type(row))
    return {
        name: converters[name](value) if name in converters else value
        for name, value in row.__data__.items()
        if value is not None
    }


@cache
def _converters(table: type[Table]) -> dict[str, Callable[[Any], Any]]:
    """How values become what the database takes, for the columns that do not take them as they are."""
    fields = table._meta.fields.items()
    return {name: field.db_value for name, field in fields if isinstance(field, MomentField | CentsField | JsonField)}


@lru_cache(maxsize=256)
def iso_milliseconds(moment: datetime) -> str:
    """`2026-11-20T08:15:30.123Z`: the one form in which moments are written (wire contract 1)."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return f"{in_utc.isoformat(timespec='milliseconds')[:-6]}Z"


def written_moment(column: MomentField) -> Any:
    """A column of moments as `iso_milliseconds` writes them: a query is given text, and no datetime is made of it."""
    if is_postgres():
        return fn.to_char(fn.timezone("UTC", column), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    return column
