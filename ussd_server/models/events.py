"""Events: written in the same unit of work as the change that they report; and those without deliveries yet."""

from __future__ import annotations

from peewee import IntegerField, TextField

from ussd_server.database.tables import IdField, JsonField, MomentField, Table

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
