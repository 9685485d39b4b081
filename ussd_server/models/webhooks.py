"""Webhooks, and the deliveries of events to them."""

from __future__ import annotations

from peewee import BlobField, BooleanField, IntegerField, TextField

from ussd_server.database.columns import IdField, JsonField, MomentField, Table


class Webhook(Table):
    """An address that receives the events of a client, and the secret that signs them.

    `url` is null in one row of a client: that row stands for the `callback_url` of its single transactions. `types`
    null means every type. The `previous_` pair is the secret that a rotation replaced. `is_proven` says that its last
    answer was a good one; `failing_since` is when the first bad one after that came.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    url = TextField(null=True)
    types = JsonField(null=True)
    secret_sealed = BlobField()
    previous_secret_sealed = BlobField(null=True)
    previous_secret_expires_at = MomentField(null=True)
    is_active = BooleanField()
    is_proven = BooleanField()
    failing_since = MomentField(null=True)
    disabled_at = MomentField(null=True)
    disabled_reason = TextField(null=True)
    created_at = MomentField()
    updated_at = MomentField()


class Delivery(Table):
    """One event on its way to one webhook.

    Deliveries of one object to one webhook form a queue in the order of `sequence`. Only its head has a `due_at`; the
    others wait for their turn. `leased_until` and `lease_token` are set while a worker sends it.
    The answer of the last attempt is kept: its status, its first characters, and what went wrong on the way.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    event_id = IdField()
    webhook_id = IdField()
    object_id = TextField()
    sequence = IntegerField()
    url = TextField()
    status = TextField()
    attempts = IntegerField()
    due_at = MomentField(null=True)
    leased_until = MomentField(null=True)
    lease_token = TextField(null=True)
    answer_status = IntegerField(null=True)
    answer = TextField(null=True)
    trouble = TextField(null=True)
    took_ms = IntegerField(null=True)
    created_at = MomentField()
    attempted_at = MomentField(null=True)
    completed_at = MomentField(null=True)

    class Meta:
        table_name = "deliveries"


class DeliveryAttempt(Table):
    """One attempt of a delivery: the headers that were sent, and the reply or what went wrong.

    `number` counts from 1 for each delivery. The body is the event's, and the same at every attempt. The attempts go
    with their delivery.
    """

    id = IdField(primary_key=True)
    delivery_id = IdField()
    webhook_id = IdField()
    number = IntegerField()
    headers = JsonField()
    answer_status = IntegerField(null=True)
    answer = TextField(null=True)
    trouble = TextField(null=True)
    took_ms = IntegerField()
    attempted_at = MomentField()
