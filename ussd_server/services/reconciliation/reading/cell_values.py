"""Reads amounts and parties in cells of statements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ussd_server.providers.statement_format import Thousands
from ussd_server.values import phone_number

_MINUS = "[-\u2212]"
_AMOUNT = re.compile(
    rf"(?P<open>\()?(?P<sign>{_MINUS}|\+)?\s*(?P<before>[A-Za-z]{{3}})?\.?\s*(?P<inner>{_MINUS}|\+)?"
    r"(?P<whole>[0-9]{1,15}|[1-9][0-9]{0,2}(?P<mark>[., \u00a0\u202f])[0-9]{3}(?:(?P=mark)[0-9]{3}){0,4})"
    r"(?:\.(?P<part>[0-9]{1,6}))?\s*(?P<after>[A-Za-z]{3})?(?P<close>\))?",
    re.ASCII,
)
# The patterns allow spaces at several places, so matching a long run of spaces would try every division of it.
_LONGEST = 64
_SHILLINGS = {"USH": "UGX", "SHS": "UGX"}
_PARTY = re.compile(r"(?:FRI:)?\+?([0-9]+)(?:/MSISDN)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CellAmount:
    """Money in a cell: cents with their sign, whether the cell had a sign, and the currency it names.

    `shows` is what separates thousands for certain, None where the amount does not show it. `doubtful` is the one dot
    or comma before exactly three digits, which may be a decimal point: in `cents` it separates thousands.
    """

    cents: int
    is_signed: bool
    currency: str | None
    shows: Thousands | None = None
    doubtful: Thousands | None = None

    def agrees_with(self, thousands: Thousands | None) -> bool:
        """Whether a file whose thousands are separated so can have this amount."""
        return (self.shows or self.doubtful) in (None, thousands) or thousands is None


def read_amount(text: str) -> CellAmount | None:
    """The amount in a cell such as `1,234,567.00`, `UGX 5,000`, `(5,000)` or `-5000`; None for anything else.

    One minus, before the digits or the currency, or brackets make it negative.
    """
    return _read_amount(text) if len(text) <= _LONGEST else None


# Amounts come again and again.
@lru_cache(10_000)
def _read_amount(text: str) -> CellAmount | None:
    match = _AMOUNT.fullmatch(text)
    if match is None or bool(match["open"]) != bool(match["close"]):
        return None
    whole, mark, part = match["whole"], match["mark"], match["part"] or ""
    cents_part = part.rstrip("0").ljust(2, "0")
    signs = [sign for sign in (match["open"], match["sign"], match["inner"]) if sign]
    if (match["before"] and match["after"]) or len(signs) > 1 or (mark == "." and part):
        return None
    groups = re.split(r"\D", whole)
    shows = doubtful = None
    if len(part) == 3 and mark is None and len(whole) <= 3 and not whole.startswith("0"):
        doubtful, groups, cents_part = Thousands.DOT, [whole, part], "00"
    elif mark in (".", ",") and len(groups) == 2 and not part:
        doubtful = Thousands(mark)
    elif mark in (".", ","):
        shows = Thousands(mark)
    elif part:
        shows = Thousands.COMMA
    if len(cents_part) > 2:
        return None
    cents = int("".join(groups)) * 100 + int(cents_part)
    is_negative = bool(signs) and signs[0] != "+"
    currency = (match["before"] or match["after"] or "").upper()
    return CellAmount(
        -cents if is_negative else cents,
        is_signed=bool(signs),
        currency=_SHILLINGS.get(currency, currency) or None,
        shows=shows,
        doubtful=doubtful,
    )


def phone_number_in(text: str) -> str | None:
    """The phone number of a party such as `FRI:256772123456/MSISDN`, `0772123456` or `772123456`; None for others."""
    found = _PARTY.fullmatch(text)
    if found is None:
        return None
    return phone_number(f"0{found[1]}" if len(found[1]) == 9 else found[1])
