"""Events: clients list them and have them sent again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import Any

from peewee import ModelSelect, Query, Value, fn

from ussd_server.context import RequestContext
from ussd_server.database.tables import CompiledQuery, param
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.logs import current_traceparent
from ussd_server.models.sending import Delivery, Event, PendingEvent, Webhook
from ussd_server.services.pages import find_by_id, of_period, page_of
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import TransactionView
from ussd_server.services.webhooks.messages import (
    EVENT_TYPES,
    DeliveryStatus,
    DeliveryView,
    EventDeliveries,
    EventView,
    ListEvents,
    RedeliverEvents,
    Redelivery,
    is_of_transaction,
)
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, new_id
from ussd_server.wire import Page, keys_of, view_of_row

MOST_EVENTS_AT_ONCE = 1000
_MOST_OF_AN_OBJECT = 100
_LONGEST_TYPE = 40
_NO_VALUES = dict.fromkeys(keys_of(TransactionView))


def _next() -> Query:
    columns = (field for field in Event._meta.sorted_fields if field is not Event.sequence)
    sequence = Event.select(fn.COALESCE(fn.MAX(Event.sequence), 0) + 1).where(Event.object_id == param(Event.object_id))
    return Event.insert({field: param(field) for field in columns} | {Event.sequence: sequence})


_INSERT = CompiledQuery(_next)
_LAST = CompiledQuery(
    lambda: (
        Event.select(Event.id).where(Event.object_id == param(Event.object_id)).order_by(Event.sequence.desc()).limit(1)
    )
)


class EventService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._tokens, self._replica = runtime.clock, runtime.tokens, runtime.replica

    def list(self, request: ListEvents, context: RequestContext) -> Page[EventView]:
        """A page of the client's events, newest first. INVALID_REQUEST for an unknown type."""
        return page_of(_rows(request, context), Event, request, self._tokens, event_views, self._replica)

    def list_with_deliveries(self, request: ListEvents, context: RequestContext) -> Page[EventDeliveries]:
        """As `list`, each event with its deliveries, oldest first."""
        rows, views = _rows(request, context), partial(_with_deliveries, client_id=context.client_id)
        return page_of(rows, Event, request, self._tokens, views, self._replica)

    def get(self, event_id: str, context: RequestContext) -> EventDeliveries:
        """One event with its deliveries, oldest first. Raises NOT_FOUND, also for another client's."""
        context.require("webhooks:read")
        event = find_event(event_id, context.client_id)
        return _with_deliveries([event], context.client_id)[0]

    def list_of_object(self, object_id: str, context: RequestContext) -> tuple[EventDeliveries, ...]:
        """The newest 100 events about one object, in their order, each with its deliveries; none for an unknown one."""
        context.require("webhooks:read")
        rows = Event.select().where(Event.object_id == object_id, Event.client_id == context.client_id)
        newest = list(rows.order_by(Event.sequence.desc()).limit(_MOST_OF_AN_OBJECT))
        return _with_deliveries(newest[::-1], context.client_id)

    def redeliver(self, event_id: str, context: RequestContext) -> Redelivery:
        """Send one event again to every webhook that takes its type. Raises NOT_FOUND, also for another client's."""
        context.require("webhooks:write")
        event = find_event(event_id, context.client_id)
        return self._redeliver(Event.select().where(Event.id == event.id), context.client_id)

    def redeliver_chosen(self, event_ids: Collection[str], context: RequestContext) -> Redelivery:
        """Send some of the client's events again, in their order. Unknown ids and other clients' are left out."""
        context.require("webhooks:write")
        chosen = Event.id.in_([each for each in event_ids if is_id(each)]), Event.client_id == context.client_id
        return self._redeliver(Event.select().where(*chosen).order_by(Event.id), context.client_id)

    def redeliver_range(self, request: RedeliverEvents, context: RequestContext) -> Redelivery:
        """Send the events of a period again, in their order. INVALID_REQUEST for more than 1000 at a time."""
        context.require("webhooks:write")
        rows = of_period(_of_type(context.client_id, request.type), Event, request.from_at, request.to_at)
        only_missed = request.limited_to is not None
        if only_missed:
            rows = rows.where(_is_missed(context.client_id))
        return self._redeliver(rows.order_by(Event.id).limit(MOST_EVENTS_AT_ONCE + 1), context.client_id, only_missed)

    def _redeliver(self, rows: ModelSelect[Event], client_id: str, only_missed: bool = False) -> Redelivery:
        now = self._clock.now()
        with unit_of_work():
            # Webhooks are locked before their events and deliveries, here as everywhere, so that no two deadlock.
            list(for_update(Webhook.select(Webhook.id).where(Webhook.client_id == client_id).order_by(Webhook.id)))
            chosen = list(for_update(rows))
            if len(chosen) > MOST_EVENTS_AT_ONCE:
                raise ServiceError(Code.INVALID_REQUEST, "More than 1000 events; choose a shorter period")
            ids = [event.id for event in chosen]
            if ids:
                queued = PendingEvent.insert_many([(each, only_missed) for each in ids])
                if only_missed:
                    queued.on_conflict_ignore().execute()
                else:
                    all_webhooks = {"only_missed": False}
                    queued.on_conflict(conflict_target=[PendingEvent.event_id], update=all_webhooks).execute()
            # The client wants the events now: queues that pause before another attempt go on at once.
            objects = Event.select(Event.object_id).where(Event.id.in_(ids))
            Delivery.update(due_at=now).where(Delivery.object_id.in_(objects), Delivery.due_at > now).execute()
        return Redelivery(len(ids))


