"""Connections to both databases: the pool, and the errors that Peewee does not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from peewee import OperationalError
from playhouse.pool import PooledDatabase

CONNECT_TIMEOUT_SECONDS = 2


class ReadOnlyDatabaseError(OperationalError):
    """The database takes no writes: it is a standby or set to read-only. A new connection may reach the primary."""


class UnsupportedDatabaseError(Exception):
    """The service cannot use this database; the message says why."""


class LendingPool(PooledDatabase):  # type: ignore[misc]
    """A connection is taken from the pool for each statement or transaction.

    No request holds a connection while it waits for a provider's or a client's server.
    """

    dialect: Any

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
    def atomic(self, *given: Any, **named: Any) -> Iterator[Any]:
        """A transaction, or a savepoint within one."""
        is_borrowed = self.is_closed()
        if is_borrowed:
            self.connect()
        try:
            with super().atomic(*given, **named) as transaction:
                yield transaction
        finally:
            if is_borrowed:
                self.close()
