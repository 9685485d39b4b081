"""Reads the lines of a provider's statement from its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, NoReturn

from ussd_server.providers.statement_format import DateOrder, LineStatus, LineType, StatementField, StatementFormat
from ussd_server.services.reconciliation.reading.cell_values import CellAmount, phone_number_in, read_amount
from ussd_server.services.reconciliation.reading.conventions import (
    MONEY,
    FileConventions,
    check_thousands,
    learn_conventions,
    no_such_order,
)
from ussd_server.services.reconciliation.reading.stated_direction import NOT_STATED, StatedDirection
from ussd_server.services.reconciliation.reading.stated_period import StatedPeriod
from ussd_server.services.reconciliation.reading.statement_rows import Layouts, StatementTable
from ussd_server.spreadsheets.changed import is_changed, is_shortened
from ussd_server.spreadsheets.dates import read_date
from ussd_server.spreadsheets.headings import heading_key, headings_key
from ussd_server.spreadsheets.rows import Row, SpreadsheetError
from ussd_server.values import grouped

# Some exports cut long names: `Batch t` for `Batch transfer`.
_SHORTEST_CUT = 6
_LONGEST_PERIOD = timedelta(days=400)
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_LONGEST_TEXT = 100
# The database keeps sums in 64 bits; more is a wrong column anyway.
_LARGEST_SUM_CENTS = 10**17
# Clocks differ, and dates without seconds are cut to the minute.
_TOLERANCE = timedelta(minutes=5)
_STEP = timedelta(minutes=30)
_NONE = timedelta(0)
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_SIDES: dict[LineType | None, int] = {LineType.IN: 1, LineType.OUT: -1}
_DIRECTIONS = _SIDES | {LineType.FEE: -1}


@dataclass(frozen=True, slots=True)
class ProviderLine:
    """One line of a statement.

    `amount_cents` has no sign; `direction` is 1 for money to us, -1 for money from us, and 0 for a reversal, and for
    nothing that moved, without either. `type` is None where the provider's table does not know it. `at` is its date
    (UTC). `dated` and `party` are for people. `balance_cents` is the balance after the line, None without one;
    `fee_cents` and `tax_cents` are 0 without one.
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
    at: datetime
    dated: str
    party: str


@dataclass(frozen=True, slots=True)
class Period:
    """The moments (UTC) between which the lines of a statement lie, both included."""

    first: datetime
    last: datetime


class StatementDates:
    """The dates of all lines, and how they differ from our times.

    `first` and `last` are the ends of the lines. A provider pays between the creation and the completion of a
    transaction here. `is_off`: at least one line is dated more than five minutes outside; `our_first` and `our_last`
    are the ends of our times of such payments.
    """

    def __init__(self) -> None:
        self.first, self.last = _LATEST, _EARLIEST
        self.is_off = False
        self.our_first, self.our_last = _LATEST, _EARLIEST
        self._least, self._most = timedelta.min, timedelta.max

    def note(self, dated: datetime) -> None:
        """Take the date of a line."""
        self.first, self.last = min(self.first, dated), max(self.last, dated)

    def compare(self, dated: datetime, created_at: datetime, completed_at: datetime) -> None:
        """Compare the date of a matched line with our times of its payment."""
        least, most = dated - completed_at, dated - created_at
        self._least, self._most = max(least, self._least), min(most, self._most)
        if least > _TOLERANCE or most < -_TOLERANCE:
            nearest = completed_at if least > _TOLERANCE else created_at
            self.is_off = True
            self.our_first, self.our_last = min(nearest, self.our_first), max(nearest, self.our_last)

    def common_shift(self) -> timedelta | None:
        """The clock offset common to all lines, to half an hour, positive for dates too late; None if there is none."""
        if not self.is_off:
            return None
        least, most = self._least - _TOLERANCE, self._most + _TOLERANCE
        nearest = round((least + most) / 2 / _STEP) * _STEP
        return nearest if least <= nearest <= most and nearest != _NONE and not least <= _NONE <= most else None


