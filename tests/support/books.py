"""The invariant check over the whole database, with which every test of money ends."""

from __future__ import annotations

from tests.conftest import MovableClock
from ussd_server.services.operations.book_check import Violation, check_ranges
from ussd_server.services.payouts.digests import PayoutDigests


def check_everything(batch: int = 10_000, digests: PayoutDigests | None = None) -> list[Violation]:
    """All violations there are; an empty list is what it should be."""
    now = MovableClock.last_made.now() if MovableClock.last_made else None
    return [
        violation for checked in check_ranges(batch=batch, now=now, digests=digests) for violation in checked.violations
    ]
