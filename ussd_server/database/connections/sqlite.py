"""SQLite in WAL mode. Native threads run its statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Lock
from typing import Any

from peewee import OperationalError
from playhouse.pool import PooledSqliteDatabase

from ussd_server.database.connections import CONNECT_TIMEOUT_SECONDS, LendingPool
from ussd_server.threads import in_native_thread

_LOCK_TIMEOUT_MS = 4000
# Statements that need no write lock. A write that begins otherwise, such as WITH, waits for the lock inside SQLite.
_READS = ("SELECT", "WITH", "PRAGMA", "EXPLAIN")
_LONGEST_WORD = max(map(len, _READS))


class _Cursor(sqlite3.Cursor):
    """A cursor that has all rows of its statement when `execute` returns, and is closed when the statement fails.

    SQLite blocks in C, so a native thread runs the statement in a process on gevent.
    Freeing a failed statement waits for its connection. When the garbage collector frees it on the thread that holds
    the write lock, while the connection waits for that lock, both wait until one times out.
    """

    _rows: Iterator[Any] = iter(())

    def execute(self, sql: str, *given: Any) -> _Cursor:
        # Reads have threads of their own: four long ones would hold up every write.
        is_read = _is_read(sql) and not self.connection.in_transaction
        self._rows = iter(in_native_thread(self._run, sql, *given, pool="SQLite reads" if is_read else "SQLite writes"))
        return self

    def _run(self, *given: Any) -> list[Any]:
        try:
            super().execute(*given)
            return super().fetchall()
        except sqlite3.Error:
            self.close()
            raise

    def __next__(self) -> Any:
        return next(self._rows)

    def fetchone(self) -> Any:
        return next(self._rows, None)

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        return list(islice(self._rows, size))

    def fetchall(self) -> list[Any]:
        return list(self._rows)


class _Pool(LendingPool, PooledSqliteDatabase):  # type: ignore[misc]
    """SQLite in WAL mode, where every transaction begins as a writer.

    Writers of a process queue here. In SQLite each would wait in a native thread, and no thread would be left for the
    commit that they wait for.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        self._writing = Lock()
        super().__init__(*given, **named)

    def cursor(self, named_cursor: None = None) -> _Cursor:
        return self.connection().cursor(_Cursor)  # type: ignore[no-any-return]

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        if self.in_transaction() or _is_read(sql):
            return super().execute_sql(sql, params)
        with self._one_writer():
            return super().execute_sql(sql, params)

    @contextmanager
    def atomic(self, *given: Any, **named: Any) -> Iterator[Any]:
        """A transaction, or a savepoint within one."""
        if self.in_transaction():
            with super().atomic(*given, **named) as savepoint:
                yield savepoint
            return
        with self._one_writer(), super().atomic(*given, **named) as transaction:
            yield transaction

    @contextmanager
    def _one_writer(self) -> Iterator[None]:
        if not self._writing.acquire(timeout=_LOCK_TIMEOUT_MS / 1000):
            raise OperationalError("database is locked")
        try:
            yield
        finally:
            self._writing.release()


def _is_read(sql: str) -> bool:
    return sql.lstrip()[:_LONGEST_WORD].upper().startswith(_READS)


def sqlite_pool(path: str, max_connections: int) -> Any:
    """Return a connection pool for a file. Connects to nothing yet."""
    return _Pool(
        path,
        max_connections=max_connections,
        timeout=CONNECT_TIMEOUT_SECONDS,
        check_same_thread=False,
        lock_type="IMMEDIATE",
        pragmas={
            "journal_mode": "wal",
            "synchronous": "full",
            "foreign_keys": 1,
            "busy_timeout": _LOCK_TIMEOUT_MS,
        },
    )
