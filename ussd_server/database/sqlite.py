"""The dialect of SQLite. `postgres.py` has the twin of each method."""

from __future__ import annotations

import fcntl
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from peewee import IntegrityError, OperationalError

from ussd_server.database.connections import UnsupportedDatabaseError
from ussd_server.database.dialect import Dialect

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
    JOIN api_keys ON api_keys.id = key_id WHERE spent_cents > daily_limit_cents"""
_TERMS = "coalesce((SELECT {0} FROM fees WHERE client_id = value ->> 'client_id' AND type = value ->> 'type'), 0)"
_OTHER_TERMS = f"""SELECT 1 FROM json_each(?, '$.fees')
    WHERE value ->> 'fixed_cents' <> {_TERMS.format("fixed_cents")}
        OR value ->> 'share_basis_points' <> {_TERMS.format("share_basis_points")}"""
_RECORDED = {"transactions": "transactions", "changes": "transaction_events", "events": "events"}
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
_INSERT_EVENT = """INSERT INTO events (id, client_id, type, object_id, sequence, format, payload, created_at,
        traceparent)
    VALUES (:id, :client_id, :type, :object_id,
        (SELECT coalesce(max(sequence), 0) + 1 FROM events WHERE object_id = :object_id),
        :format, :payload, :created_at, :traceparent)"""
_SAVE_LANGUAGE = """INSERT INTO subscriber_languages (client_id, phone_number, language)
    VALUES (:client_id, :phone_number, :language_chosen)
    ON CONFLICT (client_id, phone_number) DO UPDATE SET language = excluded.language"""


class Sqlite(Dialect):
    """The dialect of SQLite."""

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
        return False

    def standbys(self) -> None:
        return None

    def load(self) -> None:
        return None

    def was_rolled_back(self, error: Exception) -> bool:
        return False

    def broken_rule(self, error: Exception) -> str:
        return str(error)

    @contextmanager
    def without_timeouts(self) -> Iterator[None]:
        yield

    @contextmanager
    def without_syncs(self) -> Iterator[None]:
        self.pool.connect(reuse_if_open=True)
        self.pool.execute_sql("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self.pool.execute_sql("PRAGMA synchronous = FULL")

    @contextmanager
    def without_triggers(self, tables: Sequence[str]) -> Iterator[None]:
        found = self.pool.execute_sql("SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        triggers = [(name, statement) for name, table, statement in found if table in tables]
        for name, _ in triggers:
            self.pool.execute_sql(f"DROP TRIGGER {name}")
        yield
        # Accounts that were inserted with a balance are changed by later transfers only, too.
        self.pool.execute_sql(
            "UPDATE ledger_accounts SET last_transfer = (SELECT coalesce(max(position), 0) FROM ledger_transfers) "
            "WHERE last_transfer = 0"
        )
        for _, statement in triggers:
            self.pool.execute_sql(statement)

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
        return _ENDS_OF_TABLES.get(line) or _TYPE.sub(lambda found: _TYPES[found[0]], line)

    def without_parameters(self, statement: str) -> str:
        return statement

    def index(self, kind: str, name: str, definition: str) -> Sequence[str]:
        return (f"CREATE {kind} {name} ON {definition}",)

    def without_index(self, name: str) -> str:
        return f"DROP INDEX {name}"

    def named(self, query: str) -> str:
        return query

    def moment_text(self, column: Any) -> Any:
        return column

    def moment(self, column: str) -> str:
        return column

    def text(self, column: str) -> str:
        return column

    def seconds_between(self, began: str, ended: str) -> str:
        return f"(julianday({ended}) - julianday({began})) * 86400"

    def hour(self, moment: str) -> str:
        return f"substr({moment}, 1, 13)"

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

    def for_each(self, query: str, columns: Mapping[str, str]) -> None:
        return None

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
                self.pool.execute_sql(
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT {_members(names)} FROM json_each(?, '$.{part}')",
                    (document,),
                )
            self.post(document)
            self.pool.execute_sql(_SETTLE, (document,))

    def write_steps(self, steps: Sequence[Mapping[str, Any]]) -> set[int]:
        # A single statement is a transaction by itself.
        is_one_statement = len(steps) == 1 and not {"event", "language_chosen"} & steps[0].keys()
        with nullcontext() if is_one_statement else self.pool.atomic():
            return {place for place, step in enumerate(steps, start=1) if self._write_step(step)}

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

    def holdings(self, document: str) -> Any:
        return self.pool.execute_sql(
            """SELECT key, balance_cents, reserved_cents
            FROM json_each(?) JOIN ledger_accounts ON client_id = value ->> 0 AND name = value ->> 1""",
            (document,),
        )


def _members(columns: Iterable[str]) -> str:
    """Select the members of an object of `json_each`."""
    return ", ".join(f"value ->> '{column}' AS {column}" for column in columns)
