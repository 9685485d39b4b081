"""Values that all parts of the service write alike: amounts, which are whole cents inside, and the time of Kampala."""

from __future__ import annotations

from datetime import timedelta, timezone

KAMPALA = timezone(timedelta(hours=3))


def shillings(cents: int) -> int | float:
    """An amount as the API writes it, with no more decimals than it needs: `5000` or `5000.5`."""
    return cents // 100 if cents % 100 == 0 else cents / 100


def grouped(cents: int) -> str:
    """An amount of at least 0 as people read it: `5,000` or `99.50`."""
    whole, rest = divmod(cents, 100)
    return f"{whole:,}.{rest:02}" if rest else f"{whole:,}"


def written_amount(cents: int) -> str:
    """An amount with its sign and currency as people read it: `UGX 5,000` or `−UGX 99.50`."""
    return f"{'−' if cents < 0 else ''}UGX {grouped(abs(cents))}"
