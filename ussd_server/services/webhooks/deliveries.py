"""Deliveries: sends events to webhooks, signed, in the order of each object, until they are accepted or given up.

A delivery is claimed with a lease, sent outside every database transaction, and its result is written in one. After
any crash the lease expires and a worker sends it again: a receiver may get an event twice, but never misses one. Each
attempt is kept, and shown to the client as it was sent.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from peewee import fn

from ussd_server.context import RequestContext
from ussd_server.database.tables import CompiledQuery, param
from ussd_server.database.unit_of_work import advisory_lock, for_update, release_connection, unit_of_work
from ussd_server.logs import Logger, now_about, trace_headers
from ussd_server.models.sending import Delivery, DeliveryAttempt, Event, Webhook
from ussd_server.models.transactions import Transaction
from ussd_server.outbound.signature import Signature
from ussd_server.outbound.transport import HttpExchange, SendState, Transport
from ussd_server.parsing.secrets_in_text import without_tokens
from ussd_server.services.leases import end_lease, is_due, still_leased
from ussd_server.services.runtime import Runtime
from ussd_server.services.webhooks.events import find_event, payloads_of
from ussd_server.services.webhooks.messages import (
    DeliveryAttemptView,
    DeliveryStatus,
    SentEvent,
    WebhookHealth,
    is_of_transaction,
)
from ussd_server.services.webhooks.subscriptions import note_missed, switch_off, write_recovery
from ussd_server.values import iso_milliseconds, new_id, new_id_floor
from ussd_server.wire import view_of_row

log = Logger(__name__)

_CLAIM_LOCK = 7_256_256_167
_ANSWER_BYTES = 1024
_PATIENCE = timedelta(days=5)

_SILENT_FOR_LONG = "Nothing was taken there for five days"
_GONE = "The receiver answered 410 Gone"
_GONE_STATUS = 410


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """The time that a receiver may take, and the pause after each failed attempt (wire contract 3.6)."""

    delays: tuple[float, ...] = (5, 30, 2 * 60, 10 * 60, 3600, 6 * 3600, 24 * 3600)
    timeout_seconds: float = 10.0
    lease_seconds: float = 30.0


class DeliveryService:
    """Sends deliveries that are due. Any number of processes may share the work."""

    def __init__(
        self, runtime: Runtime, *, transport: Transport | None = None, schedule: RetrySchedule | None = None
    ) -> None:
        self._outbox = runtime.mail_outbox
        self._clock, self._vault, self._leases = runtime.clock, runtime.vault, runtime.leases
        self._slots = runtime.settings.delivery_slots
        self._transport = transport or Transport(runtime.guard, max_connections=self._slots)
        self._schedule = schedule or RetrySchedule()

    def claim(self, limit: int) -> list[str]:
        """Lease up to `limit` deliveries that are due, the heads of their queues, to this caller; give their ids.

        A webhook gets at most a quarter of the slots, and one slot while it is unproven, which means that its last
        reply was bad or that it never replied. All unproven webhooks share half of the slots. So a receiver that hangs
        does not delay the others.
        """
        now = self._clock.now()
        ready = _READY.rows(Webhook, now=now)
        if not ready:
            return []
        random.shuffle(ready)
        with unit_of_work():
            advisory_lock(_CLAIM_LOCK)
            chosen: list[str] = []
            under_way, unproven_under_way = self._count_under_way(now)
            for webhook in ready:
                free = most_under_way(self._slots) if webhook.is_proven else 1
                free = min(free - under_way[webhook.id], limit - len(chosen))
                if not webhook.is_proven:
                    free = min(free, max(1, self._slots // 2) - unproven_under_way)
                if free > 0:
                    heads = self._leases.lease(_due_heads(webhook, now, free), self._schedule.lease_seconds)
                    unproven_under_way += 0 if webhook.is_proven else len(heads)
                    chosen += [head.id for head in heads]
        return chosen

    def send(self, delivery_id: str) -> None:
        delivery = Delivery.get_by_id(delivery_id)
        webhook = Webhook.get_or_none(Webhook.id == delivery.webhook_id)
        if webhook is None or delivery.lease_token is None:
            # Deleted or switched off since it was claimed.
            return
        event = Event.get_by_id(delivery.event_id)
        ids = {"delivery_id": delivery.id, "webhook_id": webhook.id, "event_id": event.id}
        now_about(**ids, **_origin_of(event))
        body = event_body(event)
        signature = self._signature(webhook, delivery.event_id)
        headers = {"Content-Type": "application/json", **signature.headers(body), **trace_headers()}
        release_connection()
        exchange = self._transport.exchange(
            "POST",
            delivery.url,
            timeout_seconds=self._schedule.timeout_seconds,
            headers=headers,
            body=body,
            max_body_bytes=_ANSWER_BYTES,
        )
        log.info(
            "a webhook was called",
            status=exchange.status,
            trouble=exchange.trouble,
            took_ms=round(exchange.elapsed_seconds * 1000),
        )
        self._apply_answer(delivery, headers, exchange)

    def _count_under_way(self, now: datetime) -> tuple[Counter[str], int]:
        """How many deliveries each webhook has under way, and how many all unproven webhooks have together."""
        webhooks = _UNDER_WAY.rows(Webhook, now=now)
        return Counter(webhook.id for webhook in webhooks), sum(not webhook.is_proven for webhook in webhooks)

    def _signature(self, webhook: Webhook, event_id: str) -> Signature:
        """The secrets that sign an event: all that are valid now."""
        now = self._clock.now()
        secrets_now = [self._vault.decrypt(webhook.secret_sealed, webhook.client_id, webhook.id)]
        if webhook.previous_secret_sealed is not None and webhook.previous_secret_expires_at > now:
            secrets_now.append(self._vault.decrypt(webhook.previous_secret_sealed, webhook.client_id, webhook.id))
        return Signature(event_id, now, secrets_now)

    def _apply_answer(self, sent: Delivery, headers: Mapping[str, str], exchange: HttpExchange) -> None:
        """Store the reply, and update the delivery, its queue and its webhook in one unit of work."""
        now = self._clock.now()
        with unit_of_work():
            webhook = for_update(Webhook.select().where(Webhook.id == sent.webhook_id)).first()
            row = still_leased(sent)
            if webhook is None or row is None:
                return
            _keep_answer(row, exchange, now)
            keep_attempt(row, headers)
            is_taken = exchange.status is not None and 200 <= exchange.status < 300
            is_gone = exchange.status == _GONE_STATUS
            if is_taken:
                row.status = DeliveryStatus.DELIVERED
            elif is_gone or row.attempts > len(self._schedule.delays):
                row.status = DeliveryStatus.DEAD
            end_lease(row)
            row.due_at = self._next_attempt_at(row.attempts, now) if row.status == DeliveryStatus.WAITING else None
            row.completed_at = now if row.status != DeliveryStatus.WAITING else None
            row.save()
            if row.status != DeliveryStatus.WAITING:
                _call_next(row, now)
            _note_standing(webhook, is_taken, now)
            if is_taken:
                write_recovery(webhook, now)
            if row.status == DeliveryStatus.DEAD and webhook.url is not None:
                log.warning("a delivery was given up")
                note_missed(webhook, Event.get_by_id(row.event_id).created_at)
                webhook.save(only=[Webhook.missed_since])
                if is_gone:
                    switch_off(webhook, _GONE, self._outbox, now)
                elif now - webhook.failing_since >= _PATIENCE:
                    switch_off(webhook, _SILENT_FOR_LONG, self._outbox, now)

    def _next_attempt_at(self, attempts: int, now: datetime) -> datetime:
        # Up to a tenth earlier or later, so that deliveries that failed together are not repeated together.
        return now + timedelta(seconds=self._schedule.delays[attempts - 1] * random.uniform(0.9, 1.1))  # noqa: S311


def most_under_way(slots: int) -> int:
    """How many of a process's `slots` one webhook that takes its deliveries may use."""
    return max(1, slots // 4)


_NOW = param(Delivery.due_at, "now")
# Idle workers ask several times a second.
_READY = CompiledQuery(
    lambda: Webhook.select(Webhook.id, Webhook.is_proven).where(
        Webhook.is_active,
        fn.EXISTS(Delivery.select(Delivery.id).where(Delivery.webhook_id == Webhook.id, is_due(Delivery, _NOW))),
    )
)
_UNDER_WAY = CompiledQuery(
    lambda: (
        Webhook.select(Webhook.id, Webhook.is_proven)
        .join(Delivery, on=(Webhook.id == Delivery.webhook_id))
        .where(Delivery.lease_token.is_null(False), Delivery.leased_until > _NOW)
    )
)


def _origin_of(event: Event) -> dict[str, str | None]:
    """The trace of the call that made what an event is about; for a transaction also its id and that of the call."""
    if not is_of_transaction(event.type):
        return {"traceparent": event.traceparent}
    recorded_by = Transaction.select(Transaction.request_id, Transaction.traceparent)
    origin = recorded_by.where(Transaction.id == event.object_id).dicts().first()
    return {"transaction_id": event.object_id, **(origin or {})}


def _due_heads(webhook: Webhook, now: datetime, limit: int) -> Any:
    """The deliveries of a webhook that have been due for longest."""
    due = (Delivery.webhook_id == webhook.id) & is_due(Delivery, now)
    return Delivery.select(Delivery.id).where(due).order_by(Delivery.due_at).limit(limit)


def _keep_answer(row: Delivery, exchange: HttpExchange, now: datetime) -> None:
    row.attempts += 1
    row.attempted_at = now
    row.answer_status = exchange.status
    # PostgreSQL cannot store NUL in text. A page about an error may show the settings of its program.
    row.answer = without_tokens(exchange.body.decode("utf-8", "replace").replace("\0", "\ufffd")) or None
    # A reply with a status is a reply, even if its body was too long or broke off.
    row.trouble = None if exchange.reach is SendState.ANSWERED else exchange.trouble
    row.took_ms = round(exchange.elapsed_seconds * 1000)


def _call_next(done: Delivery, now: datetime) -> None:
    """Make the next delivery of the same object due. Call with the webhook locked."""
    following = (
        Delivery.select(Delivery.id)
        .where(
            Delivery.webhook_id == done.webhook_id,
            Delivery.object_id == done.object_id,
            Delivery.status == DeliveryStatus.WAITING,
        )
        .order_by(Delivery.sequence, Delivery.id)
        .first()
    )
    if following is not None:
        Delivery.update(due_at=now).where(Delivery.id == following.id).execute()


def _note_standing(webhook: Webhook, is_taken: bool, now: datetime) -> None:
    """Store whether the webhook accepts deliveries; written only when that changed."""
    if is_taken and not webhook.is_proven:
        webhook.is_proven, webhook.failing_since = True, None
    elif not is_taken and (webhook.is_proven or webhook.failing_since is None):
        webhook.is_proven, webhook.failing_since = False, webhook.failing_since or now
    else:
        return
    webhook.save(only=[Webhook.is_proven, Webhook.failing_since])


_NEWEST = 20
_MOST_WAITING = 1000
_MOST_TRIED = 1000
_DAY = timedelta(days=1)
# An event has a delivery for each webhook and each redelivery; a page shows so many attempts.
_MOST_OF_AN_EVENT = 200


class AttemptService:
    """Shows a client what its webhooks were sent and what they answered."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock

    def of_event(self, event_id: str, context: RequestContext) -> SentEvent:
        """The newest 200 delivery attempts of one event. Raises NOT_FOUND, also for another client's event."""
        context.require("webhooks:read")
        event = find_event(event_id, context.client_id)
        rows = _attempts().where(Delivery.event_id == event.id)
        newest = list(rows.order_by(DeliveryAttempt.id.desc()).limit(_MOST_OF_AN_EVENT))
        return SentEvent(event_body(event).decode(), tuple(map(_view, reversed(newest))))

    def of_webhook(self, webhook_id: str, context: RequestContext) -> WebhookHealth:
        """How a webhook answered lately. Another client's webhook looks like one that was never called."""
        context.require("webhooks:read")
        rows = _attempts().where(DeliveryAttempt.webhook_id == webhook_id, Delivery.client_id == context.client_id)
        waiting = Delivery.select(Delivery.id).where(
            Delivery.webhook_id == webhook_id,
            Delivery.client_id == context.client_id,
            Delivery.status == DeliveryStatus.WAITING,
        )
        since = new_id_floor(self._clock.now() - _DAY)
        newest = rows.order_by(DeliveryAttempt.id.desc())
        lately = newest.where(DeliveryAttempt.id >= since).limit(_MOST_TRIED)
        answers = [answer for (answer,) in lately.select(DeliveryAttempt.answer_status).tuples()]
        return WebhookHealth(
            tuple(map(_view, newest.limit(_NEWEST))),
            waiting.limit(_MOST_WAITING).count(),
            len(answers),
            sum(not 200 <= (answer or 0) < 300 for answer in answers),
        )


def event_body(event: Event) -> bytes:
    """An event as the Standard Webhooks specification wants it; the same bytes at every attempt."""
    document = {
        "type": event.type,
        "timestamp": iso_milliseconds(event.created_at),
        "data": payloads_of([event])[event.id],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def keep_attempt(delivery: Delivery, headers: Mapping[str, str]) -> None:
    """Write the attempt that `delivery` has just stored the answer of. Call in the unit of work that concludes it."""
    DeliveryAttempt.insert(
        id=new_id(delivery.attempted_at),
        delivery_id=delivery.id,
        webhook_id=delivery.webhook_id,
        number=delivery.attempts,
        headers=dict(headers),
        answer_status=delivery.answer_status,
        answer=delivery.answer,
        trouble=delivery.trouble,
        took_ms=delivery.took_ms,
        attempted_at=delivery.attempted_at,
    ).execute()


def _attempts() -> Any:
    return (
        DeliveryAttempt.select(DeliveryAttempt, Event.id.alias("event_id"), Event.type.alias("event_type"))
        .join(Delivery, on=(Delivery.id == DeliveryAttempt.delivery_id))
        .join(Event, on=(Event.id == Delivery.event_id))
        .objects()
    )


def _view(row: Any) -> DeliveryAttemptView:
    return view_of_row(DeliveryAttemptView, row)
