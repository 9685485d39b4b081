"""Balances as the inside speaks of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class GetBalance:
    """A wish to know the balance of the main account, or of the account kept for a subscriber."""

    phone_number: str | None = None


@dataclass(frozen=True, slots=True)
class Balance:
    """A balance in cents; what is reserved is part of `current_cents` and no longer of `available_cents`."""

    account: str
    currency: str
    current_cents: int
    available_cents: int
    reserved_cents: int
    as_of: datetime
