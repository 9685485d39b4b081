"""The invariant check over the whole database, with which every test of money ends."""

from __future__ import annotations

from tests.conftest import MovableClock
from ussd_server.security.key_ring import Vault
from ussd_server.services.operations.book_check.check import Violation, check_ranges


def check_everything(batch: int = 10_000, vault: Vault | None = None) -> list[Violation]:
    """All violations there are; an empty list is what it should be."""
    now = MovableClock.last_made.now() if MovableClock.last_made else None
    return [
        violation for checked in check_ranges(batch=batch, now=now, vault=vault) for violation in checked.violations
    ]
