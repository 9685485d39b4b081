"""PostgreSQL through psycopg 3: its connections and its dialect. `sqlite.py` has the twin of each method."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import lru_cache
from heapq import heappop
from typing import Any

import orjson
import psycopg
from peewee import (
    InternalError,
    OperationalError,
    PostgresqlDatabase,
    ProgrammingError,
    Psycopg3Adapter,
    _ConnectionLocal,
)
from playhouse.pool import MaxConnectionsExceeded, PoolConnection, PooledDatabase, PooledPostgresqlDatabase
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader

from ussd_server.database.dialect import (
    AWAY,
    LOCKED,
    NO_ROOM,
    Dialect,
    ReadOnlyDatabaseError,
    UnsupportedDatabaseError,
)
from ussd_server.database.unit_of_work import LendingPool

# Our statements take milliseconds. A longer wait means that something is stuck.
_STATEMENT_TIMEOUT_MS = 5000
SETTINGS = {
    "statement_timeout": str(_STATEMENT_TIMEOUT_MS),
    "lock_timeout": "3000",
    "idle_in_transaction_session_timeout": str(2 * _STATEMENT_TIMEOUT_MS),
    "timezone": "UTC",
}
"""Settings of every session; times in milliseconds."""
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
# The oldest that the tests run on.
_OLDEST_VERSION = 15
# Deadlock, serialization failure, lock timeout, statement timeout: the server rolled back and is available.
_ROLLED_BACK = ("40P01", "40001", "55P03", "57014")
_REASONS = {"53100": NO_ROOM, "55P03": LOCKED, "57014": "a statement of the database took too long"}
# The number of the advisory lock for migrations; all processes must use the same one.
_MIGRATION_LOCK = 7_256_256_165
MIGRATION_LOCK_TIMEOUT_MS = 1000
_LOOK_AGAIN_SECONDS = 0.1
# For the book check. An account with millions of transfers takes seconds; no request waits for it. The other settings
# keep the time for a range independent of table size: the planner would read whole tables for a range, and in large
# tables it expects one row in a range of ids and chooses nested loops. A generic plan does not depend on the range.
_SETTINGS_OF_A_SNAPSHOT = (
    "statement_timeout = 0",
    "enable_seqscan = off",
    "jit = off",
    "plan_cache_mode = force_generic_plan",
)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")
_ISO_MILLISECONDS = 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'


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


class PostgresPool(LendingPool, PooledPostgresqlDatabase):  # type: ignore[misc]
    """A pool that overrides Peewee's private methods.

    Peewee's own asks `SELECT 1` at every check-out and lets all threads wait while one connects.
    """

    psycopg3_adapter = _Adapter

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        try:
            return super().execute_sql(sql, params)
        except (InternalError, ProgrammingError) as error:
            # PostgreSQL counts these as its own errors or ours; we handle them like a server that is away.
            cause = getattr(error, "orig", None)
            if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
                raise ReadOnlyDatabaseError("the database is read-only") from error
            if isinstance(cause, psycopg.errors.IdleInTransactionSessionTimeout):
                raise OperationalError("the server ended an idle transaction") from error
            # As the system says it: PostgreSQL itself stops within a second.
            if os.strerror(errno.EROFS) in str(cause):
                raise OperationalError("the server's disk is read-only") from error
            raise

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._is_making = False
        # Peewee locks the connection state here, but each thread has its own.
        super().__init__(*arguments, thread_safe=False, **named)
        self._state = _ConnectionLocal()

    def _connect(self) -> Any:
        with self._pool_available:
            # A thread that waits while another one connects takes what is returned meanwhile.
            while True:
                if (idle := self._take_idle()) is not None:
                    return idle
                if len(self._in_use) >= self._max_connections:
                    raise MaxConnectionsExceeded("all connections are in use")
                if not self._is_making:
                    break
                self._pool_available.wait(_LOOK_AGAIN_SECONDS)
            self._is_making = True
        try:
            connection = super(PooledDatabase, self)._connect()
            self._in_use[id(connection)] = PoolConnection(time.time(), connection, time.time())
        finally:
            with self._pool_available:
                self._is_making = False
                self._pool_available.notify()
        return connection

    def _take_idle(self) -> Any:
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


class Postgres(Dialect):
    name = "PostgreSQL"
    clock = "clock_timestamp()"

    def check_version(self) -> None:
        (number,) = self.pool.execute_sql("SELECT current_setting('server_version_num')::integer").fetchone()
        version = number // 10_000
        if version < _OLDEST_VERSION:
            raise UnsupportedDatabaseError(
                f"This is PostgreSQL {version}; version {_OLDEST_VERSION} or newer is needed."
            )

    def now(self) -> datetime:
        (moment,) = self.pool.execute_sql(f"SELECT {self.clock}").fetchone()
        return moment.astimezone(UTC)  # type: ignore[no-any-return]

    def is_read_only(self) -> bool:
        # The setting is on in a standby too.
        (setting,) = self.pool.execute_sql("SELECT current_setting('transaction_read_only')").fetchone()
        return bool(setting != "off")

    def has_room(self) -> bool:
        try:
            with self.pool.atomic():
                self.pool.execute_sql("SET LOCAL work_mem = '64kB'")
                # Rows beyond that are written to the disk, without a lock and without the write-ahead log.
                self.pool.execute_sql("SELECT count(*) FROM generate_series(1, 30000)")
        except OperationalError as error:
            if self.reason_of(error) == NO_ROOM:
                return False
            raise
        return True

    def reason_of(self, error: Exception) -> str:
        cause = getattr(error, "orig", None)
        return _REASONS.get(getattr(cause, "sqlstate", None) or "", AWAY)

    def was_rolled_back(self, error: Exception) -> bool:
        cause = getattr(error, "orig", None)
        return isinstance(cause, psycopg.Error) and cause.sqlstate in _ROLLED_BACK

    def broken_rule(self, error: Exception) -> str:
        # Only this part: the whole message may quote values of the client.
        cause = getattr(error, "orig", None)
        if not isinstance(cause, psycopg.Error):
            return ""
        return cause.diag.constraint_name or cause.diag.message_primary or ""

    @contextmanager
    def without_timeouts(self) -> Iterator[None]:
        with self.pool.held_connection() as connection:
            connection.answer_seconds = None
            try:
                yield
            finally:
                connection.answer_seconds = Connection.answer_seconds

    def without_syncs(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self.without_timeouts(), self._all_prepared(), self.pool.atomic():
            self.pool.execute_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for setting in _SETTINGS_OF_A_SNAPSHOT:
                self.pool.execute_sql(f"SET LOCAL {setting}")
            yield

    @contextmanager
    def _all_prepared(self) -> Iterator[None]:
        """Prepare this thread's statements at their first use; otherwise psycopg waits for the sixth."""
        with self.pool.held_connection() as connection:
            if self.pool.connect_params["pooler"] == "transaction":
                yield
                return
            threshold, connection.prepare_threshold = connection.prepare_threshold, 0
            try:
                yield
            finally:
                connection.prepare_threshold = threshold

    def allow_statements(self, milliseconds: int) -> None:
        self.pool.execute_sql(f"SET LOCAL statement_timeout = {milliseconds}")

    def for_update(self, rows: Any) -> Any:
        # A stronger lock deadlocks with the foreign keys that point at these rows.
        return rows.for_update("FOR NO KEY UPDATE")

    def skip_locked(self, rows: Any) -> Any:
        return rows.for_update("FOR NO KEY UPDATE SKIP LOCKED")

    def advisory_lock(self, number: int) -> None:
        self.pool.execute_sql("SELECT pg_advisory_xact_lock(%s)", (number,))

    def lock_table(self, table: str) -> None:
        self.pool.execute_sql(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")

    def let_others_write(self, seconds: float) -> None:
        """Writers of other rows do not wait here."""

    @contextmanager
    def only_migration(self) -> Iterator[None]:
        # A second process may wait here for as long as the first one's migrations take.
        with self.pool.held_connection() as connection:
            if self.pool.connect_params["pooler"] == "transaction" and is_behind_pooler(connection):
                raise UnsupportedDatabaseError(
                    "Migrations need the address of PostgreSQL itself in USSD_DATABASE_URL, not that of a pooler."
                )
        self.pool.execute_sql("SET statement_timeout = 0")
        with self.without_timeouts():
            # Poll for the lock: CREATE INDEX CONCURRENTLY waits for every running statement, also for one that waits
            # for a lock.
            while not self.pool.execute_sql("SELECT pg_try_advisory_lock(%s)", (_MIGRATION_LOCK,)).fetchone()[0]:
                time.sleep(_LOOK_AGAIN_SECONDS)
            self.pool.execute_sql(f"SET lock_timeout = {MIGRATION_LOCK_TIMEOUT_MS}")
            try:
                yield
                if self.pool.connect_params["pooler"] == "transaction":
                    for name, value in SETTINGS.items():
                        self.pool.execute_sql(f"ALTER ROLE CURRENT_USER SET {name} = '{value}'")
            finally:
                self.pool.execute_sql("SELECT pg_advisory_unlock(%s)", (_MIGRATION_LOCK,))
                self.pool.manual_close()

    def line_of_schema(self, line: str) -> str:
        return line.removesuffix(" -- by key")

    def without_parameters(self, statement: str) -> str:
        # psycopg reads a single percent sign as the beginning of a placeholder.
        return statement.replace("%", "%%")

    def named(self, query: str) -> str:
        return _with_driver_parameters(query)

    def moment(self, column: str) -> str:
        return f"to_char({column} AT TIME ZONE 'UTC', '{_ISO_MILLISECONDS}')"

    def text(self, column: str) -> str:
        return f"CAST({column} AS text)"

    def seconds_between(self, began: str, ended: str) -> str:
        return f"extract(epoch FROM {ended} - {began})"

    def microseconds(self, moment: str) -> str:
        return f"CAST(date_part('epoch', {moment}) * 1000000 AS bigint)"

    def kampala_day(self, moment: str) -> str:
        return f"to_char({moment} AT TIME ZONE 'UTC' + interval '3 hours', 'YYYY-MM-DD')"

    def json_value(self, document: str, key: str, kind: str) -> str:
        return f"({document}::jsonb ->> ({key}))::{kind}"

    def json_rows(self, columns: Mapping[str, str]) -> str:
        return f"jsonb_to_recordset(:rows::jsonb) AS found ({_typed(columns)})"

    def rows_of(self, table: str, columns: Sequence[str]) -> str:
        return f"SELECT {', '.join(columns)} FROM jsonb_populate_recordset(NULL::{table}, :rows::jsonb)"

    def post(self, document: str) -> None:
        self.pool.execute_sql("SELECT ledger_post(%s::jsonb)", (document,))

    def record_transactions(self, document: str, columns: Mapping[str, Sequence[str]]) -> None:
        self.pool.execute_sql("SELECT transactions_record(%s::jsonb)", (document,))

    def write_steps(self, steps: Sequence[Mapping[str, Any]]) -> set[int]:
        document = orjson.dumps(steps).decode()
        return {number for (number,) in self.pool.execute_sql("SELECT ussd_step(%s::jsonb)", (document,))}


def _typed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


@lru_cache(maxsize=256)
def _with_driver_parameters(query: str) -> str:
    return _PARAMETER.sub(r"%(\1)s", query)
