"""Values that all parts of the service write alike: amounts, which are whole cents inside, and moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

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


@lru_cache(maxsize=256)
def iso_milliseconds(moment: datetime) -> str:
    """Return `2026-11-20T08:15:30.123Z`, the form of all moments on the wire."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return f"{in_utc.isoformat(timespec='milliseconds')[:-6]}Z"
