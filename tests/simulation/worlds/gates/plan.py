"""What happens at the gates of money, drawn from the seed: each has phone numbers that nothing else has."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulation.worlds.payer_plan import CODES

GUARDED = 2
"""The place of the client whose keys, people and menus are revoked."""
WAYS = ("payment", "dated payout", "menu")
REVOCATIONS = ("deleted key", "disabled key", "disabled client")
_SHILLINGS = (500, 4000)
_OTHER_CODES = 0.2


def reported_of(rng: Random, number: int) -> dict[str, Any]:
    """A collection that the till reports, too: before, after or at the same time as our enquiry."""
    place = rng.randrange(2)
    is_strange = rng.random() < _OTHER_CODES
    codes = [code for code, (owner, exact) in CODES.items() if exact is None and (owner != place) == is_strange]
    return {
        "client": place,
        "name": f"t{number}",
        "phone": f"+256761{number:06}",
        "cents": 100 * rng.randrange(500, 40_000),
        "code": rng.choice(codes),
        "reported_after": rng.choice((0.0, 0.0, 1.0, 60.0, 900.0)) * rng.random(),
        "reported_again": [rng.choice((0.0, 3.0, 900.0)) * rng.random() for _ in range(rng.choice((0, 0, 1, 2)))],
        "is_numbered": rng.random() < 0.5,
        "written": rng.choice(("{}", " {} ", "{}\u200b", "-{}")),
        "again": [rng.choice((0.0, 3.0, 900.0)) * rng.random() for _ in range(rng.choice((0, 0, 1)))],
        "patience": rng.choice((1.0, 5.0, 30.0)),
    }


def sender_of(rng: Random, number: int) -> dict[str, Any]:
    """A key or a person that sends money in one way, perhaps within a daily limit; perhaps revoked before it leaves."""
    way = rng.choice(WAYS)
    shillings = [rng.randrange(*_SHILLINGS) for _ in range(rng.randrange(2, 5))]
    is_limited = rng.random() < 0.5
    by_person = way == "dated payout" and not is_limited and rng.random() < 0.5
    return {
        "client": GUARDED,
        "number": number,
        "name": f"g{number}",
        "way": way,
        "limit": 100 * (sum(shillings) - rng.randrange(1, max(shillings))) if is_limited else None,
        "by_person": by_person,
        "revoked": _revocation(rng, is_limited=is_limited, by_person=by_person),
        "revoked_after": rng.choice((1.0, 20.0, 1200.0, 3000.0)) * rng.random(),
        "restored_after": rng.choice((600.0, 5000.0)) * (0.2 + rng.random()),
        "sent_after": rng.choice((700.0, 3600.0, 90_000.0)),
        "rows": [
            {
                "name": f"g{number}/r{place}",
                "phone": f"+256762{number:04}{place:02}",
                "cents": 100 * each,
                "rests": rng.choice((0.0, 5.0, 600.0)) * rng.random(),
            }
            for place, each in enumerate(shillings)
        ],
        "again": [rng.choice((0.0, 3.0, 900.0)) * rng.random() for _ in range(rng.choice((0, 0, 1)))],
        "patience": rng.choice((5.0, 30.0)),
    }


def _revocation(rng: Random, *, is_limited: bool, by_person: bool) -> str | None:
    """How a sender is revoked, None for not: most that have a limit go on, so that they reach it."""
    if rng.random() < (0.7 if is_limited else 0.1):
        return None
    return "disabled person" if by_person else rng.choice(REVOCATIONS)


def settlement_of(rng: Random) -> dict[str, Any]:
    """Operators propose settlements, the bank pays them, and its references are recorded; some are cancelled."""
    return {
        "is_paid": rng.random() < 0.8,
        "paid_after": rng.choice((1.0, 60.0, 3000.0)) * rng.random(),
        "again": [rng.choice((0.0, 3.0)) * rng.random() for _ in range(rng.choice((0, 0, 1)))],
        "patience": 30.0,
    }
