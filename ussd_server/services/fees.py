"""Fees: what a client pays for a transaction."""

from __future__ import annotations

from ussd_server.models.transactions import Fee


def fee_cents(client_id: str, transaction_type: str, amount_cents: int) -> int:
    """The fee of a client for a type and amount: the fixed part plus the share, zero where nothing was agreed.

    A share is rounded to whole cents, halves up. A fee is never more than the amount, so that what comes in always pays
    for its own fee.
    """
    agreed = Fee.get_or_none(Fee.client_id == client_id, Fee.type == transaction_type)
    if agreed is None:
        return 0
    share_cents = (amount_cents * agreed.share_basis_points + 5_000) // 10_000
    return min(agreed.fixed_cents + share_cents, amount_cents)  # type: ignore[no-any-return]
