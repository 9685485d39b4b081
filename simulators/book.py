"""The book: what a stand-in believes happened, in memory or in a file that outlives it."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from simulators.clock import moment

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
class Step:
    """A status a payment takes at a moment, in the company's own words."""

    at: float
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Payment:
    """A payment the company accepted, with everything that will become of it already decided.

    `receipt` is the company's own number for it, `original` the reference of the payment a refund gives back,
    `paid_at` the moment the money has moved for good, or None when it never does.
    """

    reference: str
    kind: str
    amount_cents: int
    currency: str
    party: str
    receipt: str
    accepted_at: float
    steps: tuple[Step, ...]
    paid_at: float | None = None
    original: str = ""
    callback_url: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def step_at(self, now: float) -> Step:
        """The step the payment is at; the first one holds from the start."""
        reached = [step for step in self.steps if step.at <= now]
        return reached[-1] if reached else self.steps[0]


@dataclass(frozen=True, slots=True)
class DueCallback:
    """A callback waiting for its moment: the payment and which of its steps it tells of."""

    number: int
    reference: str
    step: int


class Book:
    """Payments, callbacks, credentials and counts of requests; safe for many threads."""

    def __init__(self, path: str = ":memory:") -> None:
        self._lock = threading.RLock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.row_factory = sqlite3.Row
        self._database.execute("PRAGMA journal_mode = WAL")
        # A killed process loses nothing this way; only a machine that loses power could, and a stand-in need not mind.
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(TABLES)

    def close(self) -> None:
        """Close the file; the book is not used afterwards."""
        with self._lock:
            self._database.close()

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Keep every other thread out, so that what was read holds when it is written; one database transaction."""
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
        """Forget everything."""
        with self.exclusively():
            for table in ("payments", "callbacks", "deliveries", "requests", "credentials", "clock"):
                self._database.execute(f"DELETE FROM {table}")

    # Payments

    def next_number(self) -> int:
        """The running number the next payment will have; stable inside `exclusively`."""
        return int(self._value("SELECT COALESCE(MAX(number), 0) + 1 FROM payments"))

    def write(self, payment: Payment) -> bool:
        """Enter a payment; False, and nothing written, when its reference is in the book already."""
        steps = [[step.at, step.status, step.reason] for step in payment.steps]
        with self.exclusively():
            written = self._database.execute(
                "INSERT INTO payments (reference, kind, amount_cents, currency, party, receipt, original, accepted_at,"
                " paid_at, callback_url, details, steps) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (reference) DO NOTHING",
                (
                    payment.reference,
                    payment.kind,
                    payment.amount_cents,
                    payment.currency,
                    payment.party,
                    payment.receipt,
                    payment.original,
                    payment.accepted_at,
                    payment.paid_at,
                    payment.callback_url,
                    json.dumps(payment.details),
                    json.dumps(steps),
                ),
            )
        return written.rowcount == 1

    def find(self, reference: str) -> Payment | None:
        """The payment with this reference."""
        return next(iter(self._payments("WHERE reference = ?", reference)), None)

    def find_receipt(self, receipt: str) -> Payment | None:
        """The payment with this number of the company's own."""
        return next(iter(self._payments("WHERE receipt = ?", receipt)), None)

    def refunds(self, original: str) -> list[Payment]:
        """Every refund asked for of one payment."""
        return self._payments("WHERE original = ?", original)

    def paid_cents(self, kinds: tuple[str, ...], by: float | None = None) -> int:
        """The sum of payments of these kinds that succeed, by a moment or ever."""
        marks = ", ".join("?" * len(kinds))
        return int(
            self._value(
                f"SELECT COALESCE(SUM(amount_cents), 0) FROM payments WHERE kind IN ({marks}) AND paid_at <= ?",
                *kinds,
                float("inf") if by is None else by,
            )
        )

    # Callbacks

    def queue_callback(self, reference: str, step: int, due_at: float) -> None:
        """Plan the callback that tells of a step of a payment."""
        with self.exclusively():
            self._database.execute(
                "INSERT INTO callbacks (reference, step, due_at) VALUES (?, ?, ?)", (reference, step, due_at)
            )

    def due_callbacks(self, now: float) -> list[DueCallback]:
        """Callbacks whose moment has come, in the order they fell due."""
        rows = self._rows(
            "SELECT number, reference, step FROM callbacks WHERE due_at <= ? ORDER BY due_at, number", now
        )
        return [DueCallback(**dict(row)) for row in rows]

    def next_callback_at(self, after: float) -> float | None:
        """When the next callback falls due that was not due yet at `after`."""
        at = self._value("SELECT MIN(due_at) FROM callbacks WHERE due_at > ?", after)
        return None if at is None else float(at)

    def take_callback(self, number: int) -> bool:
        """Take a callback out of the queue before it is sent, so that no restart can send it again."""
        with self.exclusively():
            return self._database.execute("DELETE FROM callbacks WHERE number = ?", (number,)).rowcount == 1

    def note_delivery(self, reference: str, method: str, url: str, body: str, sent_at: float, answer: str) -> None:
        """Keep what was sent and what came back."""
        with self.exclusively():
            self._database.execute(
                "INSERT INTO deliveries (reference, method, url, body, sent_at, answer) VALUES (?, ?, ?, ?, ?, ?)",
                (reference, method, url, body, sent_at, answer),
            )

    # Requests

    def count(self, endpoint: str, reference: str) -> int:
        """Count a request that reached the company, and say how many of its kind there were with it."""
        with self.exclusively():
            self._database.execute(
                "INSERT INTO requests VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1",
                (endpoint, reference),
            )
            return self.counted(endpoint, reference)

    def counted(self, endpoint: str, reference: str) -> int:
        """How many such requests reached the company."""
        return int(
            self._value(
                "SELECT COALESCE(SUM(count), 0) FROM requests WHERE endpoint = ? AND reference = ?", endpoint, reference
            )
        )

    # Credentials and the clock

    def keep(self, kind: str, name: str, details: dict[str, Any], expires_at: float | None = None) -> bool:
        """Keep a credential; False when one of this kind and name is kept already."""
        with self.exclusively():
            kept = self._database.execute(
                "INSERT INTO credentials VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (kind, name, json.dumps(details), expires_at),
            )
        return kept.rowcount == 1

    def kept(self, kind: str, name: str, now: float) -> dict[str, Any] | None:
        """A credential that has not expired."""
        found = self._value(
            "SELECT details FROM credentials WHERE kind = ? AND name = ? AND COALESCE(expires_at > ?, 1)",
            kind,
            name,
            now,
        )
        return None if found is None else dict(json.loads(found))

    def keep_clock(self, offset_seconds: float) -> None:
        """Remember how far the clock was moved, so that a restart does not undo what had settled."""
        with self.exclusively():
            self._database.execute("DELETE FROM clock")
            self._database.execute("INSERT INTO clock VALUES (?)", (offset_seconds,))

    def kept_clock(self) -> float:
        """How far the clock had been moved."""
        return float(self._value("SELECT COALESCE(SUM(offset_seconds), 0) FROM clock"))

    # What others may read

    def shown(self, now: float, reference: str | None = None) -> dict[str, Any]:
        """The book as JSON shows it, whole or for one reference; credentials are not in it."""
        only = "" if reference is None else "WHERE reference = ?"
        values = () if reference is None else (reference,)
        return {
            "now": moment(now),
            "payments": [_shown_payment(payment, now) for payment in self._payments(only, *values)],
            "requests": [
                dict(row)
                for row in self._rows(
                    f"SELECT endpoint, reference, count FROM requests {only} ORDER BY endpoint, reference", *values
                )
            ],
            "callbacks": [
                {**dict(row), "body": json.loads(row["body"]), "sent_at": moment(row["sent_at"])}
                for row in self._rows(
                    f"SELECT reference, method, url, body, sent_at, answer FROM deliveries {only} ORDER BY number",
                    *values,
                )
            ],
            "callbacks_waiting": [
                {"reference": row["reference"], "due_at": moment(row["due_at"])}
                for row in self._rows(f"SELECT reference, due_at FROM callbacks {only} ORDER BY due_at", *values)
            ],
        }

    def _payments(self, clause: str, *values: object) -> list[Payment]:
        return [_payment(row) for row in self._rows(f"SELECT * FROM payments {clause} ORDER BY number", *values)]

    def _rows(self, statement: str, *values: object) -> list[sqlite3.Row]:
        with self._lock:
            return self._database.execute(statement, values).fetchall()

    def _value(self, statement: str, *values: object) -> Any:
        rows = self._rows(statement, *values)
        return rows[0][0] if rows else None


def _payment(row: sqlite3.Row) -> Payment:
    columns = {name: value for name, value in dict(row).items() if name not in ("number", "details", "steps")}
    steps = tuple(Step(*step) for step in json.loads(row["steps"]))
    return Payment(**columns, details=json.loads(row["details"]), steps=steps)


def _shown_payment(payment: Payment, now: float) -> dict[str, Any]:
    step = payment.step_at(now)
    return {
        "reference": payment.reference,
        "kind": payment.kind,
        "amount_cents": payment.amount_cents,
        "currency": payment.currency,
        "party": payment.party,
        "receipt": payment.receipt,
        "original": payment.original,
        "accepted_at": moment(payment.accepted_at),
        "status": step.status,
        "reason": step.reason,
        "paid": payment.paid_at is not None and payment.paid_at <= now,
        "callback_url": payment.callback_url,
        "details": payment.details,
        "history": [
            {"at": moment(past.at), "status": past.status, "reason": past.reason}
            for past in payment.steps
            if past.at <= now
        ],
    }
