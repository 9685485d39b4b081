"""Messages about the second factors of a client's people."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class NewFactor:
    """A TOTP secret that is not in use yet, and its `otpauth:` address."""

    secret: str = field(repr=False)
    uri: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OwnFactor:
    """The caller's second factor. `since` is None without one; `is_required`: the client requires it of everybody."""

    since: datetime | None
    recovery_codes_left: int
    is_required: bool
