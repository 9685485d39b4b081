"""The open database, its transactions and its locks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
from peewee import DatabaseProxy, InterfaceError, OperationalError, PostgresqlDatabase
from playhouse.pool import MaxConnectionsExceeded

from ussd_server.database.connections import Connection, database_at


class _Database(DatabaseProxy):
    """The open database. `atomic` is that of the open database; Peewee's proxy has its own."""

    def atomic(self, *given: Any, **named: Any) -> Any:
        """A transaction, or a savepoint within one."""
        return self.obj.atomic(*given, **named)


database = _Database()

DATABASE_TROUBLE = (OperationalError, InterfaceError, MaxConnectionsExceeded)
"""Raised when the database is unreachable, overloaded or has no free connection. A later retry may succeed."""

# Deadlock, serialization failure, lock timeout, statement timeout: the server rolled back and is available.
_ROLLED_BACK = ("40P01", "40001", "55P03", "57014")


def open_database(url: str, max_connections: int) -> None:
    """Bind all tables to the database at `url` (`sqlite:///...` or `postgresql://...`).

    Closes what is idle at the database that was open before. Connects to nothing yet. Raises ValueError for any other
    kind of address.
    """
    opened = database_at(url, max_connections)
    if database.obj is not None:
        close_connections()
    database.initialize(opened)


def is_postgres() -> bool:
    """Return whether the open database is PostgreSQL."""
    return isinstance(database.obj, PostgresqlDatabase)


def unit_of_work() -> AbstractContextManager[Any]:
    """Begin a database transaction. On SQLite it locks for writing at once, so that its first read stays valid."""
    block: AbstractContextManager[Any] = database.atomic()
    return block


@contextmanager
def without_timeouts() -> Iterator[None]:
    """Wait for replies to this thread's statements without a limit. The timeouts of PostgreSQL itself stay."""
    if not is_postgres():
        yield
        return
    with _held_connection() as connection:
        connection.answer_seconds = None
        try:
            yield
        finally:
            connection.answer_seconds = Connection.answer_seconds


@contextmanager
def _held_connection() -> Iterator[Connection]:
    """Keep this thread's connection for the block, and return it to the pool if the block took it."""
    is_borrowed = database.is_closed()
    try:
        yield database.connection()
    finally:
        if is_borrowed:
            release_connection()


@contextmanager
def all_prepared() -> Iterator[None]:
    """Prepare this thread's statements on PostgreSQL at their first use; otherwise psycopg waits for the sixth."""
    if not is_postgres():
        yield
        return
    with _held_connection() as connection:
        threshold, connection.prepare_threshold = connection.prepare_threshold, 0
        try:
            yield
        finally:
            connection.prepare_threshold = threshold


@contextmanager
def without_syncs() -> Iterator[None]:
    """On SQLite, let this thread's commits not wait for the disk. A power cut may lose them, but damages nothing."""
    if is_postgres():
        yield
        return
    database.connect(reuse_if_open=True)
    database.execute_sql("PRAGMA synchronous = NORMAL")
    try:
        yield
    finally:
        database.execute_sql("PRAGMA synchronous = FULL")


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
    # The setting is on in a standby too.
    question = "SELECT current_setting('transaction_read_only')" if is_postgres() else "SELECT 'off'"
    try:
        (is_read_only,) = database.execute_sql(question).fetchone()
    except DATABASE_TROUBLE:
        close_connections()
        return "away"
    if is_read_only == "off":
        return None
    # The next connection may reach the server that has taken over.
    close_connections()
    return "read-only"


def database_now() -> datetime:
    """Return the time of the database's clock (UTC)."""
    if is_postgres():
        (moment,) = database.execute_sql("SELECT clock_timestamp()").fetchone()
        return moment.astimezone(UTC)  # type: ignore[no-any-return]
    (text,) = database.execute_sql("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')").fetchone()
    return datetime.fromisoformat(text)


def was_rolled_back(trouble: Exception) -> bool:
    """Return whether the database reports that it rolled back, so that the caller may retry at once."""
    cause = getattr(trouble, "orig", None)
    return isinstance(cause, psycopg.Error) and cause.sqlstate in _ROLLED_BACK


def for_update(rows: Any) -> Any:
    """Lock the rows of a query until the unit of work ends; on SQLite a writer has locked the whole file.

    `FOR NO KEY UPDATE`, because the stronger lock deadlocks with the foreign keys that point at these rows.
    """
    return rows.for_update("FOR NO KEY UPDATE") if is_postgres() else rows


def skip_locked(rows: Any) -> Any:
    """Lock the rows of a query that are not locked yet, until the unit of work ends, and leave the others out."""
    return rows.for_update("FOR NO KEY UPDATE SKIP LOCKED") if is_postgres() else rows


def advisory_lock(number: int) -> None:
    """Lock `number` until the unit of work ends, over all processes. On SQLite there is one writer anyway."""
    if is_postgres():
        database.execute_sql("SELECT pg_advisory_xact_lock(%s)", (number,))
