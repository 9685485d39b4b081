"""Mails, and the kinds of mail that people switched off."""

from __future__ import annotations

from peewee import CompositeKey, IntegerField, TextField

from ussd_server.database.columns import IdField, JsonField, MomentField, Table


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
