"""Rows about providers: switches of operators, places, floats, calls over time, and names of subscribers."""

from __future__ import annotations

from peewee import BooleanField, CompositeKey, IntegerField, TextField

from ussd_server.database.tables import CentsField, IdField, JsonField, MomentField, Table


class ProviderSwitch(Table):
    """Whether a connection to a provider is switched off, and why."""

    connection = TextField(primary_key=True)
    is_off = BooleanField()
    reason = TextField()
    changed_at = MomentField()

    class Meta:
        table_name = "provider_switches"


class ProviderPlace(Table):
    """Where new payments of a direction go (`Provider.place`), and since when, or since the last restore."""

    provider = TextField()
    direction = TextField()
    place = TextField()
    changed_at = MomentField()

    class Meta:
        table_name = "provider_places"
        primary_key = CompositeKey("provider", "direction")


class OwnConnection(Table):
    """The connection to a provider that a client has of its own; null for the one of all. `changed_at`: since when."""

    client_id = IdField()
    provider = TextField()
    connection = TextField(null=True)
    changed_at = MomentField()

    class Meta:
        table_name = "client_connections"
        primary_key = CompositeKey("client_id", "provider")


class TrialPayment(Table):
    """A payment of `ussd-server providers try`, written before it is sent.

    `callback_at` is when its first callback came. `movement_id` is its money, which is the operator's own.
    """

    provider_reference = IdField(primary_key=True)
    connection = TextField()
    direction = TextField()
    amount_cents = CentsField()
    sent_to = TextField()
    sent_at = MomentField()
    callback_at = MomentField(null=True)
    movement_id = IdField(null=True)

    class Meta:
        table_name = "trial_payments"


class ProviderAccount(Table):
    """An account at a provider, and its money for disbursements when that was last told (`read_at`).

    `asked_at` is when it was asked for last: once a minute while the settings have the account.
    `low_since` is null unless it was less than the operator wants, `away_since` unless the provider does not answer.
    """

    account = TextField(primary_key=True)
    provider = TextField()
    amount_cents = CentsField(null=True)
    read_at = MomentField(null=True)
    asked_at = MomentField()
    low_since = MomentField(null=True)
    away_since = MomentField(null=True)


class ProviderCalls(Table):
    """The calls of one worker to a provider in the quarter of an hour from `began_at`.

    `answered_count` includes `failed_count`; `took` counts answered calls by the logarithm of their duration.
    """

    began_at = MomentField()
    provider = TextField()
    worker_id = TextField()
    answered_count = IntegerField()
    failed_count = IntegerField()
    unanswered_count = IntegerField()
    took = JsonField()

    class Meta:
        table_name = "provider_calls"
        primary_key = CompositeKey("began_at", "provider", "worker_id")


class SubscriberName(Table):
    """The name that a provider has for a phone number; null when the number is not registered there."""

    provider = TextField()
    phone_number = TextField()
    name = TextField(null=True)
    asked_at = MomentField()

    class Meta:
        primary_key = False
