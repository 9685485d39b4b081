"""Tables of what keeps the service running."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from peewee import SQL, BigIntegerField, BooleanField, IntegerField, OperationalError, ProgrammingError, TextField

from ussd_server.database.tables import IdField, JsonField, MomentField, Table
from ussd_server.database.unit_of_work import database, database_now, dialect

SLEW_SHARE = 0.01
"""The service's time goes so much slower or faster than the database's until both are the same again."""

_FURTHEST_MS = 100 * 365 * 86_400 * 1000
"""No clock is wrong by more than a hundred years: a row that says so was not written by the service."""

# How far ahead the service is, in milliseconds, and the database's time when that was decided.
Decision = tuple[int, datetime | None]


class WorkerHeartbeat(Table):
    """One worker process: its start, its last heartbeat and its counts.

    `is_taken_over`: it was silent, and its leases were freed.
    """

    id = TextField(primary_key=True)
    started_at = MomentField()
    seen_at = MomentField()
    measures = JsonField()
    is_taken_over = BooleanField(default=False)


class Examination(Table):
    """The last one of its kind, `doctor`, `check` or `full_check`. `operator` is empty for one that a command ran.

    A check that looked at everything, to its end, and found nothing is kept as `full_check` too.
    """

    kind = TextField(primary_key=True)
    ended_at = MomentField()
    machine = TextField()
    operator = TextField(null=True)
    result = JsonField()


class ReferenceKey(Table):
    """One row. `check_value` identifies the key that earlier payments were made with, without revealing it.

    `credited_in_sandbox`: an operator of a sandbox credited an account, with money that nobody paid.
    """

    id = IntegerField(primary_key=True)
    check_value = TextField()
    credited_in_sandbox = BooleanField(default=False)

    class Meta:
        table_name = "reference_key"


def note_credit_in_sandbox() -> None:
    """Keep that an operator of a sandbox credited an account. The row is there: a payment was named by its key."""
    ReferenceKey.update(credited_in_sandbox=True).where(~ReferenceKey.credited_in_sandbox).execute()


def kept_check_value() -> str | None:
    """The check value of the key that this database's payments were made with; None before the first one."""
    row = ReferenceKey.get_or_none()
    return None if row is None else str(row.check_value)


class HistoryDigest(Table):
    """A past day (UTC): by client, the digest of its payments and their status changes, as JSON.

    `id` is the smallest id that a payment of the day can have. `first_day` is the day with which digests began, so that
    a missing row between is noticed. `digest` is over the other columns, under a master key.
    """

    id = IdField(primary_key=True)
    day = TextField()
    first_day = TextField()
    clients = TextField()
    digest = TextField()


class RowSignature(Table):
    """The signature of a row that only the service changes. `id` is the table and the row, or what else is signed."""

    id = TextField(primary_key=True)
    digest = TextField()


class ServiceClock(Table):
    """One row. At the database's time `decided_at` the service was `ahead_ms` ahead of it (behind, when negative).

    `last_seen_at` is a late moment of the service's time that a process has seen.
    """

    id = IntegerField(primary_key=True)
    ahead_ms = BigIntegerField()
    decided_at = MomentField()
    last_seen_at = MomentField(null=True)

    class Meta:
        table_name = "service_clock"


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The database's time, and the service's difference from it."""

    database_at: datetime
    ahead_ms: int = 0
    decided_at: datetime | None = None
    last_seen_at: datetime | None = None

    @property
    def decision(self) -> Decision:
        return self.ahead_ms, self.decided_at

    @property
    def ahead(self) -> timedelta:
        """How far the service's time is ahead of the database's now."""
        whole = timedelta(milliseconds=self.ahead_ms)
        if self.decided_at is None:
            return whole
        made_up = max(self.database_at - self.decided_at, timedelta()) * SLEW_SHARE
        return max(whole - made_up, timedelta()) if self.ahead_ms > 0 else min(whole + made_up, timedelta())

    @property
    def service_at(self) -> datetime:
        return self.database_at + self.ahead


def read_service_clock() -> ClockReading:
    """Read the database's time and the row in one statement.

    Returns the database's time alone while the database is not migrated, and when the row is missing or impossible.
    Raises one of `DATABASE_ERRORS`.
    """
    try:
        row = ServiceClock.select(SQL(dialect().clock), ServiceClock).where(ServiceClock.id == 1)
        row = row.tuples().first()
    except (ProgrammingError, OperationalError):
        if database.table_exists("service_clock"):
            raise
        return ClockReading(database_now())
    if row is None or abs(row[2]) > _FURTHEST_MS:
        return ClockReading(database_now())
    database_at = MomentField().python_value(row[0])
    assert database_at is not None
    return ClockReading(database_at, *row[2:])


def put_ahead(reading: ClockReading, ahead: timedelta) -> Decision | None:
    """Let the service be `ahead` of the database from the moment of `reading` on; None when another was faster."""
    at = reading.database_at
    decision = round(ahead / timedelta(milliseconds=1)), at.replace(microsecond=at.microsecond // 1000 * 1000)
    changed = ServiceClock.update(ahead_ms=decision[0], decided_at=decision[1], last_seen_at=at + ahead).where(
        ServiceClock.ahead_ms == reading.ahead_ms, ServiceClock.decided_at == reading.decided_at
    )
    return decision if changed.execute() else None


def set_service_time(moment: datetime | None) -> datetime:
    """Let the service's time be `moment` from now on, or the database's time; return it. No other process may run."""
    at = database_now()
    at = at.replace(microsecond=at.microsecond // 1000 * 1000)
    ahead = timedelta() if moment is None else moment - at
    ServiceClock.update(ahead_ms=ahead // timedelta(milliseconds=1), decided_at=at, last_seen_at=None).execute()
    return at + ahead


def note_seen(moment: datetime) -> None:
    """Store that the service's time has reached `moment`."""
    ServiceClock.update(last_seen_at=moment).execute()
