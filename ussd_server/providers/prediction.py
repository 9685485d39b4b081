"""Which company a Ugandan number most probably belongs to."""

from __future__ import annotations

# Blocks of the national numbering plan, after +256. Numbers can be carried to another company, so this is a guess.
_BLOCKS = {
    "39": "mtn",
    "76": "mtn",
    "77": "mtn",
    "78": "mtn",
    "79": "mtn",
    "70": "airtel",
    "74": "airtel",
    "75": "airtel",
}


def predict(phone_number: str) -> str | None:
    """The name of the company for a number of the form `+256` and nine digits, None when no block says so."""
    return _BLOCKS.get(phone_number[4:6]) if phone_number.startswith("+256") else None
