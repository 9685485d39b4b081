"""The provider's book of accounts: payments, callbacks, requests and credentials, in memory or in a SQLite file."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any

from simulators.switches import iso_time

TABLES = """
CREATE TABLE IF NOT EXISTS payments (
    number INTEGER PRIMARY KEY, reference TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, amount_cents INTEGER NOT NULL,
    currency TEXT NOT NULL, party TEXT NOT NULL, receipt TEXT NOT NULL UNIQUE, original TEXT NOT NULL,
    accepted_at REAL NOT NULL, paid_at REAL, callback_url TEXT NOT NULL, details TEXT NOT NULL, steps TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS payments_by_original ON payments (original);
CREATE TABLE IF NOT EXISTS callbacks (
    number INTEGER PRIMARY KEY, reference TEXT NOT NULL, step INTEGER NOT NULL, due_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS deliveries (
    number INTEGER PRIMARY KEY, reference TEXT NOT NULL, method TEXT NOT NULL, url TEXT NOT NULL, body TEXT NOT NULL,
    sent_at REAL NOT NULL, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS requests (
    endpoint TEXT NOT NULL, reference TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (endpoint, reference));
CREATE TABLE IF NOT EXISTS credentials (
    kind TEXT NOT NULL, name TEXT NOT NULL, details TEXT NOT NULL, expires_at REAL, PRIMARY KEY (kind, name));
CREATE TABLE IF NOT EXISTS clock (offset_seconds REAL NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class BookedStep:
    """A status that a payment takes at a time (seconds since 1970), with the provider's own names."""

    at: float
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedPayment:
    """A payment that a client requests; `original` is the reference of the payment that a refund returns."""

    reference: str
    kind: str
    amount_cents: int
    party: str
    original: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedPayment(RequestedPayment):
    """A payment that the provider accepted; all its later steps are decided already.

    `receipt` is the provider's own number for it. Times are seconds since 1970; `paid_at` is when the money has moved
    for good, or None when it never does.
    """

    currency: str
    receipt: str
    accepted_at: float
    steps: tuple[BookedStep, ...]
    paid_at: float | None = None
    callback_url: str = ""

    def step_at(self, now: float) -> BookedStep:
        """Returns the latest step reached; the first step counts from the start."""
        reached = [step for step in self.steps if step.at <= now]
        return reached[-1] if reached else self.steps[0]


@dataclass(frozen=True, slots=True)
class DueCallback:
    """A queued callback: the reference of the payment and the number of the step that it reports."""

    number: int
    reference: str
    step: int


class Book:
    """Payments, callbacks, credentials and request counts; safe for many threads."""

    def __init__(self, path: str = ":memory:") -> None:
        self._lock = threading.RLock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.row_factory = sqlite3.Row
        self._database.execute("PRAGMA journal_mode = WAL")
        # A killed process loses nothing; only a power failure could lose data, which is acceptable here.
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(TABLES)

    def close(self) -> None:
        """Close the file; the book cannot be used afterwards."""
        with self._lock:
            self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in one database transaction that excludes other threads; joins a surrounding transaction."""
        with self._lock:
            if self._database.in_transaction:
                yield
                return
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def clear(self) -> None:
        """Delete everything."""
        with self.transaction():
            for table in ("payments", "callbacks", "deliveries", "requests", "credentials", "clock"):
                self._database.execute(f"DELETE FROM {table}")

    # Payments

    def next_number(self) -> int:
        """Returns the number that the next payment will have; stable inside a `transaction`."""
        return int(self._value("SELECT COALESCE(MAX(number), 0) + 1 FROM payments"))

    def insert(self, payment: BookedPayment) -> bool:
        """Insert a payment; returns False, and inserts nothing, when its reference exists."""
        row = {each.name: getattr(payment, each.name) for each in fields(payment)}
        row["details"] = json.dumps(payment.details)
        row["steps"] = json.dumps([astuple(step) for step in payment.steps])
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        statement = f"INSERT INTO payments ({names}) VALUES ({marks}) ON CONFLICT (reference) DO NOTHING"
        return self._execute(statement, *row.values()) == 1

    def payments(self) -> list[BookedPayment]:
        """Returns every payment, the first accepted first."""
        return self._payments("")

    def find(self, reference: str) -> BookedPayment | None:
        """Returns the payment with this reference, or None."""
        return next(iter(self._payments("WHERE reference = ?", reference)), None)

    def find_by_receipt(self, receipt: str) -> BookedPayment | None:
        """Returns the payment with this number of the provider, or None."""
        return next(iter(self._payments("WHERE receipt = ?", receipt)), None)

    def refunds_of(self, original: str) -> list[BookedPayment]:
        """Returns all refunds requested for one payment."""
        return self._payments("WHERE original = ?", original)

    def paid_cents(self, kinds: tuple[str, ...], by: float | None = None) -> int:
        """Returns the sum of payments of these kinds that have succeeded by a time; None counts all that ever will."""
        marks = ", ".join("?" * len(kinds))
        statement = f"SELECT COALESCE(SUM(amount_cents), 0) FROM payments WHERE kind IN ({marks}) AND paid_at <= ?"
        return int(self._value(statement, *kinds, float("inf") if by is None else by))

    # Callbacks

    def queue_callback(self, reference: str, step: int, due_at: float) -> None:
        """Queue the callback for a step of a payment."""
        self._execute("INSERT INTO callbacks (reference, step, due_at) VALUES (?, ?, ?)", reference, step, due_at)

    def due_callbacks(self, now: float) -> list[DueCallback]:
        """Returns the callbacks that are due, the earliest first."""
        statement = "SELECT number, reference, step FROM callbacks WHERE due_at <= ? ORDER BY due_at, number"
        return [DueCallback(**dict(row)) for row in self._rows(statement, now)]

    def next_callback_at(self, after: float) -> float | None:
        """Returns when the first callback later than `after` is due, or None."""
        at = self._value("SELECT MIN(due_at) FROM callbacks WHERE due_at > ?", after)
        return None if at is None else float(at)

    def take_callback(self, number: int) -> bool:
        """Remove a callback from the queue before it is sent, so that no restart sends it again."""
        return self._execute("DELETE FROM callbacks WHERE number = ?", number) == 1

    def insert_delivery(self, reference: str, method: str, url: str, body: str, sent_at: float, result: str) -> None:
        """Store what was sent, and the HTTP status or the error that resulted."""
        statement = "INSERT INTO deliveries (reference, method, url, body, sent_at, answer) VALUES (?, ?, ?, ?, ?, ?)"
        self._execute(statement, reference, method, url, body, sent_at, result)

    # Requests

    def count_request(self, endpoint: str, reference: str) -> None:
        """Count a request that reached the provider."""
        statement = "INSERT INTO requests VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1"
        self._execute(statement, endpoint, reference)

    def request_count(self, endpoint: str, reference: str) -> int:
        """Returns how many such requests reached the provider."""
        statement = "SELECT COALESCE(SUM(count), 0) FROM requests WHERE endpoint = ? AND reference = ?"
        return int(self._value(statement, endpoint, reference))

    # Credentials and the clock

    def add_credential(self, kind: str, name: str, details: dict[str, Any], expires_at: float | None = None) -> bool:
        """Insert a credential; returns False when one of this kind and name exists."""
        statement = "INSERT INTO credentials VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        return self._execute(statement, kind, name, json.dumps(details), expires_at) == 1

    def find_credential(self, kind: str, name: str, now: float) -> dict[str, Any] | None:
        """Returns the details of a credential that has not expired, or None."""
        statement = "SELECT details FROM credentials WHERE kind = ? AND name = ? AND COALESCE(expires_at > ?, 1)"
        details = self._value(statement, kind, name, now)
        return None if details is None else dict(json.loads(details))

    def save_clock_offset(self, offset_seconds: float) -> None:
        """Store the clock's offset, so that a restart does not undo what had settled."""
        with self.transaction():
            self._database.execute("DELETE FROM clock")
            self._database.execute("INSERT INTO clock VALUES (?)", (offset_seconds,))

    def saved_clock_offset(self) -> float:
        """Returns the stored offset of the clock in seconds."""
        return float(self._value("SELECT COALESCE(SUM(offset_seconds), 0) FROM clock"))

    # For the controls

    def as_json(self, now: float, reference: str | None = None) -> dict[str, Any]:
        """Returns the book for JSON, whole or for one reference; without credentials."""
        only, values = ("", ()) if reference is None else ("WHERE reference = ?", (reference,))
        requests = f"SELECT endpoint, reference, count FROM requests {only} ORDER BY endpoint, reference"
        sent = f"SELECT reference, method, url, body, sent_at, answer FROM deliveries {only} ORDER BY number"
        waiting = f"SELECT reference, due_at FROM callbacks {only} ORDER BY due_at"
        return {
            "now": iso_time(now),
            "payments": [_payment_as_json(payment, now) for payment in self._payments(only, *values)],
            "requests": [dict(row) for row in self._rows(requests, *values)],
            "callbacks": [
                {**dict(row), "body": json.loads(row["body"]), "sent_at": iso_time(row["sent_at"])}
                for row in self._rows(sent, *values)
            ],
            "callbacks_waiting": [
                {**dict(row), "due_at": iso_time(row["due_at"])} for row in self._rows(waiting, *values)
            ],
        }

    def _payments(self, clause: str, *values: object) -> list[BookedPayment]:
        return [_payment(row) for row in self._rows(f"SELECT * FROM payments {clause} ORDER BY number", *values)]

    def _execute(self, statement: str, *values: object) -> int:
        """Returns the number of rows changed."""
        with self.transaction():
            return self._database.execute(statement, values).rowcount

    def _rows(self, statement: str, *values: object) -> list[sqlite3.Row]:
        with self._lock:
            return self._database.execute(statement, values).fetchall()

    def _value(self, statement: str, *values: object) -> Any:
        rows = self._rows(statement, *values)
        return rows[0][0] if rows else None


def _payment(row: sqlite3.Row) -> BookedPayment:
    columns = {name: value for name, value in dict(row).items() if name not in ("number", "details", "steps")}
    steps = tuple(BookedStep(*step) for step in json.loads(row["steps"]))
    return BookedPayment(**columns, details=json.loads(row["details"]), steps=steps)


def _payment_as_json(payment: BookedPayment, now: float) -> dict[str, Any]:
    step = payment.step_at(now)
    body = asdict(payment) | {
        "accepted_at": iso_time(payment.accepted_at),
        "status": step.status,
        "reason": step.reason,
        "paid": payment.paid_at is not None and payment.paid_at <= now,
        "history": [{**asdict(past), "at": iso_time(past.at)} for past in payment.steps if past.at <= now],
    }
    del body["steps"], body["paid_at"]
    return body
