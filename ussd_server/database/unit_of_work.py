"""The open database, its dialect, its transactions and group commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from peewee import DatabaseProxy, InterfaceError, OperationalError
from playhouse.pool import MaxConnectionsExceeded

from ussd_server.database.connections.postgres import postgres_pool, writable_host
from ussd_server.database.connections.sqlite import sqlite_pool
from ussd_server.database.dialect import Dialect
from ussd_server.database.postgres import Postgres
from ussd_server.database.sqlite import Sqlite
from ussd_server.threads import Batches, BatchLostError, Item


class _Database(DatabaseProxy):
    """The open database. `atomic` is overridden, because that of Peewee's proxy ignores the open database's."""

    def atomic(self, *given: Any, **named: Any) -> Any:
        """A transaction, or a savepoint within one."""
        return self.obj.atomic(*given, **named)


database = _Database()

DATABASE_TROUBLE = (OperationalError, InterfaceError, MaxConnectionsExceeded)
"""Raised when the database is unreachable, overloaded or has no free connection. A later retry may succeed."""


def open_database(url: str, max_connections: int, pooler: str | None = None) -> None:
    """Bind all tables to the database at `url` (`sqlite:///...` or `postgresql://...`).

    Closes the idle connections of the database that was open before. Connects to nothing yet. Raises ValueError for any
    other kind of address. `pooler` is that of `postgres_pool`.
    """
    opened = database_at(url, max_connections, pooler)
    if database.obj is not None:
        close_connections()
    database.initialize(opened.pool)


def database_at(url: str, max_connections: int, pooler: str | None = None) -> Dialect:
    """Return the dialect of the database at `url`, with its connection pool.

    Of several PostgreSQL hosts, the pool connects to the one that takes writes.
    """
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        return Sqlite(sqlite_pool(url.removeprefix("sqlite:///"), max_connections))
    if scheme in ("postgresql", "postgres"):
        return Postgres(postgres_pool(url, max_connections, pooler, **writable_host(url)))
    raise ValueError("the database address must begin with sqlite:/// or postgresql://")


def dialect() -> Dialect:
    """Return what differs by database, for the open one."""
    chosen: Dialect = database.obj.dialect
    return chosen


def is_postgres() -> bool:
    """Return whether the open database is PostgreSQL."""
    return isinstance(dialect(), Postgres)


def unit_of_work() -> AbstractContextManager[Any]:
    """Begin a database transaction. On SQLite it locks for writing at once, so that its first read stays valid."""
    block: AbstractContextManager[Any] = database.atomic()
    return block


@contextmanager
def long_unit_of_work(milliseconds: int = 30_000) -> Iterator[None]:
    """A unit of work whose statements may take this long each: some thousand rows take a busy database seconds."""
    with dialect().without_timeouts(), unit_of_work():
        dialect().allow_statements(milliseconds)
        yield


def release_connection() -> None:
    """Return this thread's connection to the pool, if it has one."""
    if database.obj is not None and not database.is_closed():
        database.close()


def close_connections() -> None:
    """Close this thread's connection and all idle ones, after a failure of the server or at the end of a process."""
    release_connection()
    database.close_idle()


def database_fault() -> str | None:
    """Return "away" when the database does not reply now, "read-only" when it takes no writes, else None."""
    try:
        if not dialect().is_read_only():
            return None
    except DATABASE_TROUBLE:
        close_connections()
        return "away"
    # After a failover, the next connection may reach the new primary.
    close_connections()
    return "read-only"


def database_now() -> datetime:
    """Return the time of the database's clock (UTC)."""
    return dialect().now()


def run_query(query: str, **given: Any) -> Any:
    """Run a query that names its parameters as `:name`; return its cursor."""
    return database.execute_sql(dialect().named(query), given)


def for_update(rows: Any) -> Any:
    """Lock the rows of a query until the unit of work ends; on SQLite a writer has locked the whole file."""
    return dialect().for_update(rows)


def skip_locked(rows: Any) -> Any:
    """Lock the rows of a query until the unit of work ends, and leave out rows that are locked already."""
    return dialect().skip_locked(rows)


def advisory_lock(number: int) -> None:
    """Take the advisory lock `number` until the unit of work ends, over all processes. SQLite has one writer anyway."""
    dialect().advisory_lock(number)


class GroupCommit(Batches[Item]):
    """Batches of items for the database."""

    def __init__(self, ask: Callable[[Sequence[Item]], None], most: int = 64) -> None:
        """`ask` processes all items in one transaction, or none, and stores the results in the items."""
        super().__init__(ask, most, _was_undone)

    def do(self, item: Item) -> Sequence[Item]:
        """As `Batches.do`. Raises OperationalError when it is unknown whether the item was committed."""
        try:
            return super().do(item)
        except BatchLostError:
            raise OperationalError("the database failed while it worked on a batch") from None


def _was_undone(error: Exception) -> bool:
    return not isinstance(error, DATABASE_TROUBLE) or dialect().was_rolled_back(error)
