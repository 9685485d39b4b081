"""Messages about fees."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.messages.transactions import TransactionType


@dataclass(frozen=True, slots=True)
class FeeTerms:
    """What a client pays for a type of transaction: a fixed part of 0 to 99_999_999 cents and a share of the amount.

    `share_basis_points` is the share in hundredths of a percent, 0 to 10_000.
    """

    client_id: str
    type: TransactionType
    fixed_cents: int
    share_basis_points: int
