"""Payment codes of the simulated clients, and payers who pay with them: drawn from the seed."""

from __future__ import annotations

from random import Random
from typing import Any

PREFIXES = ("SCH", "UNI")
_CODES_OF_A_CLIENT = 25
_EXACT_CENTS = 5_000_000
CODES: dict[str, tuple[int, int | None]] = {
    f"{prefix}{1000 + 7 * number}": (place, None if number % 4 else _EXACT_CENTS)
    for place, prefix in enumerate(PREFIXES)
    for number in range(_CODES_OF_A_CLIENT)
}
"""Each code with the place of its client, and the only amount that it takes, None for any."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
# In parts of a thousand.
_WRONG_CODES, _OTHER_AMOUNTS, _SILENT = 50, 10, 20


def payment_of(rng: Random, number: int) -> dict[str, Any]:
    """One payment of a payer: what is meant and typed, and how it is reported. `reported_after` is None for never."""
    code = rng.choice(list(CODES))
    place, exact = CODES[code]
    cents = exact or 100 * rng.randrange(500, 40_000)
    if exact and rng.randrange(1000) < _OTHER_AMOUNTS:
        cents += 100 * rng.randrange(1, 100)
    is_wrong, is_silent = rng.randrange(1000) < _WRONG_CODES, rng.randrange(1000) < _SILENT
    return {
        "client": place,
        "code": code,
        "typed": _mistyped(rng, code) if is_wrong else _written(rng, code),
        # No other payment has this number.
        "phone": f"+25678{number:07}",
        "cents": cents,
        "is_checked": rng.random() < 0.5,
        "reported_after": None if is_silent else rng.choice((1.0, 1.0, 5.0, 5.0, 5.0, 900.0)) * rng.random(),
        "again": [rng.choice((0.0, 0.01, 3.0, 900.0)) * rng.random() for _ in range(rng.choice((0, 0, 0, 1, 2)))],
        "patience": rng.choice((1.0, 5.0, 30.0)),
    }


def _written(rng: Random, code: str) -> str:
    """A code as payers write it."""
    return rng.choice((code, code, code.lower(), f"{code[:3]} {code[3:]}", f"{code[:3].lower()}-{code[3:]}"))


def _mistyped(rng: Random, code: str) -> str:
    """A code that is none: with another letter, two letters changed over, a letter too few, or no code at all."""
    place = rng.randrange(len(code))
    typed = code
    while typed.upper() in CODES:
        typed = rng.choice(
            (
                f"{code[:place]}{rng.choice(_LETTERS)}{code[place + 1 :]}",
                f"{code[:place]}{code[place : place + 2][::-1]}{code[place + 2 :]}",
                f"{code[:place]}{code[place + 1 :]}",
                rng.choice(("", "fees", "Achieng S2")),
            )
        )
        place = rng.randrange(len(code))
    return typed
