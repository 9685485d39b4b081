"""Gauges: how much work is waiting and for how long, read from the tables for each scrape.

Every query uses an index and reads at most 10,000 rows, so that a scrape stays cheap when much is waiting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from peewee import Case, Column, fn

from ussd_server.database.partitions import end_of_requests, ends_of_partitions
from ussd_server.database.servers import present_standbys, server_load
from ussd_server.database.unit_of_work import DATABASE_ERRORS, close_connections, database_fault
from ussd_server.models.keys import KeyUsage
from ussd_server.models.movements import Movement, is_unexplained
from ussd_server.models.sending import Delivery, Event, Mail, PendingEvent, Sms
from ussd_server.models.statements import StatementDifference, is_in_stored_statement
from ussd_server.models.transactions import IN_REVIEW, Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.senders.messages import SmsFailure
from ussd_server.services.clients.keys.notices import REFUSED_ELSEWHERE
from ussd_server.services.mail.messages import MailStatus
from ussd_server.services.operations.book_check.examinations import last_examinations
from ussd_server.services.operations.messages import Measure
from ussd_server.services.pages import MOST_COUNTED, count_rows
from ussd_server.services.providers.floats import FloatService
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import UNFINISHED, TransactionType
from ussd_server.services.ussd.smpp_links import SmppLinks
from ussd_server.services.webhooks.deliveries import most_under_way
from ussd_server.services.webhooks.lateness import late_webhooks
from ussd_server.values import kampala_day, new_id_floor

_RECENTLY = timedelta(minutes=15)
_MOST_PLACES = 200
_MOST_LATE_WEBHOOKS = 20
_AGES = ((60, "1m"), (600, "10m"), (3600, "1h"), (86_400, "1d"))


class Gauges:
    def __init__(self, runtime: Runtime, floats: FloatService) -> None:
        self._clock, self._heartbeat = runtime.clock, runtime.heartbeat
        self._floats = floats
        self._delivery_slots = runtime.settings.delivery_slots
        self._smpp_links = SmppLinks(runtime)

    def read(self) -> list[Measure]:
        """Return every gauge; while the database is down, those of the database alone."""
        fault = database_fault()
        if fault == "away":
            return _database(fault)
        try:
            return [*_database(fault), *self._of_rows(self._clock.now())]
        except DATABASE_ERRORS:
            close_connections()
            return _database("away")

    def _of_rows(self, now: datetime) -> list[Measure]:
        return [
            *_unfinished(now),
            *_recent(now),
            *_review(),
            *_outbox(now, most_under_way(self._delivery_slots)),
            *_mails(now),
            *_messages(now),
            *_sessions(now),
            *_keys(now),
            *self._heartbeat.measures(),
            *self._floats.measures(),
            *self._smpp_links.measures(),
            *measures_of_server(),
            *measures_of_check(now),
        ]


def _database(fault: str | None) -> list[Measure]:
    return [
        Measure("ussd_database_up", "1 while the database answers and takes writes.", float(fault is None)),
        Measure("ussd_database_read_only", "1 while the database only reads.", float(fault == "read-only")),
        Measure("ussd_database_full", "1 while no room is left on the database's disk.", float(fault == "full")),
    ]


def _keys(now: datetime) -> Iterator[Measure]:
    """Keys that may have leaked."""
    refused = KeyUsage.select(KeyUsage.key_id).where(REFUSED_ELSEWHERE, KeyUsage.day == kampala_day(now)).distinct()
    meaning = "Keys that were refused today because of the address of the call."
    yield Measure("ussd_keys_refused_by_address", meaning, count_rows(refused))


def _unfinished(now: datetime) -> Iterator[Measure]:
    """Transactions that are not final, by state and age, how old the oldest is, and how late the worker is.

    Without settlements, which wait for the bank.
    """
    ages = [(Transaction.created_at > now - timedelta(seconds=seconds), name) for seconds, name in _AGES]
    waiting = (
        Transaction.select(Transaction.status, Case(None, ages, "ever").alias("age"), Transaction.created_at)
        .where(Transaction.due_at.is_null(False), Transaction.status.in_(UNFINISHED))
        .where(Transaction.type != TransactionType.SETTLEMENT)
        .order_by(Transaction.due_at)
        .limit(MOST_COUNTED)
        .alias("waiting")
    )
    groups = _grouped(waiting, ["status", "age"], fn.COUNT(waiting.c.status), fn.MIN(waiting.c.created_at))
    for status, age, count, _ in groups:
        yield Measure(
            "ussd_transactions_unfinished",
            "Transactions that are not final, by state and age.",
            count,
            {"status": status, "younger_than": age},
        )
    moments: Any = [Transaction.created_at.python_value(created_at) for *_, created_at in groups]
    first = min(moments, default=None)
    oldest = _since(first, now)
    yield Measure("ussd_transactions_oldest_unfinished_seconds", "The age of the oldest of them.", oldest)
    overdue = _overdue(Transaction, Transaction.due_at.is_null(False), now)
    yield Measure("ussd_transactions_overdue_seconds", "How late the worker is with them.", overdue)


def _recent(now: datetime) -> Iterator[Measure]:
    """Transactions of the last quarter of an hour, by status."""
    recent = (
        Transaction.select(Transaction.provider, Transaction.type, Transaction.status)
        .where(Transaction.id >= new_id_floor(now - _RECENTLY))
        .limit(MOST_COUNTED)
        .alias("recent")
    )
    for provider, kind, status, count in _grouped(recent, ["provider", "type", "status"], fn.COUNT(recent.c.status)):
        yield Measure(
            "ussd_transactions_recent",
            "Transactions of the last 15 minutes, by provider, type and state.",
            count,
            {"provider": provider or "", "type": kind, "status": status},
        )


def _review() -> Iterator[Measure]:
    yield Measure("ussd_transactions_in_review", "Transactions that need an operator.", _count(Transaction, IN_REVIEW))
    held = _count(Movement, is_unexplained())
    yield Measure("ussd_movements_held", "Money that moved without a use, or to be given back: operators end it.", held)


def _outbox(now: datetime, share: int) -> Iterator[Measure]:
    """Events that are not yet turned into deliveries, and deliveries that are due."""
    yield Measure("ussd_events_pending", "Events without their deliveries yet.", count_rows(PendingEvent.select()))
    first_id = PendingEvent.select(PendingEvent.event_id).order_by(PendingEvent.event_id).limit(1)
    lag = _since(Event.select(Event.created_at).where(Event.id == first_id).scalar(), now)
    yield Measure("ussd_events_lag_seconds", "How old the first of them is.", lag)
    due = Delivery.due_at.is_null(False) & Delivery.lease_token.is_null()
    yield Measure("ussd_deliveries_queued", "Queues of deliveries that are not empty.", _count(Delivery, due))
    late = late_webhooks(now)
    for webhook in late[:_MOST_LATE_WEBHOOKS]:
        labels = {"client": webhook.client, "webhook": webhook.webhook_id}
        seconds = _since(webhook.due_at, now)
        yield Measure("ussd_webhook_late_seconds", "How late a webhook is; the 20 latest.", seconds, labels)
    possible = (each.due_at for each in late if each.failing_since is None and each.under_way < share)
    meaning = "How late the worker is with them, without webhooks that fail or have their full share under way."
    yield Measure("ussd_deliveries_overdue_seconds", meaning, _since(next(possible, None), now))


def _mails(now: datetime) -> Iterator[Measure]:
    """Mails that wait, and how late the worker is with them."""
    is_late = (Mail.due_at <= now) | (Mail.attempts > 0)
    waiting = _count(Mail, (Mail.status == MailStatus.WAITING) & is_late)
    yield Measure("ussd_mails_waiting", "Mails that are due or failed before; not those put off.", waiting)
    due = Mail.due_at.is_null(False) & Mail.lease_token.is_null()
    yield Measure("ussd_mails_overdue_seconds", "How late the worker is with them.", _overdue(Mail, due, now))


def _messages(now: datetime) -> Iterator[Measure]:
    """How old the first message that waits is, and those that the sender refused lately."""
    first = Sms.select(Sms.created_at).where(Sms.due_at.is_null(False)).order_by(Sms.id).limit(1).scalar()
    yield Measure("ussd_messages_oldest_seconds", "How old the first one that waits is.", _since(first, now))
    refused = (Sms.failure_code == SmsFailure.SENDER_REFUSED) & (Sms.id >= new_id_floor(now - _RECENTLY))
    meaning = "Messages of the last 15 minutes that the sender refused."
    yield Measure("ussd_messages_refused_recent", meaning, _count(Sms, refused))


def _sessions(now: datetime) -> Iterator[Measure]:
    """Sessions of the last quarter of an hour, by the node where they are or ended."""
    yield Measure("ussd_sessions_active", "Sessions under way.", _count(UssdSession, UssdSession.status == "active"))
    recent = (
        UssdSession.select(
            UssdSession.service_code, UssdSession.node, UssdSession.status, UssdSession.end_reason, UssdSession.turn
        )
        .where(UssdSession.id >= new_id_floor(now - _RECENTLY))
        .order_by(UssdSession.id.desc())
        .limit(MOST_COUNTED)
        .alias("recent")
    )
    places = ["service_code", "node", "status", "end_reason"]
    sessions = _grouped(recent, places, fn.COUNT(recent.c.turn), fn.SUM(recent.c.turn + 1))
    steps = int(sum(each[-1] for each in sessions))
    yield Measure("ussd_steps_recent", "Steps of the sessions begun in the last 15 minutes.", steps)
    sessions.sort(key=lambda group: group[-2], reverse=True)
    for code, node, status, reason, count, _ in sessions[:_MOST_PLACES]:
        yield Measure(
            "ussd_sessions_recent",
            "Sessions begun in the last 15 minutes, by where they are or ended.",
            count,
            {"code": code, "node": node, "status": status, "end_reason": reason or ""},
        )


def _grouped(rows: Any, columns: Sequence[str], *sums: Any) -> list[tuple[Any, ...]]:
    """Group the rows of a query, which has an alias, by columns in their order; each group ends with its `sums`."""
    # Not `rows.c`, which has no column named `node`.
    groups = [Column(rows, name) for name in columns]
    return list(rows.model.select(*groups, *sums).from_(rows).group_by(*groups).order_by(*groups).tuples())


def _count(table: Any, which: Any) -> int:
    return count_rows(table.select().where(which))


def _overdue(table: Any, which: Any, now: datetime) -> float:
    """How many seconds ago the first of the rows was due."""
    return _since(table.select(fn.MIN(table.due_at)).where(which).scalar(), now)


def _since(moment: datetime | None, now: datetime) -> float:
    return 0.0 if moment is None else max(0.0, (now - moment).total_seconds())


def measures_of_server() -> Iterator[Measure]:
    """Yield the gauges of PostgreSQL; none for SQLite."""
    standbys = present_standbys()
    if standbys is not None:
        yield Measure("ussd_database_standbys", "Standbys that receive from the database.", standbys.number)
        may_lose = standbys.number > 0 and not standbys.are_synchronous
        meaning = "1 while a failover to a standby could lose answered payments."
        yield Measure("ussd_database_may_lose_commits", meaning, float(may_lose))
    load = server_load()
    if load is not None:
        if load.standby_lag_bytes is not None:
            yield Measure("ussd_database_standby_lag_bytes", "What the slowest standby lacks.", load.standby_lag_bytes)
        yield Measure("ussd_database_slot_bytes", "What replication slots keep on the disk.", load.slot_bytes)
        yield Measure("ussd_database_connections_share", "The used share of all connections.", load.connections_share)
        yield Measure("ussd_database_transaction_id_age", "Transactions since the oldest frozen one.", load.id_age)
        yield Measure("ussd_database_archive_failing", "1 while archiving fails.", float(load.is_archive_failing))
    for table, end in sorted(ends_of_partitions().items()):
        seconds = (end - datetime.now(UTC)).total_seconds()
        yield Measure("ussd_partitions_left_seconds", "How long a table has partitions.", seconds, {"table": table})
    requests_end = end_of_requests()
    if requests_end is not None:
        seconds = (requests_end - datetime.now(UTC)).total_seconds()
        yield Measure("ussd_request_partitions_left_seconds", "How long the request log has partitions.", seconds)


def measures_of_check(now: datetime) -> Iterator[Measure]:
    """Yield the age and result of the last check of all books, none before the first, and the open differences."""
    open_differences = StatementDifference.ended_at.is_null() & is_in_stored_statement()
    count = _count(StatementDifference, open_differences)
    yield Measure("ussd_differences_open", "Differences from statements of providers without a decision.", count)
    last = last_examinations().check
    if last is not None:
        age = (now - last.ended_at).total_seconds()
        yield Measure("ussd_check_ended_seconds", "How long ago the last check ended.", age)
        yield Measure("ussd_check_violations", "Violations that it found.", len(last.violations))
