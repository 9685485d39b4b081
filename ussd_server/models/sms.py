"""Messages (SMS) to phones."""

from __future__ import annotations

from peewee import IntegerField, TextField

from ussd_server.database.columns import IdField, JsonField, MomentField, Table


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
