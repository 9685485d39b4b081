"""Payloads: what a client receives of an event, made from what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ussd_server.models.events import Event
from ussd_server.services.transactions.messages import TransactionView
from ussd_server.wire import keys_of

_NO_VALUES = dict.fromkeys(keys_of(TransactionView))


def payloads_of(events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    """The payloads of some events, by event id.

    The first event of a transaction stores its record without nulls, every later one only what differs
    (`services/transactions/history.py`). Events of transactions are never changed or deleted, so a payload is the same
    each time.
    """
    later = {event.object_id for event in events if _is_of_transaction(event) and event.sequence > 1}
    firsts: dict[str, dict[str, Any]] = {}
    if later:
        found: Any = Event.select(Event.object_id, Event.payload).where(Event.object_id.in_(later), Event.sequence == 1)
        firsts = dict(found.tuples())
    return {
        event.id: _NO_VALUES | firsts.get(event.object_id, {}) | event.payload
        if _is_of_transaction(event)
        else event.payload
        for event in events
    }


def _is_of_transaction(event: Event) -> bool:
    return event.type.startswith("transaction.")
