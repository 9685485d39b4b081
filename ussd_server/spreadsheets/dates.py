"""Reads dates in cells, in a closed list of forms; nothing is guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

_CLOCK = (
    r"(?:(?:T|, ?| )(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d{1,9})?)?"
    r"(?: ?(?P<half>[AP]M))?)?"
)
_NAME = r"(?P<name>[A-Z]{3,9})"
_YEAR = r"(?P<year>\d{4}|\d{2})"
# In capitals, and with one space where the cell has white space.
_FORMS = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"(?P<year>\d{{4}})(?P<mark>[-/])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}}){_CLOCK} ?"
        r"(?P<offset>Z|[+-]\d{2}:?\d{2})?",
        rf"(?P<day>\d{{1,2}})(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark){_YEAR}{_CLOCK}",
        rf"(?P<day>\d{{1,2}})(?P<mark>[-/. ]){_NAME}(?P=mark){_YEAR}{_CLOCK}",
        rf"{_NAME} (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){_CLOCK}",
        r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})(?P<hour>\d{2})(?P<minute>\d{2})(?P<second>\d{2})",
    )
)
_NUMBERS_ONLY = _FORMS[1]
_MONTHS = (
    "JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE", "JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER",
    "DECEMBER",
)  # fmt: skip
_NUMBERS = {name[:length]: number for number, name in enumerate(_MONTHS, 1) for length in (3, len(name))} | {"SEPT": 9}
_CENTURY = 2000
_YEARS = range(2000, 2100)
# The patterns allow spaces at several places, so matching a long run of spaces would try every division of it.
_LONGEST = 64


@dataclass(frozen=True, slots=True)
class CellDate:
    """A moment (UTC) in both orders of day and month, None where an order is impossible.

    The two are equal for a date whose form, such as ISO 8601, leaves no choice.
    """

    day_first: datetime | None
    month_first: datetime | None
    resolution: timedelta

    @property
    def has_two_readings(self) -> bool:
        """Whether both orders of day and month give a date, and not the same one."""
        return None not in (self.day_first, self.month_first) and self.day_first != self.month_first


def read_date(text: str, zone: tzinfo) -> CellDate | None:
    """The date in a cell, from 2000 to 2099, in `zone` where it names no other; None for anything else.

    Takes `2026-11-20 14:03:12`, `20/11/2026 14:03` with `/`, `-` or `.` and either of day and month first,
    `20-NOV-2026`, `20 Nov 2026, 14:03`, `November 20, 2026` and `20261120140312`; years of two digits after a day, AM
    and PM, any case and any white space.
    """
    plain = _plain(text)
    for form in _FORMS:
        if match := form.fullmatch(plain):
            parts = match.groupdict()
            month = parts.get("month") or str(_NUMBERS.get(parts.get("name") or "", 0))
            day_first = _moment(parts, month, parts["day"], zone)
            month_first = _moment(parts, parts["day"], month, zone) if form is _NUMBERS_ONLY else day_first
            if day_first or month_first:
                return CellDate(day_first, month_first, _resolution(parts))
    return None


def may_have_two_readings(text: str) -> bool:
    """Whether a text has a form in which day and month can be exchanged; False for most of what is no date."""
    return _NUMBERS_ONLY.fullmatch(_plain(text)) is not None


def _plain(text: str) -> str:
    """Return the text in capitals with single spaces; empty when it is too long for a date."""
    return " ".join(text.upper().split()) if len(text) <= _LONGEST else ""


def _moment(parts: dict[str, str | None], month: str, day: str | None, zone: tzinfo) -> datetime | None:
    year = int(parts["year"] or 0)
    if len(parts["year"] or "") == 2:
        year += _CENTURY
    if year not in _YEARS:
        return None
    try:
        minute, second = int(parts["minute"] or 0), int(parts["second"] or 0)
        at = datetime(year, int(month), int(day or 0), _hour(parts), minute, second, tzinfo=zone)
        if offset := parts.get("offset"):
            at = at.replace(tzinfo=datetime.strptime(offset, "%z").tzinfo)
        return at.astimezone(UTC)
    except ValueError:
        return None


def _hour(parts: dict[str, str | None]) -> int:
    hour, half = int(parts["hour"] or 0), parts.get("half")
    if half is None:
        return hour
    if not 1 <= hour <= 12:
        raise ValueError("hours with AM or PM are 1 to 12")
    return hour % 12 + (12 if half == "PM" else 0)


def _resolution(parts: dict[str, str | None]) -> timedelta:
    if parts["hour"] is None:
        return timedelta(days=1)
    return timedelta(seconds=1) if parts["second"] is not None else timedelta(minutes=1)
