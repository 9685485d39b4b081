"""Differences between a provider's statement and our transactions, as files and JSON documents write them."""

from __future__ import annotations

from typing import Any

from ussd_server.values import shillings

DIFFERENCE_FIELDS = ("line", "verdict", "provider_id", "reference", "transaction_id", "ours", "theirs")


def plain_line(difference: Any) -> dict[str, Any]:
    """Return the fields of a difference; amounts are in shillings."""
    values = {name: getattr(difference, name) for name in DIFFERENCE_FIELDS}
    return values | {side: shillings(values[side]) for side in ("ours", "theirs") if isinstance(values[side], int)}