def write_event(
    client_id: str, event_type: str, object_id: str, data: dict[str, Any], now: datetime, traceparent: str | None = None
) -> str:
    """Write the next event of an object and give its id.

    Call inside the unit of work that makes the change, with the object's row locked. `traceparent` is that of the call
    which made the object, by default that of the current one.
    """
    # A process whose clock is ahead may have written the event before. Pages go by the ids.
    last_id = next((str(event_id) for (event_id,) in _LAST.tuples(object_id=object_id)), None)
    event = new_event(client_id, event_type, object_id, data, now, traceparent, after=last_id)
    _INSERT.run(**event)
    event_id: str = event["id"]
    return event_id


def new_event(
    client_id: str,
    event_type: str,
    object_id: str,
    data: dict[str, Any],
    now: datetime,
    traceparent: str | None = None,
    after: str | None = None,
) -> dict[str, Any]:
    """Every column but `sequence` of the next event of an object; `after` is the id of the one before, if any."""
    is_traced_itself = is_of_transaction(event_type)
    return {
        "id": new_id(now, after),
        "client_id": client_id,
        "type": event_type,
        "object_id": object_id,
        "payload": data,
        "created_at": now,
        "traceparent": None if is_traced_itself else traceparent or current_traceparent(),
    }


def no_such_type(event_type: str) -> str:
    """The sentence for an unknown event type, with the nearest known one."""
    meant = get_close_matches(event_type[:_LONGEST_TYPE], EVENT_TYPES, n=1)
    return f"There is no event type {event_type[:_LONGEST_TYPE]}." + "".join(f" Did you mean {each}?" for each in meant)


def event_views(events: Sequence[Event]) -> tuple[EventView, ...]:
    payloads = payloads_of(events)
    return tuple(view_of_row(EventView, event, data=payloads[event.id]) for event in events)


def _of_type(client_id: str, event_type: str | None) -> Any:
    """The client's events, of one type if it is given. INVALID_REQUEST for an unknown type."""
    rows = Event.select().where(Event.client_id == client_id)
    if event_type is None:
        return rows
    if event_type not in EVENT_TYPES:
        raise ServiceError(Code.INVALID_REQUEST, f"type: {no_such_type(event_type)}")
    return rows.where(Event.type == event_type)


def _rows(request: ListEvents, context: RequestContext) -> Any:
    context.require("webhooks:read")
    rows = _of_type(context.client_id, request.type)
    if request.delivery is None:
        return rows
    own = Webhook.select(Webhook.id).where(Webhook.client_id == context.client_id)
    in_state = Delivery.webhook_id.in_(own), Delivery.status == request.delivery.value
    return rows.where(Event.id.in_(Delivery.select(Delivery.event_id).where(*in_state)))


def _is_missed(client_id: str) -> Any:
    """The condition that an active webhook of a client that was there has not accepted an event of its types."""
    is_missed = Value(False) == Value(True)
    active = Webhook.client_id == client_id, Webhook.is_active, Webhook.url.is_null(False)
    for webhook in Webhook.select().where(*active):
        is_its = missed_by(webhook)
        if webhook.types is not None:
            is_its &= Event.type.in_(webhook.types)
        is_missed |= is_its
    return is_missed


def missed_by(webhook: Webhook) -> Any:
    """The condition on `Event`, of any type, that a webhook was there when it came and has not accepted it."""
    accepted = Delivery.select().where(
        Delivery.event_id == Event.id,
        Delivery.webhook_id == webhook.id,
        Delivery.status == DeliveryStatus.DELIVERED.value,
    )
    is_missed = ~fn.EXISTS(accepted)
    return is_missed if webhook.url is None else is_missed & (Event.created_at >= webhook.created_at)


def find_event(event_id: str, client_id: str) -> Event:
    """One of the client's events. Raises NOT_FOUND, also for another client's."""
    return find_by_id(Event.select().where(Event.client_id == client_id), Event, event_id, "Event")


def _with_deliveries(events: Sequence[Event], client_id: str) -> tuple[EventDeliveries, ...]:
    """Events of a client, each with its deliveries, oldest first."""
    callbacks_id = Webhook.select(Webhook.id).where(Webhook.client_id == client_id, Webhook.url.is_null()).scalar()
    rows = Delivery.select().where(Delivery.event_id.in_([event.id for event in events])).order_by(Delivery.id)
    deliveries: dict[str, list[DeliveryView]] = {event.id: [] for event in events}
    for row in rows:
        deliveries[row.event_id].append(_delivery_view(row, callbacks_id))
    payloads = payloads_of(events)
    return tuple(
        view_of_row(EventDeliveries, event, data=payloads[event.id], deliveries=tuple(deliveries[event.id]))
        for event in events
    )


def _delivery_view(row: Delivery, callbacks_id: str | None) -> DeliveryView:
    return view_of_row(
        DeliveryView,
        row,
        webhook_id=None if row.webhook_id == callbacks_id else row.webhook_id,
        next_attempt_at=row.due_at if row.lease_token is None else None,
    )


def payloads_of(events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    """The payloads of some events, by event id.

    The first event of a transaction stores its record without nulls, every later one only what differs
    (`services/transactions/history.py`). Events of transactions are never changed or deleted, so a payload is the same
    each time.
    """
    later = {event.object_id for event in events if is_of_transaction(event.type) and event.sequence > 1}
    firsts: dict[str, dict[str, Any]] = {}
    if later:
        pairs: Any = Event.select(Event.object_id, Event.payload).where(Event.object_id.in_(later), Event.sequence == 1)
        firsts = dict(pairs.tuples())
    return {
        event.id: _NO_VALUES | firsts.get(event.object_id, {}) | event.payload
        if is_of_transaction(event.type)
        else event.payload
        for event in events
    }
