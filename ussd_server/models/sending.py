"""Outgoing rows: events to webhooks, mails, and messages (SMS) to phones."""

from __future__ import annotations

from peewee import BlobField, BooleanField, CompositeKey, IntegerField, TextField

from ussd_server.database.tables import IdField, JsonField, MomentField, Table


class Event(Table):
    """One event.

    `object_id` is what it is about; events of one object are sent in the order of `sequence`, which counts from 1
    without gaps for each object. `payload` is what the client receives; of a transaction, the first event has its
    record without nulls, and later ones have only what differs from it. `traceparent`
    is that of the call which made the object; a transaction's own row has it. The database puts every new event into
    `PendingEvent`.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    type = TextField()
    object_id = TextField()
    sequence = IntegerField()
    payload = JsonField()
    created_at = MomentField()
    traceparent = TextField(null=True)


class PendingEvent(Table):
    """An event whose deliveries are not made yet.

    A mark at the greatest id seen would not suffice: an event with a smaller id may be committed later.
    `only_missed`: it goes again to the webhooks alone that have not accepted it.
    """

    event_id = IdField(primary_key=True)
    only_missed = BooleanField(default=False)


class Webhook(Table):
    """An address that receives the events of a client, and the secret that signs them.

    `url` is null in one row of a client: that row stands for the `callback_url` of its single transactions. `types`
    null means every type. The `previous_` pair is the secret that a rotation replaced. `is_proven` says that its last
    answer was a good one; `failing_since` is when the first bad one after that came. `missed_since` is when the first
    event came that was given up, null once it accepts events again.
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
    missed_since = MomentField(null=True)
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


class Mail(Table):
    """One mail to one person, written with the change that it reports.

    `person_id` is a user or an operator; null where only an address is known. `parameters` are what the text needs; it
    is made when the mail is sent, so that no link is stored. There is one mail of an `occasion` for each recipient.
    `leased_until` and `lease_token` are set while a worker sends it. `trouble` is why the last attempt failed,
    `answer_code` the reply code of the mail server.
    """

    id = IdField(primary_key=True)
    kind = TextField()
    client_id = IdField(null=True)
    person_id = IdField(null=True)
    recipient = TextField()
    parameters = JsonField()
    occasion = TextField(null=True)
    status = TextField()
    attempts = IntegerField()
    give_up_at = MomentField()
    due_at = MomentField(null=True)
    leased_until = MomentField(null=True)
    lease_token = TextField(null=True)
    trouble = TextField(null=True)
    answer_code = IntegerField(null=True)
    created_at = MomentField()
    attempted_at = MomentField(null=True)
    completed_at = MomentField(null=True)


class UnwantedMail(Table):
    """A kind of mail that a user or an operator switched off."""

    person_id = IdField()
    kind = TextField()

    class Meta:
        primary_key = CompositeKey("person_id", "kind")


class Sms(Table):
    """One message to one phone, written with the change that it reports.

    `reference` is unique for the client. `asked_at` is null while it is certain that nothing was sent, because a
    message is never sent twice. `leased_until` and `lease_token` are set while a worker sends it. `sender_message_id`
    is the name that the sender gave it; `early_reports` are the failures, null for none, that reports said of ids of
    the sender while this message was being sent. `transaction_id` is the payment whose receipt it is.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    reference = TextField()
    phone_number = TextField()
    text = TextField()
    parts = IntegerField()
    status = TextField()
    failure_code = TextField(null=True)
    transaction_id = IdField(null=True)
    sender_message_id = TextField(null=True)
    attempts = IntegerField()
    early_reports = JsonField(null=True)
    asked_at = MomentField(null=True)
    due_at = MomentField(null=True)
    leased_until = MomentField(null=True)
    lease_token = TextField(null=True)
    created_at = MomentField()
    completed_at = MomentField(null=True)

    class Meta:
        table_name = "messages"


class Receipt(Table):
    """The texts of a client's receipts for payments of one type, by language."""

    client_id = IdField()
    type = TextField()
    texts = JsonField()

    class Meta:
        primary_key = False
