"""The relay: makes the deliveries of new events, each event once, without gaps and in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ussd_server.database.tables import CompiledQuery
from ussd_server.database.unit_of_work import advisory_lock, for_update, unit_of_work
from ussd_server.models.sending import Delivery, Event, PendingEvent, Webhook
from ussd_server.models.transactions import Transaction
from ussd_server.services.runtime import Runtime
from ussd_server.services.webhooks.events import missed_by
from ussd_server.services.webhooks.messages import WEBHOOK_TEST, DeliveryStatus, is_of_transaction
from ussd_server.services.webhooks.subscriptions import locked_callbacks_row
from ussd_server.values import new_id

_LOCK = 7_256_256_166
_OBJECTS_AT_ONCE = 500
_ROWS_AT_ONCE = 500
_ANY = CompiledQuery(lambda: PendingEvent.select(PendingEvent.event_id).limit(1))


class Relay:
    """Turns events into deliveries. One process at a time does it: two could bring an object's events out of order."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._vault = runtime.clock, runtime.vault

    def run(self) -> int:
        """Make the deliveries of some pending events, the oldest first; give how many events there were."""
        if not _ANY.tuples():
            return 0
        with unit_of_work():
            advisory_lock(_LOCK)
            oldest = PendingEvent.select().order_by(PendingEvent.event_id).limit(_OBJECTS_AT_ONCE)
            event_ids = {row.event_id for row in oldest}
            objects = [event.object_id for event in Event.select(Event.object_id).where(Event.id.in_(event_ids))]
            # All that is pending of an object goes together: ids of one moment have no order, sequences have one.
            events = list(
                Event.select(Event, PendingEvent.only_missed)
                .join(PendingEvent, on=(PendingEvent.event_id == Event.id))
                .where(Event.object_id.in_(objects))
                .order_by(Event.object_id, Event.sequence)
                .objects()
            )
            self._queue(events, self._clock.now())
            event_ids.update(event.id for event in events)
            PendingEvent.delete().where(PendingEvent.event_id.in_(event_ids)).execute()
        return len(event_ids)

    def _queue(self, events: Sequence[Any], now: datetime) -> None:
        """Make the deliveries of events, each with the `only_missed` of its `PendingEvent`."""
        callback_urls = _callback_urls(events)
        for client_id in {event.client_id for event in events if event.object_id in callback_urls}:
            locked_callbacks_row(self._vault, client_id, now)
        webhooks = _locked_webhooks({event.client_id for event in events})
        queues, on_the_way = _unfinished(webhooks, events)
        missed = _missed(webhooks, [event.id for event in events if event.only_missed])
        rows = []
        for event in events:
            for webhook in webhooks:
                url = webhook.url or callback_urls.get(event.object_id)
                if url is None or not _wants(webhook, event) or (webhook.id, event.id) in on_the_way:
                    continue
                if event.only_missed and (webhook.id, event.id) not in missed:
                    continue
                queue = (webhook.id, event.object_id)
                rows.append(
                    {
                        "id": new_id(now),
                        "client_id": event.client_id,
                        "event_id": event.id,
                        "webhook_id": webhook.id,
                        "object_id": event.object_id,
                        "sequence": event.sequence,
                        "url": url,
                        "status": DeliveryStatus.WAITING,
                        "attempts": 0,
                        "created_at": now,
                        "due_at": None if queue in queues else now,
                    }
                )
                queues.add(queue)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            Delivery.insert_many(rows[start : start + _ROWS_AT_ONCE]).execute()


def _callback_urls(events: Iterable[Event]) -> dict[str, str]:
    """The `callback_url` of those transactions that have one."""
    transactions = {event.object_id for event in events if is_of_transaction(event.type)}
    rows = Transaction.select(Transaction.id, Transaction.callback_url).where(Transaction.id.in_(transactions))
    return {row.id: row.callback_url for row in rows if row.callback_url is not None}


def _locked_webhooks(client_ids: set[str]) -> list[Webhook]:
    """The active webhooks of some clients, locked: no delivery to them ends before this unit of work."""
    return list(
        for_update(Webhook.select().where(Webhook.client_id.in_(client_ids), Webhook.is_active).order_by(Webhook.id))
    )


def _unfinished(
    webhooks: Iterable[Webhook], events: Iterable[Event]
) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Pairs with an undelivered event: (webhook, object) that must wait, (webhook, event) already queued."""
    waiting = Delivery.select(Delivery.webhook_id, Delivery.object_id, Delivery.event_id).where(
        Delivery.status == DeliveryStatus.WAITING,
        Delivery.webhook_id.in_([webhook.id for webhook in webhooks]),
        Delivery.object_id.in_({event.object_id for event in events}),
    )
    rows = list(waiting)
    return {(row.webhook_id, row.object_id) for row in rows}, {(row.webhook_id, row.event_id) for row in rows}


def _missed(webhooks: Iterable[Webhook], event_ids: Sequence[str]) -> set[tuple[str, str]]:
    """Pairs (webhook, event), of these events, that `missed_by` names."""
    if not event_ids:
        return set()
    return {
        (webhook.id, row.id)
        for webhook in webhooks
        for row in Event.select(Event.id).where(Event.id.in_(event_ids), missed_by(webhook))
    }


def _wants(webhook: Webhook, event: Event) -> bool:
    if event.type == WEBHOOK_TEST:
        return bool(event.payload["webhook_id"] == webhook.id)
    return webhook.client_id == event.client_id and (webhook.types is None or event.type in webhook.types)
