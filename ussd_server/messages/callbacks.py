"""Money companies' callbacks as the inside speaks of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Callback:
    """What somebody sent to a company's callback path: nothing of it is believed but which payment it may be about."""

    company: str
    secret: str
    body: bytes


@dataclass(frozen=True, slots=True)
class CallbackPath:
    """The path that a company is given to call back."""

    company: str
    path: str
