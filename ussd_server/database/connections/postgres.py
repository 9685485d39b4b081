"""PostgreSQL through psycopg 3."""

from __future__ import annotations

import time
from heapq import heappop
from threading import Lock
from typing import Any

import psycopg
from peewee import InternalError, OperationalError, PostgresqlDatabase, Psycopg3Adapter, _ConnectionLocal
from playhouse.pool import MaxConnectionsExceeded, PoolConnection, PooledDatabase, PooledPostgresqlDatabase
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader

from ussd_server.database.connections import (
    CONNECT_TIMEOUT_SECONDS,
    LendingPool,
    ReadOnlyDatabaseError,
    UnsupportedDatabaseError,
)

# Our statements take milliseconds. A longer wait means that something is stuck.
_STATEMENT_TIMEOUT_MS = 5000
SETTINGS = {
    "statement_timeout": str(_STATEMENT_TIMEOUT_MS),
    "lock_timeout": "3000",
    "idle_in_transaction_session_timeout": str(2 * _STATEMENT_TIMEOUT_MS),
    "timezone": "UTC",
}
"""What every session is set to; times in milliseconds."""
_SET_EACH = "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in SETTINGS.items())
_MISSING_POOLER = (
    "A connection pooler stands between the service and PostgreSQL. Set USSD_DATABASE_POOLER to session or "
    "transaction, as it is set there, or give USSD_DATABASE_URL the address of PostgreSQL itself."
)
_MISSING_LIMITS = (
    "The database's user lacks its limits. Run `ussd-server migrate` once with the address of PostgreSQL itself in "
    "USSD_DATABASE_URL."
)
# A frozen server does not enforce its own timeouts, but its machine still accepts what we send.
_ANSWER_SECONDS = _STATEMENT_TIMEOUT_MS / 1000 + 1
_REST_SECONDS = 1


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

    One thread at a time connects; others queue. When the server did not reply, the queued threads are refused at once
    instead of each waiting for its own timeout.
    """

    _rests_until = 0.0  # by the monotonic clock

    def connect(self, db: PostgresqlDatabase, **params: Any) -> Connection:
        pooler = params.pop("pooler")
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
        _set_session(connection, pooler)
        # Ids are text in this code, so making UUID objects would be wasted work.
        connection.adapters.register_loader("uuid", TextLoader)
        return connection


class _Pool(LendingPool, PooledPostgresqlDatabase):  # type: ignore[misc]
    """PostgreSQL through psycopg 3.

    Peewee's private pool methods are overridden because its own pool asks `SELECT 1` at every check-out and lets all
    threads wait while one connects.
    """

    psycopg3_adapter = _Adapter

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        try:
            return super().execute_sql(sql, params)
        except InternalError as error:
            # PostgreSQL counts these as internal errors; we handle them like a server that is away.
            cause = getattr(error, "orig", None)
            if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
                raise ReadOnlyDatabaseError("the database is read-only") from error
            if isinstance(cause, psycopg.errors.IdleInTransactionSessionTimeout):
                raise OperationalError("the server ended an idle transaction") from error
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


def _set_session(connection: Connection, pooler: str | None) -> None:
    """Set what the address cannot behind a pooler, and refuse a pooler that was not named."""
    (statement_timeout,) = connection.execute("SELECT current_setting('statement_timeout', true)").fetchone() or ("",)
    is_pooled = is_behind_pooler(connection)
    if is_pooled and pooler is None:
        connection.close()
        raise UnsupportedDatabaseError(_MISSING_POOLER)
    if pooler == "session" or (pooler == "transaction" and not is_pooled):
        connection.execute(_SET_EACH)
    elif pooler == "transaction" and statement_timeout != f"{_STATEMENT_TIMEOUT_MS // 1000}s":
        connection.close()
        raise UnsupportedDatabaseError(_MISSING_LIMITS)
    connection.commit()


def is_behind_pooler(connection: Connection) -> bool:
    """Whether another program answers in the place of the server: it names processes that are not the server's."""
    (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    return bool(pid != connection.info.backend_pid)


def postgres_pool(url: str, max_connections: int, pooler: str | None = None, **named: Any) -> Any:
    """Return a connection pool for PostgreSQL. Connects to nothing yet.

    `pooler` is how a pooler between lends its connections: for a `session`, or for a `transaction`, where a session has
    no settings and no prepared statements of its own.
    """
    if pooler is None:
        named["options"] = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    elif pooler == "transaction":
        named["prepare_threshold"] = None
    return _Pool(
        url,
        **named,
        pooler=pooler,
        max_connections=max_connections,
        timeout=CONNECT_TIMEOUT_SECONDS,
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        # Overrides PGCLIENTENCODING.
        client_encoding="UTF8",
    )


def connection_parts(url: str) -> dict[str, Any]:
    """Return the parameters in an address as PostgreSQL's client parses it; none for an address that it refuses."""
    try:
        return conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return {}  # connecting raises the error


def writable_host(url: str) -> dict[str, str]:
    """Return what makes PostgreSQL's client choose the host that takes writes, unless `url` says otherwise."""
    parts = connection_parts(url)
    has_several = "," in str(parts.get("host", ""))
    return {"target_session_attrs": "read-write"} if has_several and "target_session_attrs" not in parts else {}
