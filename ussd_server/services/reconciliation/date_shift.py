"""Compares the dates of a statement with our times of the same payments."""

from __future__ import annotations

from datetime import datetime, timedelta

# Clocks differ, and dates without seconds are cut to the minute.
_TOLERANCE = timedelta(minutes=5)
_STEP = timedelta(minutes=30)
_NONE = timedelta(0)


class DateShift:
    """How far the dates of matched lines differ from our times of their payments.

    A provider pays between the creation and the completion of a transaction here. `is_off`: at least one line is dated
    more than five minutes outside; `first` and `last` are the ends of our times of such payments.
    """

    def __init__(self) -> None:
        self._least: timedelta | None = None
        self._most: timedelta | None = None
        self.is_off = False
        self.first: datetime | None = None
        self.last: datetime | None = None

    def note(self, dated: datetime | None, created_at: datetime, completed_at: datetime) -> None:
        """Compare one line; `dated` is None where the order of day and month is impossible."""
        if dated is None:
            return
        least, most = dated - completed_at, dated - created_at
        self._least = least if self._least is None else max(least, self._least)
        self._most = most if self._most is None else min(most, self._most)
        if least > _TOLERANCE or most < -_TOLERANCE:
            nearest = completed_at if least > _TOLERANCE else created_at
            self.is_off = True
            self.first = nearest if self.first is None else min(nearest, self.first)
            self.last = nearest if self.last is None else max(nearest, self.last)

    def common(self) -> timedelta | None:
        """The whole or half hours by which every line is dated too late, negative for too early; None without such."""
        if not self.is_off or self._least is None or self._most is None:
            return None
        least, most = self._least - _TOLERANCE, self._most + _TOLERANCE
        nearest = round((least + most) / 2 / _STEP) * _STEP
        return nearest if least <= nearest <= most and nearest != _NONE and not least <= _NONE <= most else None