class StatementReader:
    """Reads one statement, line by line, or refuses it whole. Every refusal is a SpreadsheetError.

    The file is read twice: first for its conventions, then for its lines, so that a refusal may come after some lines.
    `dates` are those of the lines so far. `stated` is the period that the titles state.
    """

    def __init__(
        self,
        known: StatementFormat,
        currency: str,
        layouts: Layouts,
        columns: Mapping[str, str] | None = None,
        said: FileConventions | None = None,
        direction: StatedDirection = NOT_STATED,
        kept_directions: Mapping[tuple[str, ...], StatedDirection] | None = None,
    ) -> None:
        """`currency` is that of the provider; a statement in another one is refused.

        `layouts` and `kept_directions` are what operators kept, by headings; `columns`, `said` and `direction` what an
        operator says of this file alone.
        """
        self.table = StatementTable(known, layouts, columns)
        self._text = self.table.text
        self._known = known
        self._currency = currency
        self._said = said or FileConventions()
        self._conventions = self._said
        self._said_direction, self._kept_directions = direction, kept_directions or {}
        self._direction = direction
        self.dates = StatementDates()
        self.stated = StatedPeriod(known.zone)
        self._resolution = timedelta(0)
        self._sum_cents = 0
        self.count = 0

    def lines(self, source: BinaryIO) -> Iterator[ProviderLine]:
        """Yield every line. Titles above the headings and totals below the lines are left out."""
        self._conventions = learn_conventions(self.table, source, self._said)
        self.stated.read(self.table.titles)
        if self._said_direction == NOT_STATED and self.table.headings.is_by_layout:
            self._direction = self._kept_directions.get(headings_key(self.table.headings.cells), NOT_STATED)
        for row in self.table.rows(source):
            line = self._line(row)
            if line is not None:
                self.count += 1
                yield line
        if not self.count:
            raise SpreadsheetError("The statement has headings and no payments.")
        self.period()

    def period(self) -> Period:
        if self.dates.last - self.dates.first > _LONGEST_PERIOD:
            raise SpreadsheetError(
                f"The dates of the statement lie more than {_LONGEST_PERIOD.days} days apart; perhaps one is wrong."
            )
        # A date without seconds stands for the whole minute.
        return Period(self.dates.first, self.dates.last + self._resolution)

    def proven_period(self) -> Period:
        """The period, extended by our times of payments that the statement dates elsewhere, so that it hides nothing.

        Refuses a statement whose dates are all off by the same hours. Call after every line was matched.
        """
        period, dates = self.period(), self.dates
        if self._resolution >= _DAY:
            return period
        if common := dates.common_shift():
            hours, way = abs(common) / _HOUR, "later" if common > timedelta(0) else "earlier"
            raise SpreadsheetError(
                f"The dates of the statement are {hours:g} hour{'' if hours == 1 else 's'} {way} than our times of the "
                "payments that match; name the time zone of its dates in USSD_STATEMENT_HEADINGS."
            )
        return Period(min(period.first, dates.our_first), max(period.last, dates.our_last))

    def _line(self, row: Row) -> ProviderLine | None:
        provider_id, reference = self._id(row, StatementField.ID), self._id(row, StatementField.REFERENCE)
        dated, status = self._text(row, StatementField.DATE), self._text(row, StatementField.STATUS)
        kind = self._type(row)
        amount = self._amount(row, kind)
        if amount is None:
            # Opening and closing balances have a date and no amount.
            if not provider_id and not reference:
                return None
            self._refuse(row, MONEY[0], "the amount is missing.")
        cents, direction = amount
        self._sum_cents += cents
        if self._sum_cents > _LARGEST_SUM_CENTS:
            self._refuse(row, MONEY[0], f"the amounts add up to more than {grouped(_LARGEST_SUM_CENTS)}.")
        return ProviderLine(
            line=row.line,
            provider_id=provider_id,
            reference=reference,
            status=self._status(row, status),
            type=kind,
            amount_cents=cents,
            direction=direction,
            balance_cents=self._cents(row, StatementField.BALANCE),
            fee_cents=abs(self._cents(row, StatementField.FEE) or 0),
            tax_cents=abs(self._cents(row, StatementField.TAX) or 0),
            at=self._date(row, dated),
            dated=dated[:_LONGEST_TEXT],
            party=self._party(row, is_to_us=direction > 0),
        )

    def _id(self, row: Row, field: StatementField) -> str:
        text = self._text(row, field)
        # Payers type references, such as `#5`.
        if is_changed(text) if field is StatementField.ID else is_shortened(text):
            sentence = f"a spreadsheet changed the number to {text[:32]}; use the file as it was downloaded."
            self._refuse(row, field, sentence)
        if '"' in text:
            self._refuse(row, field, "a quotation mark stands within the cell.")
        return text

    def _date(self, row: Row, dated: str) -> datetime:
        if not dated:
            self._refuse(row, StatementField.DATE, "the date is missing.")
        date = read_date(dated, self._known.zone)
        if date is None:
            self._refuse(row, StatementField.DATE, f"the date {dated[:40]!r} cannot be read.")
        moment = date.month_first if self._conventions.order is DateOrder.MONTH_FIRST else date.day_first
        if moment is None:
            self._refuse(row, StatementField.DATE, no_such_order(self._conventions))
        self._resolution = max(self._resolution, date.resolution)
        self.dates.note(moment)
        return moment

    def _amount(self, row: Row, kind: LineType | None) -> tuple[int, int] | None:
        """The cents and the direction of a line, which may have an amount, a credit or a debit; None without any."""
        amount = self._money(row, StatementField.AMOUNT)
        sides = [
            (field, side)
            for field in (StatementField.CREDIT, StatementField.DEBIT)
            if (side := self._money(row, field)) and side.cents
        ]
        if len(sides) > 1:
            self._refuse(row, StatementField.DEBIT, "the row has a credit and a debit.")
        direction = self._direction_of_sign(amount)
        cents = abs(amount.cents) if amount else 0
        for field, side in sides:
            its_direction = self._direction_of_side(row, field, side)
            if amount and (abs(side.cents) != cents or -direction == its_direction):
                self._refuse(row, field, "the row has another amount beside it.")
            cents, direction = abs(side.cents), its_direction
        if not amount and not sides:
            return None
        direction = self._stated_direction(row, kind, self._direction_of_word(row, direction))
        if not direction and kind is not LineType.REVERSAL:
            direction = self._direction_of_kind(row, kind) if cents else _DIRECTIONS.get(kind, 0)
        if amount and amount.is_signed and direction > 0 and not self._has_signs and _DIRECTIONS.get(kind, 1) < 0:
            self._refuse(row, StatementField.AMOUNT, "the plus says that the money came in, and the type that it left.")
        return cents, direction

    @property
    def _has_signs(self) -> bool:
        return StatementField.AMOUNT in self._conventions.negative

    def _direction_of_sign(self, amount: CellAmount | None) -> int:
        if amount is None or not amount.cents:
            return 0
        if amount.is_signed or self._has_signs:
            return -1 if amount.cents < 0 else 1
        return 0

    def _direction_of_side(self, row: Row, field: StatementField, side: CellAmount) -> int:
        if field is StatementField.CREDIT and side.cents > 0:
            return 1
        # Some exports write every debit with a minus.
        if field is StatementField.CREDIT or (side.cents < 0) != (field in self._conventions.negative):
            self._refuse(row, field, f"the sign of the {field} has two readings.")
        return -1

    def _direction_of_word(self, row: Row, direction: int) -> int:
        """The direction of the word Credit or Debit; without one that of the amount."""
        text = self._text(row, StatementField.SIDE)
        said = _SIDES.get(self._known.types.get(heading_key(text)), direction)
        if said == -direction != 0:
            self._refuse(row, StatementField.SIDE, f"the side {text[:40]!r} contradicts the amount.")
        return said

    def _stated_direction(self, row: Row, kind: LineType | None, direction: int) -> int:
        """The direction that an operator stated for the line; where nothing is stated, the one that the line shows."""
        if self._direction == NOT_STATED:
            return direction
        sender, receiver = self._text(row, StatementField.SENDER), self._text(row, StatementField.RECEIVER)
        try:
            stated = self._direction.of(sender, receiver)
        except ValueError as problem:
            self._refuse(row, StatementField.SENDER, str(problem))
        if -stated in (direction, _DIRECTIONS.get(kind)):
            self._refuse(row, MONEY[0], "the line shows another direction than is said of the file.")
        return stated

    def _direction_of_kind(self, row: Row, kind: LineType | None) -> int:
        if kind is None:
            text = self._text(row, StatementField.TYPE)
            named = f"the type {text[:40]!r} is not known" if text else "the type is missing"
            self._refuse(
                row,
                StatementField.TYPE,
                f"{named}, and nothing else shows whether the money came in or went out; say --all-in or --our-number.",
            )
        return _DIRECTIONS[kind]

    def _money(self, row: Row, field: StatementField) -> CellAmount | None:
        """The amount of a column in the conventions of the file; None for an empty cell."""
        amount = self._amount_in(row, field, "amount")
        if amount is None:
            return None
        self._check_currency(row, field, amount.currency)
        self._check_currency(row, StatementField.CURRENCY, self._text(row, StatementField.CURRENCY) or None)
        check_thousands(self.table, row, field, amount, self._conventions)
        return amount

    def _cents(self, row: Row, field: StatementField) -> int | None:
        """The signed amount of a column that not every line has."""
        amount = self._amount_in(row, field, field)
        return None if amount is None else amount.cents

    def _amount_in(self, row: Row, field: StatementField, title: str) -> CellAmount | None:
        text = self._text(row, field)
        if text in ("", "-"):
            return None
        amount = read_amount(text)
        if amount is None:
            self._refuse(row, field, f"the {title} {text[:40]!r} cannot be read.")
        return amount

    def _check_currency(self, row: Row, field: StatementField, currency: str | None) -> None:
        if currency is not None and currency.upper() != self._currency:
            self._refuse(row, field, f"the currency is {currency[:10]!r}, and not {self._currency}.")

    def _status(self, row: Row, text: str) -> LineStatus:
        # A statement without a column of statuses lists what succeeded.
        if StatementField.STATUS not in self.table.headings.columns:
            return LineStatus.SUCCEEDED
        status = self._known.statuses.get(heading_key(text))
        if status is None:
            self._refuse(row, StatementField.STATUS, f"the status {text[:40]!r} is not known.")
        return status

    def _type(self, row: Row) -> LineType | None:
        key = heading_key(self._text(row, StatementField.TYPE))
        if key in self._known.types or len(key) < _SHORTEST_CUT:
            return self._known.types.get(key)
        kinds = {kind for text, kind in self._known.types.items() if text.startswith(key)}
        return kinds.pop() if len(kinds) == 1 else None

    def _party(self, row: Row, *, is_to_us: bool) -> str:
        sender, receiver = self._text(row, StatementField.SENDER), self._text(row, StatementField.RECEIVER)
        texts = (sender, receiver) if is_to_us else (receiver, sender)
        return next(filter(None, map(phone_number_in, texts)), texts[0][:_LONGEST_TEXT])

    def _refuse(self, row: Row, field: StatementField, sentence: str) -> NoReturn:
        self.table.refuse(row, field, sentence)
