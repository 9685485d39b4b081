"""Messages about callbacks of providers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Callback:
    """A request to a provider's callback path. Only the reference of the payment is read from the body."""

    provider: str
    secret: str
    body: bytes


@dataclass(frozen=True, slots=True)
class CallbackPath:
    """The path at which a provider may call back."""

    provider: str
    path: str
