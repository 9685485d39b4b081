"""Reads the period that a statement states above its headings: `From Date, 19-11-2026` and `To Date, 21-11-2026`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo
from itertools import pairwise

from ussd_server.spreadsheets.dates import read_date
from ussd_server.spreadsheets.headings import heading_key
from ussd_server.spreadsheets.rows import Row

_FROM = {"from", "fromdate", "datefrom", "startdate", "periodfrom", "periodstart"}
_TO = {"to", "todate", "dateto", "enddate", "periodto", "periodend"}


class StatedPeriod:
    """Notes the first and the last day of the period, from the rows above the headings; None for what is not stated.

    Both are the first moments of their days. A date with two readings states nothing.
    """

    def __init__(self, zone: tzinfo) -> None:
        self.first: datetime | None = None
        self.last: datetime | None = None
        self._zone = zone

    def read(self, rows: Iterable[Row]) -> None:
        for label, value in (pair for row in rows for pair in pairwise(row.cells)):
            key = heading_key(label)
            if key in _FROM:
                self.first = self.first or self._day(value)
            elif key in _TO:
                self.last = self.last or self._day(value)

    def _day(self, text: str) -> datetime | None:
        date = read_date(text, self._zone)
        if date is None or date.has_two_readings:
            return None
        moment = date.day_first or date.month_first
        assert moment is not None, "a date that can be read has one reading"
        local = moment.astimezone(self._zone)
        return local.replace(hour=0, minute=0, second=0, microsecond=0)
