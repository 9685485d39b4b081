"""Reads amounts, dates and parties in cells of statements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from ussd_server.values import KAMPALA, phone_number

_AMOUNT = re.compile(
    r"(?P<open>\()?(?P<sign>[+-])?\s*(?P<before>[A-Za-z]{3})?\.?\s*(?P<inner>[+-])?"
    r"(?P<whole>[0-9]{1,3}(?:[, \u00a0\u202f][0-9]{3})+|[0-9]{1,15})(?:\.(?P<part>[0-9]{1,6}))?"
    r"\s*(?P<after>[A-Za-z]{3})?(?P<close>\))?",
    re.ASCII,
)
_YEAR_FIRST = re.compile(
    r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?)?\s*(Z|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)
_YEAR_LAST = re.compile(
    r"(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(?:,?\s+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?\s*([AaPp][Mm])?)?",
    re.ASCII,
)
_YEARS = range(2000, 2100)
# The patterns allow spaces at several places, so matching a long run of spaces would try every division of it.
_LONGEST = 64
# Hour, minute, second, and AM or PM.
_Clock = tuple[str | None, str | None, str | None, str | None]
_PARTY = re.compile(r"(?:FRI:)?\+?([0-9]+)(?:/MSISDN)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CellAmount:
    """Money in a cell: cents with their sign, whether the cell had a sign, and the currency it names."""

    cents: int
    is_signed: bool
    currency: str | None


@dataclass(frozen=True, slots=True)
class SlashedDate:
    """A moment (UTC) in both orders of day and month, None where an order is impossible."""

    day_first: datetime | None
    month_first: datetime | None
    resolution: timedelta


def read_amount(text: str) -> CellAmount | None:
    """The amount in a cell such as `1,234,567.00`, `UGX 5,000`, `(5,000)` or `-5000`; None for anything else."""
    found = _AMOUNT.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or bool(found["open"]) != bool(found["close"]):
        return None
    part = (found["part"] or "").rstrip("0").ljust(2, "0")
    if len(part) > 2 or (found["before"] and found["after"]):
        return None
    sign = found["sign"] or found["inner"]
    cents = int(re.sub(r"\D", "", found["whole"])) * 100 + int(part)
    is_negative = sign == "-" or bool(found["open"])
    currency = found["before"] or found["after"]
    return CellAmount(
        -cents if is_negative else cents,
        is_signed=is_negative or sign == "+",
        currency=None if currency is None else {"USH": "UGX", "SHS": "UGX"}.get(currency.upper(), currency.upper()),
    )


def read_date(text: str, zone: tzinfo = KAMPALA) -> SlashedDate | None:
    """The date in a cell, from 2000 to 2099, in `zone` where it names no other; None for anything else.

    Takes `2026-11-20 14:03:12`, `20/11/2026 14:03:12`, `20/11/2026 14:03` and `11/20/2026 14:03`.
    """
    if len(text) > _LONGEST:
        return None
    if found := _YEAR_FIRST.fullmatch(text):
        year, month, day, hour, minute, second, offset = found.groups()
        moment = _moment(year, month, day, (hour, minute, second, None), zone, offset)
        return SlashedDate(moment, moment, _resolution(hour, second)) if moment else None
    if found := _YEAR_LAST.fullmatch(text):
        first, other, year, hour, minute, second, half = found.groups()
        clock = (hour, minute, second, half)
        day_first, month_first = _moment(year, other, first, clock, zone), _moment(year, first, other, clock, zone)
        if day_first or month_first:
            return SlashedDate(day_first, month_first, _resolution(hour, second))
    return None


def phone_number_in(text: str) -> str | None:
    """The phone number of a party such as `FRI:256772123456/MSISDN`, `0772123456` or `772123456`; None for others."""
    found = _PARTY.fullmatch(text)
    if found is None:
        return None
    return phone_number(f"0{found[1]}" if len(found[1]) == 9 else found[1])


def _moment(year: str, month: str, day: str, time: _Clock, zone: tzinfo, offset: str | None = None) -> datetime | None:
    hour, minute, second, half = time
    if int(year) not in _YEARS:
        return None
    try:
        at = datetime(
            int(year), int(month), int(day), _hour(hour, half), int(minute or 0), int(second or 0), tzinfo=zone
        )
        if offset is not None:
            at = at.replace(tzinfo=datetime.strptime(offset, "%z").tzinfo)
        return at.astimezone(UTC)
    except ValueError:
        return None


def _hour(hour: str | None, half: str | None) -> int:
    if half is None:
        return int(hour or 0)
    if not 1 <= int(hour or 0) <= 12:
        raise ValueError("hours with AM or PM are 1 to 12")
    return int(hour or 0) % 12 + (12 if half.upper() == "PM" else 0)


def _resolution(hour: str | None, second: str | None) -> timedelta:
    if hour is None:
        return timedelta(days=1)
    return timedelta(seconds=1) if second is not None else timedelta(minutes=1)
