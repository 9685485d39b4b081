"""Events: written in the same unit of work as the change that they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from peewee import IntegerField, TextField, fn

from ussd_server.database.tables import CompiledQuery, IdField, JsonField, MomentField, Table, param

EVENT_FORMAT = 1
"""How this version stores payloads. A version that stores them in another way counts on from here."""


class Event(Table):
    """One event.

    `object_id` is what it is about; events of one object are sent in the order of `sequence`, which counts from 1
    without gaps for each object. `payload` is what the client receives; of a transaction, the first event has its
    record without nulls, and later ones have only what differs from it. `format` says how it is stored. `traceparent`
    is that of the call which made the object; a transaction's own row has it. The database puts every new event into
    `PendingEvent`.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    type = TextField()
    object_id = TextField()
    sequence = IntegerField()
    format = IntegerField(default=EVENT_FORMAT)
    payload = JsonField()
    created_at = MomentField()
    traceparent = TextField(null=True)


class PendingEvent(Table):
    """An event whose deliveries are not made yet.

    A mark at the greatest id seen would not suffice: an event with a smaller id may be committed later.
    """

    event_id = IdField(primary_key=True)


def insert_event(event: Mapping[str, Any]) -> None:
    """Write the next event of its object; `event` has every column but `sequence`.

    Call inside the unit of work that makes the change, with the object's row locked.
    """
    _INSERT.run(**event)


def queue_events(event_ids: Sequence[str]) -> None:
    """Queue these events for the relay, once each. Call inside a unit of work."""
    rows = [(event_id,) for event_id in event_ids]
    PendingEvent.insert_many(rows, [PendingEvent.event_id]).on_conflict_ignore().execute()


def last_event_id(object_id: str) -> str | None:
    """The id of an object's last event, None when it has none. Call with the object's row locked."""
    return next((str(event_id) for (event_id,) in _LAST.tuples(object_id=object_id)), None)


def _next() -> Any:
    columns = (field for field in Event._meta.sorted_fields if field is not Event.sequence)
    sequence = Event.select(fn.COALESCE(fn.MAX(Event.sequence), 0) + 1).where(Event.object_id == param(Event.object_id))
    return Event.insert({field: param(field) for field in columns} | {Event.sequence: sequence})


_INSERT = CompiledQuery(_next)
_LAST = CompiledQuery(
    lambda: (
        Event.select(Event.id).where(Event.object_id == param(Event.object_id)).order_by(Event.sequence.desc()).limit(1)
    )
)
