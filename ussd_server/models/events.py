"""Events: what clients are told about, written in the same unit of work as the change itself."""

from __future__ import annotations

from peewee import BooleanField, IntegerField, TextField

from ussd_server.models.base import IdField, JsonField, MomentField, Table


class Event(Table):
    """One event. `object_id` is what it is about; events of one object are told in the
    order of `sequence`, which counts from 1 without gaps for each object. `payload` is what the client is shown.
    `is_pending` holds until its deliveries are made: ids would not do as a mark of what was seen, because an event with
    a smaller id may be committed later."""

    id = IdField(primary_key=True)
    client_id = IdField()
    type = TextField()
    object_id = TextField()
    sequence = IntegerField()
    payload = JsonField()
    created_at = MomentField()
    is_pending = BooleanField(default=True)

    class Meta:
        table_name = "events"
