"""SQLite in WAL mode: its connections and its dialect. `postgres.py` has the twin of each method."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from peewee import IntegrityError, OperationalError
from playhouse.pool import PooledSqliteDatabase

from ussd_server.database.dialect import AWAY, LOCKED, NO_ROOM, Dialect, UnsupportedDatabaseError
from ussd_server.database.unit_of_work import LendingPool
from ussd_server.threads import in_native_thread

LOCK_TIMEOUT_MS = 4000
_ROOM_BYTES = 1024 * 1024
# Statements that need no write lock. A write that begins otherwise, such as WITH, waits for the lock inside SQLite.
_READS = ("SELECT", "WITH", "PRAGMA", "EXPLAIN")
_LONGEST_WORD = max(map(len, _READS))
# The oldest with strict tables.
_OLDEST_VERSION = (3, 37)

_TYPES = {"uuid": "text", "timestamptz": "text", "boolean": "integer", "bytea": "blob", "bigint": "integer"}
_TYPE = re.compile(rf"\b({'|'.join(_TYPES)})\b")
_ENDS_OF_TABLES = {");": ") STRICT;", "); -- by key": ") STRICT, WITHOUT ROWID;"}

# What the functions in `schema/postgres/batches.sql` do.
_ACCOUNT_ID = "SELECT id FROM ledger_accounts WHERE client_id = value ->> 'client_id' AND name = value ->> '{}'"
_POST = (
    f"""INSERT INTO ledger_accounts (id, client_id, name, kind, currency, balance_cents, reserved_cents, created_at)
    SELECT min(value ->> 'id'), value ->> 'client_id', value ->> 'name', value ->> 'kind', 'UGX', 0, 0,
        value ->> 'created_at'
    FROM json_each(?, '$.accounts') WHERE NOT EXISTS ({_ACCOUNT_ID.format("name")}) GROUP BY 2, 3""",
    f"""INSERT INTO ledger_transfers (id, client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id,
        amount_cents, hold_id, created_at)
    SELECT value ->> 'id', value ->> 'client_id', value ->> 'transaction_id', value ->> 'kind', value ->> 'purpose',
        ({_ACCOUNT_ID.format("debit")}), ({_ACCOUNT_ID.format("credit")}), value ->> 'amount_cents',
        value ->> 'hold_id', value ->> 'created_at'
    FROM json_each(?, '$.legs') ORDER BY key""",
)
_SPEND = """INSERT INTO key_spending (key_id, day, spent_cents)
    SELECT value ->> 'key_id', value ->> 'day', sum(value ->> 'cents') FROM json_each(?, '$.spending')
    WHERE true GROUP BY 1, 2
    ON CONFLICT (key_id, day) DO UPDATE SET spent_cents = spent_cents + excluded.spent_cents"""
_OVERSPENT = """SELECT 1 FROM json_each(?, '$.spending')
    JOIN key_spending ON key_id = value ->> 'key_id' AND day = value ->> 'day'
    LEFT JOIN api_keys ON api_keys.id = key_id
    WHERE spent_cents > min(
        coalesce(value ->> 'limit_cents', daily_limit_cents), coalesce(daily_limit_cents, value ->> 'limit_cents'))"""
_TERMS = "coalesce((SELECT {0} FROM fees WHERE client_id = value ->> 'client_id' AND type = value ->> 'type'), 0)"
_OTHER_TERMS = f"""SELECT 1 FROM json_each(?, '$.fees')
    WHERE value ->> 'fixed_cents' <> {_TERMS.format("fixed_cents")}
        OR value ->> 'share_basis_points' <> {_TERMS.format("share_basis_points")}"""
_RECORDED = {
    "transactions": "transactions",
    "changes": "transaction_events",
    "events": "events",
    "attempts": "payout_attempts",
}
_OF_PAYOUT = "(SELECT value ->> 'payout_id' FROM json_each(:document, '$.attempts') LIMIT 1)"
_ATTEMPTED = (
    f"""UPDATE payout_items SET waits = 0, transaction_id = (
        SELECT made.transaction_id FROM payout_attempts AS made WHERE made.payout_id = payout_items.payout_id
            AND made.line = payout_items.line AND made.number = payout_items.attempt)
    WHERE payout_id = {_OF_PAYOUT}
        AND line IN (SELECT value ->> 'line' FROM json_each(:document, '$.attempts'))""",
    f"""UPDATE payouts SET held_cents = held_cents
        - (SELECT sum(value ->> 'cents') FROM json_each(:document, '$.attempts')) WHERE id = {_OF_PAYOUT}""",
)
_SETTLE = """UPDATE transactions SET status = 'succeeded', completed_at = created_at, due_at = NULL
    WHERE id IN (SELECT value FROM json_each(?, '$.settled'))"""

# What a step is written with, beside the columns of its session.
_NOT_OF_THE_SESSION = {"proof", "turn_read", "my_token", "event", "language_chosen"}
_MOVED = (
    "turns", "turn", "state", "node", "language", "message", "transaction_id", "last_seen_at", "expires_at", "status",
    "end_reason", "ended_at", "action", "working_token", "working_until",
)  # fmt: skip
_NO_VALUES = dict.fromkeys((*_MOVED, "channel_id"))
_UNCHANGED = "turn = :turn_read AND (working_until IS NULL OR working_until <= :last_seen_at)"
_CONDITIONS = {
    "read": _UNCHANGED,
    "cached": f"""{_UNCHANGED}
        AND EXISTS (SELECT 1 FROM channels WHERE id = :channel_id AND is_active)
        AND EXISTS (SELECT 1 FROM clients WHERE id = :client_id AND is_active)""",
    "claimed": "working_token = :my_token",
}
_UPDATE_SESSION = {
    proof: f"""UPDATE ussd_sessions SET {", ".join(f"{column} = :{column}" for column in _MOVED)}
    WHERE id = :id AND status = 'active' AND {condition}"""
    for proof, condition in _CONDITIONS.items()
}
_INSERT_EVENT = """INSERT INTO events (id, client_id, type, object_id, sequence, payload, created_at, traceparent)
    VALUES (:id, :client_id, :type, :object_id,
        (SELECT coalesce(max(sequence), 0) + 1 FROM events WHERE object_id = :object_id),
        :payload, :created_at, :traceparent)"""
_SAVE_LANGUAGE = """INSERT INTO subscriber_languages (client_id, phone_number, language)
    VALUES (:client_id, :phone_number, :language_chosen)
    ON CONFLICT (client_id, phone_number) DO UPDATE SET language = excluded.language"""


class _Cursor(sqlite3.Cursor):
    """A cursor that has all rows of its statement when `execute` returns, and is closed when the statement fails.

    SQLite blocks in C, so a native thread runs the statement in a process on gevent.
    Freeing a failed statement waits for its connection. When the garbage collector frees it on the thread that holds
    the write lock, while the connection waits for that lock, both wait until one times out.
    """

    _rows: Iterator[Any] = iter(())

    def execute(self, sql: str, *arguments: Any) -> _Cursor:
        # Reads have threads of their own: four long ones would hold up every write.
        is_read = _is_read(sql) and not self.connection.in_transaction
        self._rows = iter(
            in_native_thread(self._run, sql, *arguments, pool="SQLite reads" if is_read else "SQLite writes")
        )
        return self

    def _run(self, *arguments: Any) -> list[Any]:
        try:
            super().execute(*arguments)
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


class SqlitePool(LendingPool, PooledSqliteDatabase):  # type: ignore[misc]
    """SQLite in WAL mode, where every transaction begins as a writer.

    Writers of a process queue here. In SQLite each would wait in a native thread, and no thread would be left for the
    commit that they wait for.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._writing = Lock()
        super().__init__(*arguments, **named)

    def cursor(self, named_cursor: None = None) -> _Cursor:
        return self.connection().cursor(_Cursor)  # type: ignore[no-any-return]

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        if self.in_transaction() or _is_read(sql):
            return super().execute_sql(sql, params)
        with self._one_writer():
            return super().execute_sql(sql, params)

    @contextmanager
    def atomic(self, *arguments: Any, **named: Any) -> Iterator[Any]:
        if self.in_transaction():
            with super().atomic(*arguments, **named) as savepoint:
                yield savepoint
            return
        with self._one_writer(), super().atomic(*arguments, **named) as transaction:
            yield transaction

    @contextmanager
    def _one_writer(self) -> Iterator[None]:
        if not self._writing.acquire(timeout=LOCK_TIMEOUT_MS / 1000):
            raise OperationalError("database is locked")
        try:
            yield
        finally:
            self._writing.release()


