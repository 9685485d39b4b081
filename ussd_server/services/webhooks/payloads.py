"""Payloads: what a client receives of an event, made from what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ussd_server.models.events import Event
from ussd_server.services.transactions.messages import TransactionView

RECORD_FIELDS = {
    field.name.removesuffix("_cents"): field.name
    for field in fields(TransactionView)
    if field.name not in ("events", "explanation")
}
"""The keys of a transaction's record in their order, each with the attribute of the view that it shows."""

_NO_VALUES = dict.fromkeys(RECORD_FIELDS)


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
