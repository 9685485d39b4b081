"""Connections to the database, and the pool that the threads of a process share."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from heapq import heappop
from itertools import islice
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import psycopg
from peewee import InternalError, OperationalError, PostgresqlDatabase, Psycopg3Adapter, _ConnectionLocal
from playhouse.pool import (
    MaxConnectionsExceeded,
    PoolConnection,
    PooledDatabase,
    PooledPostgresqlDatabase,
    PooledSqliteDatabase,
)
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader

from ussd_server.native_threads import in_native_thread

# Our statements take milliseconds. A longer wait means that something is stuck.
_STATEMENT_TIMEOUT_MS = 5000
_LOCK_TIMEOUT_MS = 3000
_SQLITE_LOCK_TIMEOUT_MS = 4000
_CONNECT_TIMEOUT_SECONDS = 2
# A frozen server does not keep its own timeouts, while its machine still accepts what we send.
_ANSWER_SECONDS = _STATEMENT_TIMEOUT_MS / 1000 + 1
_REST_SECONDS = 1
# What needs no write lock of SQLite. A write that begins otherwise, such as WITH, waits for its lock in SQLite.
_READS = ("SELECT", "WITH", "PRAGMA", "EXPLAIN")
_LONGEST_WORD = max(map(len, _READS))


class ReadOnlyDatabaseError(OperationalError):
    """The database takes no writes: it is a standby, or was set so. Another connection may reach one that does."""


class UnsupportedDatabaseError(Exception):
    """The service cannot use this database; the message says why."""


class Connection(psycopg.Connection[Any]):
    """A connection to PostgreSQL that waits at most `answer_seconds` for a reply; None waits without limit."""

    answer_seconds: float | None = _ANSWER_SECONDS

    def is_usable(self) -> bool:
        """Whether the server has kept this connection open while it was idle. Asks the kernel only and never blocks."""
        try:
            for _ in range(2):  # the first read may find the server's last message, the next one the end
                self.pgconn.consume_input()
        except psycopg.OperationalError:
            self.close()
        return not self.closed

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        seconds = self.answer_seconds if timeout is None else timeout
        try:
            return super().wait(gen, interval, seconds)
        except psycopg.OperationalError as error:
            # An error of the server carries a SQLSTATE. Without one the statement may or may not have run.
            if error.sqlstate is None:
                self.close()
            raise


class _Adapter(Psycopg3Adapter):
    """Peewee's adapter for psycopg 3, with our connection class.

    One thread at a time connects. When the server did not reply, the threads that queued meanwhile are refused at
    once instead of waiting one after another.
    """

    _rests_until = 0.0  # by the monotonic clock

    def connect(self, db: PostgresqlDatabase, **params: Any) -> Connection:
        if time.monotonic() < self._rests_until:
            raise psycopg.OperationalError("the server did not answer a moment ago")
        try:
            connection = Connection.connect(db.database, **params)
        except psycopg.errors.ConnectionTimeout:
            self._rests_until = time.monotonic() + _REST_SECONDS
            raise
        if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
            connection.close()
            raise UnsupportedDatabaseError(
                f"This PostgreSQL database has the encoding {encoding}; UTF8 is needed "
                "(CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0)."
            )
        # Ids are text in this code, so making UUID objects would be wasted work.
        connection.adapters.register_loader("uuid", TextLoader)
        return connection


class _Borrowed(PooledDatabase):  # type: ignore[misc]
    """A connection is taken from the pool for each statement or transaction.

    No request holds a connection while it waits for a provider's or a client's server.
    """

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run a statement. All of its rows are in memory then, so they can be read without the connection."""
        is_borrowed = self.is_closed()
        try:
            return super().execute_sql(sql, params)
        finally:
            if is_borrowed:
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