def _is_read(sql: str) -> bool:
    return sql.lstrip()[:_LONGEST_WORD].upper().startswith(_READS)


class Sqlite(Dialect):
    name = "SQLite"
    clock = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

    def check_version(self) -> None:
        if sqlite3.sqlite_version_info < _OLDEST_VERSION:
            oldest = ".".join(map(str, _OLDEST_VERSION))
            raise UnsupportedDatabaseError(
                f"This is SQLite {sqlite3.sqlite_version}; version {oldest} or newer is needed."
            )

    def now(self) -> datetime:
        (text,) = self.pool.execute_sql(f"SELECT {self.clock}").fetchone()
        return datetime.fromisoformat(text)

    def is_read_only(self) -> bool:
        self.pool.execute_sql("SELECT 1").fetchone()
        return not os.access(self.pool.database, os.W_OK)

    def has_room(self) -> bool:
        disk = os.statvfs(self.pool.database)
        return disk.f_bavail * disk.f_frsize >= _ROOM_BYTES

    def reason_of(self, error: Exception) -> str:
        text = str(error)
        return NO_ROOM if "is full" in text else LOCKED if "is locked" in text else AWAY

    def was_rolled_back(self, error: Exception) -> bool:
        return False

    def broken_rule(self, error: Exception) -> str:
        return str(error)

    def without_timeouts(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def without_syncs(self) -> Iterator[None]:
        self.pool.connect(reuse_if_open=True)
        self.pool.execute_sql("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self.pool.execute_sql("PRAGMA synchronous = FULL")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        # Begin as a reader. Every unit of work begins as a writer.
        with self.pool.atomic("DEFERRED"):
            yield

    def allow_statements(self, milliseconds: int) -> None:
        pass

    def for_update(self, rows: Any) -> Any:
        return rows

    def skip_locked(self, rows: Any) -> Any:
        return rows

    def advisory_lock(self, number: int) -> None:
        pass

    def lock_table(self, table: str) -> None:
        pass

    def let_others_write(self, seconds: float) -> None:
        time.sleep(seconds)

    @contextmanager
    def only_migration(self) -> Iterator[None]:
        # Take the lock before the first connection: two processes that create the file at once can make each other
        # fail.
        path = Path(f"{self.pool.database}.migrating")
        try:
            path.touch()
        except OSError as error:
            raise OperationalError("unable to open database file") from error
        with path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def line_of_schema(self, line: str) -> str:
        return _ENDS_OF_TABLES.get(line.strip()) or _TYPE.sub(lambda match: _TYPES[match[0]], line)

    def without_parameters(self, statement: str) -> str:
        return statement

    def named(self, query: str) -> str:
        return query

    def moment(self, column: str) -> str:
        return column

    def text(self, column: str) -> str:
        return column

    def seconds_between(self, began: str, ended: str) -> str:
        return f"(julianday({ended}) - julianday({began})) * 86400"

    def microseconds(self, moment: str) -> str:
        return f"CAST(strftime('%s', {moment}) AS integer) * 1000000"

    def kampala_day(self, moment: str) -> str:
        return f"date({moment}, '+3 hours')"

    def json_value(self, document: str, key: str, kind: str) -> str:
        return f"{document} ->> ({key})"

    def json_rows(self, columns: Mapping[str, str]) -> str:
        return f"(SELECT {_members(columns)} FROM json_each(:rows)) AS found"

    def rows_of(self, table: str, columns: Sequence[str]) -> str:
        return f"SELECT {_members(columns)} FROM json_each(:rows)"

    def post(self, document: str) -> None:
        is_counted = self.pool.execute_sql(_SPEND, (document,)).rowcount > 0
        if is_counted and self.pool.execute_sql(_OVERSPENT, (document,)).fetchone() is not None:
            raise IntegrityError("daily_limit_reached")
        for statement in _POST:
            self.pool.execute_sql(statement, (document,))

    def record_transactions(self, document: str, columns: Mapping[str, Sequence[str]]) -> None:
        with self.pool.atomic():
            if self.pool.execute_sql(_OTHER_TERMS, (document,)).fetchone() is not None:
                raise IntegrityError("another_fee_was_agreed")
            for part, table in _RECORDED.items():
                names = columns[part]
                inserted = self.pool.execute_sql(
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT {_members(names)} FROM json_each(?, '$.{part}')",
                    (document,),
                )
            # The last part are attempts, which few batches have.
            for statement in _ATTEMPTED if inserted.rowcount else ():
                self.pool.execute_sql(statement, {"document": document})
            self.post(document)
            self.pool.execute_sql(_SETTLE, (document,))

    def write_steps(self, steps: Sequence[Mapping[str, Any]]) -> set[int]:
        # A single statement is a transaction by itself.
        is_one_statement = len(steps) == 1 and not {"event", "language_chosen"} & steps[0].keys()
        with nullcontext() if is_one_statement else self.pool.atomic():
            return {number for number, step in enumerate(steps, start=1) if self._write_step(step)}

    def _write_step(self, step: Mapping[str, Any]) -> bool:
        if step["proof"] == "new":
            names = [name for name in step if name not in _NOT_OF_THE_SESSION]
            insert = f"INSERT OR IGNORE INTO ussd_sessions ({', '.join(names)}) VALUES (:{', :'.join(names)})"
            written = self.pool.execute_sql(insert, step)
        else:
            written = self.pool.execute_sql(_UPDATE_SESSION[step["proof"]], {**_NO_VALUES, **step})
        if not written.rowcount:
            return False
        if "event" in step:
            self.pool.execute_sql(_INSERT_EVENT, step["event"])
        if "language_chosen" in step:
            self.pool.execute_sql(_SAVE_LANGUAGE, step)
        return True


def _members(columns: Iterable[str]) -> str:
    """Select the members of an object of `json_each`."""
    return ", ".join(f"value ->> '{column}' AS {column}" for column in columns)
