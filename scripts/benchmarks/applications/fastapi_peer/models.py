"""The tables of the Flask peer, as SQLAlchemy models."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID, uuid4

from sqlalchemy import DateTime, ForeignKey
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncAttrs, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

_POOLED = 16
engine = create_async_engine(
    os.environ["PEER_DATABASE_URL"].replace("postgresql:", "postgresql+asyncpg:"), pool_size=_POOLED, max_overflow=0
)
new_session = async_sessionmaker(engine, expire_on_commit=False)


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)


Moment = Annotated[datetime, mapped_column(DateTime(timezone=True))]
Made = Annotated[datetime, mapped_column(DateTime(timezone=True), default=now)]
ClientId = Annotated[UUID, mapped_column(ForeignKey("client.id"))]


class Table(AsyncAttrs, DeclarativeBase):
    """What every table has."""

    type_annotation_map = {dict[str, Any]: JSONB}  # noqa: RUF012 - SQLAlchemy's own form

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    created_at: Mapped[Made]


class Client(Table):
    """A company that calls."""

    __tablename__ = "client"
    name: Mapped[str]
    is_active: Mapped[bool]


class ApiKey(Table):
    """An API key; of its secret only the digest is kept."""

    __tablename__ = "apikey"
    client_id: Mapped[ClientId]
    client: Mapped[Client] = relationship(lazy="joined", innerjoin=True)
    apikey: Mapped[str]
    secret_digest: Mapped[bytes]
    is_active: Mapped[bool]
    expires_at: Mapped[Moment | None]
    last_used_at: Mapped[Moment | None]


class Account(Table):
    """An account of a client."""

    __tablename__ = "account"
    client_id: Mapped[ClientId]
    name: Mapped[str]
    balance_cents: Mapped[int] = mapped_column(default=0)
    reserved_cents: Mapped[int] = mapped_column(default=0)


class Fee(Table):
    """What a client pays for a type of transaction."""

    __tablename__ = "fee"
    client_id: Mapped[ClientId]
    type: Mapped[str]
    fixed_cents: Mapped[int]


class Transaction(Table):
    """A payment."""

    __tablename__ = "transaction"
    client_id: Mapped[ClientId]
    type: Mapped[str]
    status: Mapped[str]
    phone_number: Mapped[str]
    amount_cents: Mapped[int]
    fee_cents: Mapped[int]
    account: Mapped[str]
    provider: Mapped[str]
    provider_reference: Mapped[UUID] = mapped_column(default=uuid4)
    reference: Mapped[str]
    request_digest: Mapped[str]
    description: Mapped[str | None]
    metadata_: Mapped[dict[str, Any] | None] = mapped_column("metadata", JSONB(none_as_null=True))
    updated_at: Mapped[Made]
    due_at: Mapped[Made]


class Transfer(Table):
    """One leg of the ledger from an account to another."""

    __tablename__ = "transfer"
    transaction_id: Mapped[UUID] = mapped_column(ForeignKey("transaction.id"))
    kind: Mapped[str]
    debit_account_id: Mapped[UUID] = mapped_column(ForeignKey("account.id"))
    credit_account_id: Mapped[UUID] = mapped_column(ForeignKey("account.id"))
    amount_cents: Mapped[int]


class TransactionEvent(Table):
    """A status that a payment had."""

    __tablename__ = "transactionevent"
    transaction_id: Mapped[UUID] = mapped_column(ForeignKey("transaction.id"))
    sequence: Mapped[int]
    status: Mapped[str]
    source: Mapped[str]


class Event(Table):
    """An event for a client's webhooks."""

    __tablename__ = "event"
    client_id: Mapped[ClientId]
    type: Mapped[str]
    object_id: Mapped[UUID]
    payload: Mapped[dict[str, Any]]
    is_pending: Mapped[bool] = mapped_column(default=True)


class Channel(Table):
    """A gateway's connection."""

    __tablename__ = "channel"
    client_id: Mapped[ClientId]
    client: Mapped[Client] = relationship(lazy="joined", innerjoin=True)
    secret_digest: Mapped[bytes]
    is_active: Mapped[bool]


class Menu(Table):
    """The menu of a service code."""

    __tablename__ = "menu"
    code: Mapped[str]
    document: Mapped[dict[str, Any]]


class UssdSession(Table):
    """A USSD session."""

    __tablename__ = "ussdsession"
    client_id: Mapped[ClientId]
    channel_id: Mapped[UUID] = mapped_column(ForeignKey("channel.id"))
    menu_id: Mapped[UUID] = mapped_column(ForeignKey("menu.id"))
    provider_session_id: Mapped[str]
    phone_number: Mapped[str]
    network: Mapped[str]
    status: Mapped[str] = mapped_column(default="active")
    node: Mapped[str]
    turn: Mapped[int] = mapped_column(default=0)
    message: Mapped[str]
    last_seen_at: Mapped[Made]
    expires_at: Mapped[Moment]
    ended_at: Mapped[Moment | None]


class UssdStep(Table):
    """One step of a USSD session."""

    __tablename__ = "ussdstep"
    session_id: Mapped[UUID] = mapped_column(ForeignKey("ussdsession.id"))
    turn: Mapped[int]
    entry: Mapped[str]
    node: Mapped[str]
    screen: Mapped[str]
