"""The open database: its connections, its dialect, its transactions and group commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from peewee import DatabaseProxy, InterfaceError, OperationalError
from playhouse.pool import MaxConnectionsExceeded, PooledDatabase

from ussd_server.threads import Batches, BatchLostError, Item

if TYPE_CHECKING:
    from ussd_server.database.dialect import Dialect


class LendingPool(PooledDatabase):  # type: ignore[misc]
    """A connection is taken from the pool for each statement or transaction.

    No request holds a connection while it waits for a provider's or a client's server.
    """

    dialect: Dialect

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run a statement. All of its rows are in memory then, so they can be read without the connection."""
        is_borrowed = self.is_closed()
        try:
            return super().execute_sql(sql, params)
        finally:
            if is_borrowed:
                self.close()

    @contextmanager
    def held_connection(self) -> Iterator[Any]:
        """Keep this thread's connection for the block, and return it to the pool if the block took it."""
        is_borrowed = self.is_closed()
        try:
            yield self.connection()
        finally:
            if is_borrowed and not self.is_closed():
                self.close()

    @contextmanager
    def atomic(self, *arguments: Any, **named: Any) -> Iterator[Any]:
        is_borrowed = self.is_closed()
        if is_borrowed:
            self.connect()
        try:
            with super().atomic(*arguments, **named) as transaction:
                yield transaction
        finally:
            if is_borrowed:
                self.close()


class _Database(DatabaseProxy):
    """The open database. `atomic` is overridden, because that of Peewee's proxy ignores the open database's."""

    def atomic(self, *arguments: Any, **named: Any) -> Any:
        return self.obj.atomic(*arguments, **named)


database = _Database()

DATABASE_ERRORS = (OperationalError, InterfaceError, MaxConnectionsExceeded)
"""Raised when the database is unreachable, overloaded or has no free connection. A later retry may succeed."""


def dialect() -> Dialect:
    """Return what differs by database, for the open one."""
    chosen: Dialect = database.obj.dialect
    return chosen


def is_postgres() -> bool:
    """Return whether the open database is PostgreSQL."""
    return dialect().name == "PostgreSQL"


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
    """Return "away" when the database does not reply now, "read-only" when it takes no writes, "full" when its disk is.

    None: it can be written to.
    """
    try:
        if not dialect().is_read_only():
            return None if dialect().has_room() else "full"
    except DATABASE_ERRORS:
        close_connections()
        return "away"
    # After a failover, the next connection may reach the new primary.
    close_connections()
    return "read-only"


def reason_of(error: Exception) -> str:
    """Return what one of `DATABASE_ERRORS` says about the database, in words for the log."""
    if isinstance(error, MaxConnectionsExceeded):
        return "all connections of this process to the database are in use"
    return dialect().reason_of(error)


def database_now() -> datetime:
    """Return the time of the database's clock (UTC)."""
    return dialect().now()


def run_query(query: str, **values: Any) -> Any:
    """Run a query that names its parameters as `:name`; return its cursor."""
    return database.execute_sql(dialect().named(query), values)


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
    return not isinstance(error, DATABASE_ERRORS) or dialect().was_rolled_back(error)