class _Postgres(_Borrowed, PooledPostgresqlDatabase):  # type: ignore[misc]
    """PostgreSQL through psycopg 3.

    Peewee's private pool methods are overridden because its own pool asks `SELECT 1` at every check-out and lets all
    threads wait while one connects.
    """

    psycopg3_adapter = _Adapter

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        try:
            return super().execute_sql(sql, params)
        except InternalError as error:
            # PostgreSQL counts this as an internal error; for us it is trouble like a server that is away.
            if isinstance(getattr(error, "orig", None), psycopg.errors.ReadOnlySqlTransaction):
                raise ReadOnlyDatabaseError("the database is read-only") from error
            raise

    def __init__(self, *given: Any, **named: Any) -> None:
        self._making = Lock()
        # Peewee locks the connection state here, but each thread has its own.
        super().__init__(*given, thread_safe=False, **named)
        self._state = _ConnectionLocal()

    def _connect(self) -> Any:
        if (idle := self._take_idle()) is not None:
            return idle
        with self._making:
            with self._pool_lock:
                if (idle := self._take_idle()) is not None:
                    return idle
                if len(self._in_use) >= self._max_connections:
                    raise MaxConnectionsExceeded("all connections are in use")
            connection = super(PooledDatabase, self)._connect()
            with self._pool_lock:
                self._in_use[id(connection)] = PoolConnection(time.time(), connection, time.time())
        return connection

    def _take_idle(self) -> Any:
        with self._pool_lock:
            while self._connections:
                made_at, _, connection = heappop(self._connections)
                if connection.is_usable():
                    self._in_use[id(connection)] = PoolConnection(made_at, connection, time.time())
                    return connection
        return None

    def _can_reuse(self, conn: Any) -> bool:
        # A rollback would take a round trip, and every thread in the queue would wait for it.
        return bool(conn.info.transaction_status == TransactionStatus.IDLE)


class _SqliteCursor(sqlite3.Cursor):
    """A cursor that has all rows of its statement when `execute` returns, and is closed when the statement fails.

    SQLite blocks in C, so a native thread runs the statement in a process on gevent.
    Freeing a failed statement waits for its connection. When the garbage collector frees it on the thread that holds
    the write lock, while the connection waits for that lock, both wait until one times out.
    """

    _rows: Iterator[Any] = iter(())

    def execute(self, sql: str, *given: Any) -> _SqliteCursor:
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


class _Sqlite(_Borrowed, PooledSqliteDatabase):  # type: ignore[misc]
    """SQLite in WAL mode, where every transaction begins as a writer.

    The writers of a process wait here for each other. SQLite would let each wait in a native thread, until none is
    left for the statement that ends the transaction they wait for.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        self._writing = Lock()
        super().__init__(*given, **named)

    def cursor(self, named_cursor: None = None) -> _SqliteCursor:
        return self.connection().cursor(_SqliteCursor)  # type: ignore[no-any-return]

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
        if not self._writing.acquire(timeout=_SQLITE_LOCK_TIMEOUT_MS / 1000):
            raise OperationalError("database is locked")
        try:
            yield
        finally:
            self._writing.release()


def _is_read(sql: str) -> bool:
    return sql.lstrip()[:_LONGEST_WORD].upper().startswith(_READS)


def database_at(url: str, max_connections: int) -> Any:
    """Return a connection pool for `url` (`sqlite:///...` or `postgresql://...`). Connects to nothing yet.

    Of several hosts of PostgreSQL it connects to the one that takes writes.

    Raises ValueError for any other kind of address.
    """
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        return _Sqlite(
            url.removeprefix("sqlite:///"),
            max_connections=max_connections,
            timeout=_CONNECT_TIMEOUT_SECONDS,
            check_same_thread=False,
            lock_type="IMMEDIATE",
            pragmas={
                "journal_mode": "wal",
                "synchronous": "full",
                "foreign_keys": 1,
                "busy_timeout": _SQLITE_LOCK_TIMEOUT_MS,
            },
        )
    if scheme in ("postgresql", "postgres"):
        return postgres_at(url, max_connections, **_the_writable_host(url))
    raise ValueError("the database address must begin with sqlite:/// or postgresql://")


def _the_writable_host(url: str) -> dict[str, str]:
    """Return what makes PostgreSQL's client choose the host that takes writes, unless `url` says otherwise."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return {}  # connecting says what is wrong with it
    has_several = "," in str(parts.get("host", ""))
    return {"target_session_attrs": "read-write"} if has_several and "target_session_attrs" not in parts else {}


def postgres_at(url: str, max_connections: int, **named: str) -> Any:
    """Return a connection pool for PostgreSQL. Connects to nothing yet."""
    return _Postgres(
        url,
        **named,
        max_connections=max_connections,
        timeout=_CONNECT_TIMEOUT_SECONDS,
        connect_timeout=_CONNECT_TIMEOUT_SECONDS,
        # Overrides PGCLIENTENCODING.
        client_encoding="UTF8",
        options=f"-c statement_timeout={_STATEMENT_TIMEOUT_MS} -c lock_timeout={_LOCK_TIMEOUT_MS} "
        f"-c idle_in_transaction_session_timeout={2 * _STATEMENT_TIMEOUT_MS} -c timezone=UTC",
    )
