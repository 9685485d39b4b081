"""Messages about accounts: balances and fees."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ussd_server.messages.transactions import TransactionType


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


@dataclass(frozen=True, slots=True)
class FeeTerms:
    """What a client pays for a type of transaction: a fixed part of 0 to 99_999_999 cents and a share of the amount.

    `share_basis_points` is the share in hundredths of a percent, 0 to 10_000.
    """

    client_id: str
    type: TransactionType
    fixed_cents: int
    share_basis_points: int
