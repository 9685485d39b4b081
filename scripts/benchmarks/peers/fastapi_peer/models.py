"""The tables, as SQLAlchemy models."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from sqlalchemy import DateTime, ForeignKey
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from benchmarks.peers.common import DATABASE_URL

engine = create_async_engine(DATABASE_URL.replace("postgresql:", "postgresql+asyncpg:"), pool_size=16, max_overflow=0)
Session = async_sessionmaker(engine, expire_on_commit=False)


def now() -> datetime:
    """This moment."""
    return datetime.now(UTC)


class Base(DeclarativeBase):
    """What every table has."""

    type_annotation_map = {datetime: DateTime(timezone=True)}  # noqa: RUF012 - SQLAlchemy's way


class Client(Base):
    """A company that calls."""

    __tablename__ = "clients"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    name: Mapped[str]
    is_active: Mapped[bool] = mapped_column(default=True)


class ApiKey(Base):
    """A key and the digest of its secret."""

    __tablename__ = "api_keys"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    client_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("clients.id"), index=True)
    apikey: Mapped[str] = mapped_column(unique=True)
    secret_digest: Mapped[bytes]
    scopes: Mapped[str | None]
    is_active: Mapped[bool] = mapped_column(default=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    client: Mapped[Client] = relationship(lazy="raise")
