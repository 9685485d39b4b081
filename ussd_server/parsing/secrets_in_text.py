"""Hides what looks like a secret, wherever it stands in a text: a client may put one into any field by mistake."""

from __future__ import annotations

import re

STARS = "********"
_LONGEST_NAME = 40

# Our own secrets, those of webhooks, JWTs and their beginnings, what we sign for refreshes, links and sessions (a list
# begins with `WyI`, a packed object with `.eJ`), and what follows "Bearer" or "Basic" in a header.
_SECRET = re.compile(
    r"(?:ussdsk_|whsec_)[\w+/=-]*|(?:\beyJ|\bWyI|\.eJ)[\w-]{8,}(?:\.[\w-]*){0,4}|(?<=\b[Bb]earer )[\w.~+/=-]{8,}"
    r"|(?<=\b[Bb]asic )(?=[A-Za-z+/]*[0-9=])[\w+/=-]{8,}"
)
# One of these is in every match; looking for them takes a hundredth of the time.
_MARKS = ("ussdsk_", "whsec_", "eyJ", "WyI", ".eJ", "earer ", "asic ")
_CARD_NUMBER = re.compile(r"(?<![\w-])\d(?:[ \u00a0-]?\d){12,18}(?![\w-])")
_SEPARATORS = str.maketrans("", "", " \u00a0-")
# A password may stand in the place of a port, when the rest of the address was cut off.
_ADDRESS = re.compile(
    r"(?i)\b([a-z][a-z0-9+]{1,9}://)(?:[^\s/?#@]*@)?(\[[0-9a-f:.]*\]|[^\s/?#@:\"'<>]*)(:\d{1,5}\b)?[^\s\"'<>]*"
)


def without_secrets(text: str) -> str:
    """Return a text with stars for our secrets, tokens and card numbers. Costs some microseconds."""
    return _CARD_NUMBER.sub(_card_number_or_not, without_tokens(text))


def without_tokens(text: str) -> str:
    """Return a text with stars for our secrets and tokens. What may be a receipt's number stays."""
    return _SECRET.sub(STARS, text) if any(mark in text for mark in _MARKS) else text


def without_paths(text: str) -> str:
    """Return a text with only scheme and host of each address in it."""
    return _ADDRESS.sub(r"\1\2\3", text) if "://" in text else text


def shown_name(name: str) -> str:
    """Return the name of a field as its caller wrote it, safe to repeat; stars for a long one, which may be no name."""
    if len(name) > _LONGEST_NAME:
        return STARS
    return without_secrets("".join(letter for letter in name if letter.isprintable()))


def _card_number_or_not(match: re.Match[str]) -> str:
    digits = match[0].translate(_SEPARATORS)
    return STARS if _has_check_digit(digits) else match[0]


def _has_check_digit(digits: str) -> bool:
    """Whether the last digit is the check digit of the others (Luhn)."""
    odd, even = digits[-1::-2], digits[-2::-2]
    return (sum(map(int, odd)) + sum(sum(divmod(2 * int(each), 10)) for each in even)) % 10 == 0
