"""Payloads: what a client receives of an event, made from what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ussd_server.models.events import Event


def payloads_of(events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    """The payloads of some events, by event id.

    The first event of a transaction stores its whole record, every later one only what differs
    (`services/transactions/history.py`). Events of transactions are never changed or deleted, so a payload is the same
    each time.
    """
    later = {event.object_id for event in events if event.type.startswith("transaction.") and event.sequence > 1}
    firsts: dict[str, dict[str, Any]] = {}
    if later:
        found: Any = Event.select(Event.object_id, Event.payload).where(Event.object_id.in_(later), Event.sequence == 1)
        firsts = dict(found.tuples())
    return {event.id: firsts.get(event.object_id, {}) | event.payload for event in events}
