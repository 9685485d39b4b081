"""Messages about the subscriber of a phone number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GetSubscriber:
    """Request for the subscriber of a phone number (+256 and nine digits)."""

    phone_number: str


@dataclass(frozen=True, slots=True)
class Subscriber:
    """The subscriber of a phone number; each is None where it is not known."""

    phone_number: str
    provider: str | None
    name: str | None
    is_registered: bool | None
