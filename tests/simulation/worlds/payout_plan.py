"""Payouts whose rows are retried and cancelled in turn: drawn from the seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

_MOST_TURNS, _MOST_ROWS = 5, 3
_BY_TWO = 0.3
_TURNS = ("retry", "retry", "cancel")


def contested_of(
    rng: Random, number: int, kinds: Sequence[str] = _TURNS, most_rows: int = _MOST_ROWS
) -> dict[str, Any]:
    """One payout with its turns, each after some seconds; `by_two`: two processes take each at the same moment."""
    name = f"t{number}"
    turns = rng.randrange(2, _MOST_TURNS + 1)
    return {
        "client": rng.randrange(2),
        "name": name,
        "again": [],
        "patience": rng.choice((1.0, 5.0, 30.0)),
        "sent_after": None,
        "rows": [
            {
                "name": f"{name}/r{place}",
                "phone": f"+25676{rng.randrange(10_000_000):07}",
                "cents": 100 * rng.randrange(500, 9000),
            }
            for place in range(rng.randrange(1, most_rows + 1))
        ],
        "turns": [
            (
                rng.choice(kinds),
                rng.choice((0.3, 3.0, 60.0, 700.0, 1500.0)) * (0.2 + rng.random()),
            )
            for _ in range(turns)
        ],
        "by_two": rng.random() < _BY_TWO,
    }
