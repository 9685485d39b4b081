"""The tables, as Peewee models."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from peewee import (
    BigIntegerField,
    BlobField,
    BooleanField,
    CharField,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
    UUIDField,
)
from playhouse.pool import PooledPostgresqlDatabase
from playhouse.postgres_ext import BinaryJSONField, DateTimeTZField

_server = urlsplit(os.environ["PEER_DATABASE_URL"])
database = PooledPostgresqlDatabase(
    _server.path.strip("/"),
    host=_server.hostname,
    port=_server.port,
    user=_server.username,
    max_connections=32,
    stale_timeout=300,
)


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)


class Table(Model):
    """What every table has."""

    id = UUIDField(primary_key=True, default=uuid.uuid4)
    created_at = DateTimeTZField(default=now)

    class Meta:
        database = database


class Client(Table):
    """A company that calls."""

    name = CharField()
    is_active = BooleanField(default=True)


class ApiKey(Table):
    """An API key; of its secret only the digest is kept."""

    client = ForeignKeyField(Client, backref="keys")
    apikey = CharField(unique=True)
    secret_digest = BlobField()
    scopes = TextField(null=True)
    is_active = BooleanField(default=True)
    updated_at = DateTimeTZField(default=now)
    expires_at = DateTimeTZField(null=True)
    last_used_at = DateTimeTZField(null=True)


class Account(Table):
    """An account of a client."""

    client = ForeignKeyField(Client)
    name = CharField()
    balance_cents = BigIntegerField(default=0)
    reserved_cents = BigIntegerField(default=0)

    class Meta:
        indexes = ((("client", "name"), True),)


class Fee(Table):
    """What a client pays for a type of transaction."""

    client = ForeignKeyField(Client)
    type = CharField()
    fixed_cents = BigIntegerField()

    class Meta:
        indexes = ((("client", "type"), True),)


class Transaction(Table):
    """A payment."""

    client = ForeignKeyField(Client)
    type = CharField()
    status = CharField()
    phone_number = CharField()
    amount_cents = BigIntegerField()
    fee_cents = BigIntegerField()
    account = CharField()
    provider = CharField()
    provider_reference = UUIDField(unique=True, default=uuid.uuid4)
    reference = CharField()
    request_digest = CharField()
    description = TextField(null=True)
    metadata = BinaryJSONField(null=True)
    updated_at = DateTimeTZField(default=now)
    due_at = DateTimeTZField(default=now, index=True)

    class Meta:
        indexes = ((("client", "reference"), True), (("client", "created_at"), False))


class Transfer(Table):
    """One leg of the ledger from an account to another."""

    transaction = ForeignKeyField(Transaction)
    kind = CharField()
    debit_account = ForeignKeyField(Account)
    credit_account = ForeignKeyField(Account)
    amount_cents = BigIntegerField()


class TransactionEvent(Table):
    """A status that a payment had."""

    transaction = ForeignKeyField(Transaction)
    sequence = IntegerField()
    status = CharField()
    source = CharField()

    class Meta:
        indexes = ((("transaction", "sequence"), True),)


class Event(Table):
    """An event for a client's webhooks."""

    client = ForeignKeyField(Client)
    type = CharField()
    object_id = UUIDField(index=True)
    payload = BinaryJSONField()
    is_pending = BooleanField(default=True)


class Channel(Table):
    """A gateway's connection."""

    client = ForeignKeyField(Client)
    secret_digest = BlobField(unique=True)
    is_active = BooleanField(default=True)


class Menu(Table):
    """The menu of a service code."""

    client = ForeignKeyField(Client)
    code = CharField(unique=True)
    document = BinaryJSONField()


class UssdSession(Table):
    """A USSD session."""

    client = ForeignKeyField(Client)
    channel = ForeignKeyField(Channel)
    menu = ForeignKeyField(Menu)
    provider_session_id = CharField()
    phone_number = CharField()
    network = CharField()
    status = CharField(default="active")
    node = CharField()
    turn = IntegerField(default=0)
    message = TextField()
    last_seen_at = DateTimeTZField(default=now)
    expires_at = DateTimeTZField()
    ended_at = DateTimeTZField(null=True)

    class Meta:
        indexes = ((("channel", "provider_session_id"), True),)


class UssdStep(Table):
    """One step of a USSD session."""

    session = ForeignKeyField(UssdSession)
    turn = IntegerField()
    entry = CharField()
    node = CharField()
    screen = TextField()

    class Meta:
        indexes = ((("session", "turn"), True),)


MODELS: list[Any] = Table.__subclasses__()
