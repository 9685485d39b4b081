"""The digest of what a payout was made of, which earlier versions stored."""

from __future__ import annotations

from ussd_server.services.payouts.digests import digest_of_request
from ussd_server.services.transactions.create import digest_of

ROWS = ((1, "+256772123456", 500, "a", None, "Nakato Å"), (2, None, None, "b", 'x"y', None, ("a", "b")))


def test_the_digest_is_that_of_the_whole_request() -> None:
    for rows in ((), ROWS[:1], ROWS):
        for send_at in (None, "2026-11-20T08:15:30.123Z"):
            whole = {"description": "wages", "items": list(rows)} | ({"send_at": send_at} if send_at else {})
            assert digest_of_request("wages", rows, send_at) == digest_of(whole)
