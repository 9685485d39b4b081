"""Reads the lines of a provider's statement from its rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, NoReturn, Protocol

from ussd_server.providers.statement_format import LineStatus, LineType, StatementField, StatementFormat
from ussd_server.services.reconciliation.cell_values import (
    CellAmount,
    SlashedDate,
    phone_number_in,
    read_amount,
    read_date,
)
from ussd_server.services.reconciliation.days.stated_period import StatedPeriod
from ussd_server.spreadsheets.headings import find_columns, heading_key
from ussd_server.spreadsheets.reader import read_rows
from ussd_server.spreadsheets.rows import Row, SpreadsheetError
from ussd_server.values import grouped

_REQUIRED = (
    (StatementField.ID, StatementField.REFERENCE),
    (StatementField.DATE,),
    (StatementField.AMOUNT, StatementField.CREDIT, StatementField.DEBIT),
)
# Some exports cut long names: `Batch t` for `Batch transfer`.
_SHORTEST_CUT = 6
_LONGEST_PERIOD = timedelta(days=400)
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_LONGEST_TEXT = 100
# The database keeps sums in 64 bits; more is a wrong column anyway.
_LARGEST_SUM_CENTS = 10**17
# How spreadsheet programs show a long number in a narrow column, and save it.
_SHORTENED = re.compile(r"[0-9]+([.,][0-9]+)?[eE]\+[0-9]+")
# Clocks differ, and dates without seconds are cut to the minute.
_TOLERANCE = timedelta(minutes=5)
_STEP = timedelta(minutes=30)
_NONE = timedelta(0)
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MONEY = (StatementField.AMOUNT, StatementField.CREDIT, StatementField.DEBIT)


@dataclass(frozen=True, slots=True)
class ProviderLine:
    """One line of a statement.

    `amount_cents` has no sign; `direction` is 1 for money to us, -1 for money from us, and 0 where the line does not
    say. `type` is None where the provider's table does not know it. `moments` is its date (UTC) with the day first and
    with the month first, None where an order is impossible. `dated` and `party` are for people. `balance_cents` is the
    balance after the line, None without one; `fee_cents` and `tax_cents` are 0 without one.
    """

    line: int
    provider_id: str
    reference: str
    status: LineStatus
    type: LineType | None
    amount_cents: int
    direction: int
    balance_cents: int | None
    fee_cents: int
    tax_cents: int
    moments: tuple[datetime | None, datetime | None]
    dated: str
    party: str


class Dated(Protocol):
    """What has a date of a line in both orders of day and month, as `ProviderLine.moments`."""

    @property
    def moments(self) -> tuple[datetime | None, datetime | None]:
        """The date (UTC) with the day first and with the month first."""


@dataclass(frozen=True, slots=True)
class Period:
    """The moments (UTC) between which the lines of a statement lie, both included."""

    first: datetime
    last: datetime


class DateOrder:
    """One of the two orders of day and month: the dates of all lines, and how they differ from our times.

    `first` and `last` are the ends of the lines; `impossible_in` is a row that excludes the order. A provider pays
    between the creation and the completion of a transaction here. `is_off`: at least one line is dated more than five
    minutes outside; `our_first` and `our_last` are the ends of our times of such payments.
    """

    def __init__(self) -> None:
        self.first, self.last = _LATEST, _EARLIEST
        self.impossible_in = 0
        self.is_off = False
        self.our_first, self.our_last = _LATEST, _EARLIEST
        self._least, self._most = timedelta.min, timedelta.max

    def note(self, line: int, dated: datetime | None) -> None:
        """Take the date of a line, None where the order is impossible."""
        if dated is None:
            self.impossible_in = self.impossible_in or line
        else:
            self.first, self.last = min(self.first, dated), max(self.last, dated)

    def compare(self, dated: datetime | None, created_at: datetime, completed_at: datetime) -> None:
        """Compare the date of a matched line with our times of its payment."""
        if dated is None:
            return
        least, most = dated - completed_at, dated - created_at
        self._least, self._most = max(least, self._least), min(most, self._most)
        if least > _TOLERANCE or most < -_TOLERANCE:
            nearest = completed_at if least > _TOLERANCE else created_at
            self.is_off = True
            self.our_first, self.our_last = min(nearest, self.our_first), max(nearest, self.our_last)

    def common_shift(self) -> timedelta | None:
        """The whole or half hours by which every line is dated too late, negative for too early; None without such."""
        if not self.is_off:
            return None
        least, most = self._least - _TOLERANCE, self._most + _TOLERANCE
        nearest = round((least + most) / 2 / _STEP) * _STEP
        return nearest if least <= nearest <= most and nearest != _NONE and not least <= _NONE <= most else None


class StatementReader:
    """Reads one statement, line by line. Every refusal is a SpreadsheetError, possibly after some lines.

    `orders` are given the dates of the lines as they are matched: with the day first, and with the month first.
    `stated` is the period that the titles state.
    """

    def __init__(self, known: StatementFormat, currency: str) -> None:
        """`currency` is that of the provider; a statement in another one is refused."""
        self._known = known
        self._currency = currency
        self.orders = DateOrder(), DateOrder()
        self.stated = StatedPeriod(known.zone)
        self._columns: dict[str, int] = {}
        self._resolution = timedelta(0)
        self._sum_cents = 0
        self.count = 0

    def lines(self, source: BinaryIO) -> Iterator[ProviderLine]:
        """Yield every line. Titles above the headings and totals below the lines are left out."""
        rows = self.stated.titles(read_rows(source))
        headings = {field.value: names for field, names in self._known.headings.items()}
        self._columns = find_columns(rows, headings, _REQUIRED).columns
        self.stated.end()
        for row in rows:
            line = self._line(row)
            if line is not None:
                self.count += 1
                yield line
        if not self.count:
            raise SpreadsheetError("The statement has headings and no payments.")
        self.period()

    def period(self) -> Period:
        """The period from the first line to the last; the day comes first unless something proves otherwise."""
        dates = self.orders[self._order()]
        if dates.last - dates.first > _LONGEST_PERIOD:
            raise SpreadsheetError(
                f"The dates of the statement lie more than {_LONGEST_PERIOD.days} days apart; perhaps one is wrong."
            )
        # A date without seconds stands for the whole minute.
        return Period(dates.first, dates.last + self._resolution)

    def proven_period(self) -> Period:
        """The period, extended by our times of payments that the statement dates elsewhere, so that it hides nothing.

        Refuses a statement whose dates are all off by the same hours. Call after every line was matched.
        """
        period, dates = self.period(), self.orders[self._order()]
        if self._resolution >= _DAY:
            return period
        if common := dates.common_shift():
            hours, way = abs(common) / _HOUR, "later" if common > timedelta(0) else "earlier"
            raise SpreadsheetError(
                f"The dates of the statement are {hours:g} hour{'' if hours == 1 else 's'} {way} than our times of the "
                "payments that match; name the time zone of its dates in USSD_STATEMENT_HEADINGS."
            )
        return Period(min(period.first, dates.our_first), max(period.last, dates.our_last))

    def moment_of(self, line: Dated) -> datetime:
        """The date of a line (UTC), in the order of all dates. Call after the last line was read."""
        moment = line.moments[self._order()]
        assert moment is not None, "the order is possible for every line"
        return moment

    def _order(self) -> int:
        """0 when the day comes first in a date, 1 when the month does."""
        day_first, month_first = self.orders
        if day_first.impossible_in or month_first.impossible_in:
            return 1 if day_first.impossible_in else 0
        return 1 if day_first.is_off and not month_first.is_off else 0

    def _line(self, row: Row) -> ProviderLine | None:
        provider_id, reference = self._text(row, StatementField.ID), self._text(row, StatementField.REFERENCE)
        dated, status = self._text(row, StatementField.DATE), self._text(row, StatementField.STATUS)
        date = read_date(dated, self._known.zone)
        for field, text in ((StatementField.ID, provider_id), (StatementField.REFERENCE, reference)):
            if _SHORTENED.fullmatch(text):
                sentence = f"a spreadsheet shortened the number to {text[:32]}; use the file as it was downloaded."
                self._refuse(row, field, sentence)
        if date is None:
            if heading_key(dated) in map(heading_key, self._known.headings[StatementField.DATE]):
                # Headings that are repeated on every page.
                return None
            # Totals below the table have no status, and a word in place of the id.
            has_name = any(map(str.isdigit, provider_id)) or (reference and not provider_id)
            if not status and not (has_name and any(self._text(row, field) for field in _MONEY)):
                return None
            sentence = f"the date {dated[:40]!r} cannot be read." if dated else "the date is missing."
            self._refuse(row, StatementField.DATE, sentence)
        amount = self._amount(row)
        if amount is None:
            # Opening and closing balances have a date and no amount.
            if not provider_id and not reference:
                return None
            self._refuse(row, _MONEY[0], "the amount is missing.")
        self._sum_cents += abs(amount.cents)
        if self._sum_cents > _LARGEST_SUM_CENTS:
            self._refuse(row, _MONEY[0], f"the amounts add up to more than {grouped(_LARGEST_SUM_CENTS)}.")
        self._note_date(row, date)
        kind = self._type(row)
        return ProviderLine(
            line=row.line,
            provider_id=provider_id,
            reference=reference,
            status=self._status(row, status),
            type=kind,
            amount_cents=abs(amount.cents),
            direction=0 if not amount.is_signed else -1 if amount.cents < 0 else 1,
            balance_cents=self._cents(row, StatementField.BALANCE),
            fee_cents=abs(self._cents(row, StatementField.FEE) or 0),
            tax_cents=abs(self._cents(row, StatementField.TAX) or 0),
            moments=(date.day_first, date.month_first),
            dated=dated[:_LONGEST_TEXT],
            party=self._party(row, kind),
        )

    def _text(self, row: Row, field: StatementField) -> str:
        # Spreadsheet programs put an apostrophe before a number that is text.
        return row.cell(self._columns.get(field)).removeprefix("'")

    def _amount(self, row: Row) -> CellAmount | None:
        """The amount, with the sign of its column where credits and debits have one each."""
        for field in _MONEY:
            text = self._text(row, field)
            if text in ("", "-"):
                continue
            amount = read_amount(text)
            if amount is None:
                self._refuse(row, field, f"the amount {text[:40]!r} cannot be read.")
            if amount.cents == 0 and field is not StatementField.AMOUNT:
                continue
            self._check_currency(row, field, amount.currency)
            self._check_currency(row, StatementField.CURRENCY, self._text(row, StatementField.CURRENCY) or None)
            if field is StatementField.AMOUNT:
                return amount
            sign = 1 if field is StatementField.CREDIT else -1
            return CellAmount(sign * abs(amount.cents), is_signed=True, currency=None)
        return None

    def _cents(self, row: Row, field: StatementField) -> int | None:
        """The signed amount of a column that not every line has."""
        text = self._text(row, field)
        if text in ("", "-"):
            return None
        amount = read_amount(text)
        if amount is None:
            self._refuse(row, field, f"the {field} {text[:40]!r} cannot be read.")
        return amount.cents

    def _check_currency(self, row: Row, field: StatementField, currency: str | None) -> None:
        if currency is not None and currency.upper() != self._currency:
            self._refuse(row, field, f"the currency is {currency[:10]!r}, and not {self._currency}.")

    def _status(self, row: Row, text: str) -> LineStatus:
        # A statement without a column of statuses lists what succeeded.
        if StatementField.STATUS not in self._columns:
            return LineStatus.SUCCEEDED
        status = self._known.statuses.get(heading_key(text))
        if status is None:
            self._refuse(row, StatementField.STATUS, f"the status {text[:40]!r} is not known.")
        return status

    def _type(self, row: Row) -> LineType | None:
        key = heading_key(self._text(row, StatementField.TYPE))
        if key in self._known.types or len(key) < _SHORTEST_CUT:
            return self._known.types.get(key)
        return next((kind for text, kind in self._known.types.items() if text.startswith(key)), None)

    def _party(self, row: Row, kind: LineType | None) -> str:
        sender, receiver = self._text(row, StatementField.SENDER), self._text(row, StatementField.RECEIVER)
        texts = (receiver, sender) if kind in (LineType.OUT, LineType.REVERSAL) else (sender, receiver)
        return next(filter(None, map(phone_number_in, texts)), texts[0][:_LONGEST_TEXT])

    def _note_date(self, row: Row, date: SlashedDate) -> None:
        self._resolution = max(self._resolution, date.resolution)
        for order, moment in zip(self.orders, (date.day_first, date.month_first), strict=True):
            order.note(row.line, moment)
        if all(order.impossible_in for order in self.orders):
            other = min(order.impossible_in for order in self.orders)
            self._refuse(row, StatementField.DATE, f"day and month stand in another order than in row {other}.")

    def _refuse(self, row: Row, field: StatementField, sentence: str) -> NoReturn:
        raise SpreadsheetError(sentence, line=row.line, column=self._columns.get(field))
