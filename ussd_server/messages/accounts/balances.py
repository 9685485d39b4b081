"""Messages about balances."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class GetBalance:
    """Request for the balance of the main account, or of the account of a subscriber."""

    phone_number: str | None = None


@dataclass(frozen=True, slots=True)
class Balance:
    """A balance in cents. `current_cents` includes what is reserved, `available_cents` does not."""

    account: str
    currency: str
    current_cents: int
    available_cents: int
    reserved_cents: int
    as_of: datetime
