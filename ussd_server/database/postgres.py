"""The dialect of PostgreSQL. `sqlite.py` has the twin of each method."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson
import psycopg
from peewee import fn

from ussd_server.database.connections import UnsupportedDatabaseError
from ussd_server.database.connections.postgres import SETTINGS, Connection, is_behind_pooler
from ussd_server.database.dialect import Dialect, ServerLoad, Standbys

# The oldest that the tests run on.
_OLDEST_VERSION = 15
# Deadlock, serialization failure, lock timeout, statement timeout: the server rolled back and is available.
_ROLLED_BACK = ("40P01", "40001", "55P03", "57014")
# The number of the advisory lock for migrations; all processes must use the same one.
_MIGRATION_LOCK = 7_256_256_165
_MIGRATION_LOCK_TIMEOUT_MS = 1000
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

_LOAD = """
    WITH written AS (
        SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS lsn)
    SELECT (SELECT max(pg_wal_lsn_diff(lsn, replay_lsn))::bigint FROM pg_stat_replication),
        (SELECT coalesce(max(pg_wal_lsn_diff(lsn, restart_lsn)), 0)::bigint FROM pg_replication_slots),
        (SELECT sum(numbackends) FROM pg_stat_database)::float / current_setting('max_connections')::integer,
        (SELECT max(age(datfrozenxid)) FROM pg_database),
        (SELECT current_setting('archive_mode') <> 'off'
            AND coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) FROM pg_stat_archiver)
    FROM written"""


class Postgres(Dialect):
    """The dialect of PostgreSQL."""

    name = "PostgreSQL"
    clock = "clock_timestamp()"

    @property
    def _pooler(self) -> str | None:
        pooler: str | None = self.pool.connect_params["pooler"]
        return pooler

    def check_version(self) -> None:
        (number,) = self.pool.execute_sql("SELECT current_setting('server_version_num')::integer").fetchone()
        if number // 10_000 < _OLDEST_VERSION:
            raise UnsupportedDatabaseError(
                f"This is PostgreSQL {number // 10_000}; version {_OLDEST_VERSION} or newer is needed."
            )

    def now(self) -> datetime:
        (moment,) = self.pool.execute_sql(f"SELECT {self.clock}").fetchone()
        return moment.astimezone(UTC)  # type: ignore[no-any-return]

    def is_read_only(self) -> bool:
        # The setting is on in a standby too.
        (setting,) = self.pool.execute_sql("SELECT current_setting('transaction_read_only')").fetchone()
        return bool(setting != "off")

    def standbys(self) -> Standbys:
        question = (
            "SELECT (SELECT count(*) FROM pg_stat_replication),"
            " current_setting('synchronous_standby_names') <> ''"
            " AND current_setting('synchronous_commit') NOT IN ('off', 'local')"
        )
        return Standbys(*self.pool.execute_sql(question).fetchone())

    def load(self) -> ServerLoad:
        return ServerLoad(*self.pool.execute_sql(_LOAD).fetchone())

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

    @contextmanager
    def without_syncs(self) -> Iterator[None]:
        yield

    @contextmanager
    def without_triggers(self, tables: Sequence[str]) -> Iterator[None]:
        for table in tables:
            self.pool.execute_sql(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield
        # Foreign keys that are checked at the end of the transaction would keep the tables from being altered.
        self.pool.execute_sql("SET CONSTRAINTS ALL IMMEDIATE")
        for table in tables:
            self.pool.execute_sql(f"ALTER TABLE {table} ENABLE TRIGGER USER")

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
            if self._pooler == "transaction":
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
        time.sleep(0)

    @contextmanager
    def only_migration(self) -> Iterator[None]:
        # A second process may wait here for as long as the first one's migrations take.
        with self.pool.held_connection() as connection:
            if self._pooler == "transaction" and is_behind_pooler(connection):
                raise UnsupportedDatabaseError(
                    "Migrations need the address of PostgreSQL itself in USSD_DATABASE_URL, not that of a pooler."
                )
        self.pool.execute_sql("SET statement_timeout = 0")
        with self.without_timeouts():
            # Poll for the lock: CREATE INDEX CONCURRENTLY waits for every running statement, also for one that waits
            # for a lock.
            while not self.pool.execute_sql("SELECT pg_try_advisory_lock(%s)", (_MIGRATION_LOCK,)).fetchone()[0]:
                time.sleep(_LOOK_AGAIN_SECONDS)
            self.pool.execute_sql(f"SET lock_timeout = {_MIGRATION_LOCK_TIMEOUT_MS}")
            try:
                yield
                if self._pooler == "transaction":
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

    def index(self, kind: str, name: str, definition: str) -> Sequence[str]:
        return (
            # CONCURRENTLY waits for all earlier transactions and blocks none.
            "SET lock_timeout = 0",
            f"DROP INDEX CONCURRENTLY IF EXISTS {name}",
            f"CREATE {kind} CONCURRENTLY {name} ON {definition}",
            f"SET lock_timeout = {_MIGRATION_LOCK_TIMEOUT_MS}",
        )

    def without_index(self, name: str) -> str:
        return f"DROP INDEX CONCURRENTLY IF EXISTS {name}"

    def named(self, query: str) -> str:
        return _with_driver_parameters(query)

    def moment_text(self, column: Any) -> Any:
        return fn.to_char(fn.timezone("UTC", column), _ISO_MILLISECONDS)

    def moment(self, column: str) -> str:
        return f"to_char({column} AT TIME ZONE 'UTC', '{_ISO_MILLISECONDS}')"

    def text(self, column: str) -> str:
        return f"CAST({column} AS text)"

    def seconds_between(self, began: str, ended: str) -> str:
        return f"extract(epoch FROM {ended} - {began})"

    def hour(self, moment: str) -> str:
        return f"""to_char({moment} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24')"""

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

    def for_each(self, query: str, columns: Mapping[str, str]) -> str:
        asked = f"jsonb_to_recordset(%s::jsonb) AS asked (place integer, {_typed(columns)})"
        return f"SELECT asked.place, found.* FROM {asked}, LATERAL ({query}) AS found"

    def post(self, document: str) -> None:
        self.pool.execute_sql("SELECT ledger_post(%s::jsonb)", (document,))

    def record_transactions(self, document: str, columns: Mapping[str, Sequence[str]]) -> None:
        self.pool.execute_sql("SELECT transactions_record(%s::jsonb)", (document,))

    def write_steps(self, steps: Sequence[Mapping[str, Any]]) -> set[int]:
        document = orjson.dumps(steps).decode()
        return {place for (place,) in self.pool.execute_sql("SELECT ussd_step(%s::jsonb)", (document,))}

    def holdings(self, document: str) -> Any:
        # The LIMIT makes the planner use one index scan for each account.
        return self.pool.execute_sql(
            """SELECT place - 1, balance_cents, reserved_cents
            FROM json_array_elements(%s::json) WITH ORDINALITY AS sought (names, place), LATERAL (
                SELECT balance_cents, reserved_cents FROM ledger_accounts
                WHERE client_id = (names ->> 0)::uuid AND name = names ->> 1 LIMIT 1
            ) AS held""",
            (document,),
        )


@lru_cache(maxsize=256)
def _with_driver_parameters(query: str) -> str:
    return _PARAMETER.sub(r"%(\1)s", query)


def _typed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
