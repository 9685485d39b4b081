"""How one file writes dates and amounts: learned from all its lines, before any of them is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import BinaryIO, NoReturn

from ussd_server.providers.statement_format import DateOrder, StatementField, Thousands
from ussd_server.services.reconciliation.reading.cell_values import CellAmount, read_amount
from ussd_server.services.reconciliation.reading.statement_rows import StatementTable
from ussd_server.spreadsheets.dates import CellDate, may_have_two_readings, read_date
from ussd_server.spreadsheets.rows import Row

MONEY = (StatementField.AMOUNT, StatementField.CREDIT, StatementField.DEBIT)
"""The columns of which one or two hold the amount of a line."""

# What is read of a cell that holds a date.
_DATE_CELL = re.compile(r"[0-9]{4}-(?P<month>[0-9]{2})-(?P<day>[0-9]{2}) ")
_AMOUNTS = (*MONEY, StatementField.FEE, StatementField.TAX, StatementField.BALANCE)


@dataclass(slots=True)
class FileConventions:
    """How a file writes dates and amounts; what an operator said comes before what its lines show.

    `order` and `thousands` are None where the file shows neither, and needs neither: none of its dates or amounts has
    two readings. `order_of` and `thousands_of` are the rows that show them, 0 for what an operator said. `negative`
    are the columns of money with a negative number.
    """

    order: DateOrder | None = None
    thousands: Thousands | None = None
    order_of: int = 0
    thousands_of: int = 0
    negative: frozenset[StatementField] = frozenset()


def learn_conventions(table: StatementTable, source: BinaryIO, said: FileConventions) -> FileConventions:
    """Read a whole file, and return its conventions. `said` are those that an operator named.

    Raises SpreadsheetError for a file whose rows cannot be trusted, and for a date or an amount with two readings where
    nothing in the file settles which is meant.
    """
    lines = _Lines(table, said)
    for row in table.rows(source, lines.take_total):
        lines.take(row)
    return lines.conventions()


class _Lines:
    """The conventions that the lines of a file show, line by line."""

    def __init__(self, table: StatementTable, said: FileConventions) -> None:
        self._table = table
        self._found = FileConventions(said.order, said.thousands)
        self._negative: set[StatementField] = set()
        self._doubtful_date: tuple[Row, CellDate] | None = None
        self._typed_date: Row | None = None
        self._exchanged_date: Row | None = None
        self._doubtful_amount: tuple[Row, StatementField] | None = None
        self._above: tuple[CellAmount | None, CellAmount | None] = (None, None)

    def take(self, row: Row) -> None:
        """Learn from one line."""
        if self._found.order is None or self._table.is_workbook:
            self._take_date(row)
        if self._found.thousands is not None:
            # Only signs are left to learn.
            for field in MONEY:
                self._amount(row, field)
            return
        amounts = {field: self._amount(row, field) for field in _AMOUNTS}
        money = [amount for field in MONEY if (amount := amounts[field])]
        amount, balance = money[0] if money else None, amounts[StatementField.BALANCE]
        if self._found.thousands is None:
            self._take_balance(row, amount, balance)
        self._above = amount, balance

    def take_total(self, row: Row) -> None:
        """Learn from a row that is no line, such as a total."""
        for field in _AMOUNTS:
            self._show_thousands(row, read_amount(self._table.text(row, field)))

    def conventions(self) -> FileConventions:
        """The conventions that all lines show together."""
        found = self._found
        if self._typed_date and self._exchanged_date:
            self._refuse_exchange(self._typed_date, self._exchanged_date)
        if found.order is None and self._doubtful_date:
            self._refuse_date(*self._doubtful_date)
        if found.thousands is None and self._doubtful_amount:
            self._refuse_amount(*self._doubtful_amount)
        found.negative = frozenset(self._negative)
        return found

    def _take_date(self, row: Row) -> None:
        text = self._table.text(row, StatementField.DATE)
        if not may_have_two_readings(text):
            if self._table.is_workbook and _can_be_exchanged(text):
                self._exchanged_date = self._exchanged_date or row
            return
        self._typed_date = self._typed_date or row
        date = read_date(text, self._table.known.zone) if self._found.order is None else None
        if date is None or date.day_first == date.month_first:
            return
        if date.has_two_readings:
            self._doubtful_date = self._doubtful_date or (row, date)
        else:
            self._found.order = DateOrder.DAY_FIRST if date.day_first else DateOrder.MONTH_FIRST
            self._found.order_of = row.line

    def _amount(self, row: Row, field: StatementField) -> CellAmount | None:
        text = self._table.text(row, field)
        amount = read_amount(text) if text else None
        if amount is None:
            return None
        if amount.cents < 0:
            self._negative.add(field)
        if amount.doubtful and field in MONEY:
            self._doubtful_amount = self._doubtful_amount or (row, field)
        self._show_thousands(row, amount)
        return amount

    def _show_thousands(self, row: Row, amount: CellAmount | None) -> None:
        if amount is not None and amount.shows and self._found.thousands is None:
            self._found.thousands, self._found.thousands_of = amount.shows, row.line

    def _take_balance(self, row: Row, amount: CellAmount | None, balance: CellAmount | None) -> None:
        """A balance that changes by an amount settles how the amount is read, with the newest line last or first."""
        amount_above, balance_above = self._above
        if balance is None or balance_above is None or balance.doubtful or balance_above.doubtful:
            return
        step = abs(balance.cents - balance_above.cents)
        for each in (amount, amount_above):
            if each is not None and each.doubtful and abs(each.cents) == step:
                self._found.thousands, self._found.thousands_of = each.doubtful, row.line

    def _refuse_date(self, row: Row, date: CellDate) -> NoReturn:
        zone = self._table.known.zone
        readings = [f"{moment.astimezone(zone):%-d %B %Y}" for moment in (date.day_first, date.month_first) if moment]
        text = self._table.text(row, StatementField.DATE)
        self._table.refuse(
            row,
            StatementField.DATE,
            f"the date {text[:40]} is {' or '.join(readings)}, and no date of the file shows which; say "
            f"--dates {DateOrder.DAY_FIRST} or --dates {DateOrder.MONTH_FIRST}.",
        )

    def _refuse_exchange(self, typed: Row, exchanged: Row) -> NoReturn:
        """A spreadsheet that expects the month first makes dates of the texts it can, and leaves 20/11/2026 a text."""
        date, text = (self._table.text(row, StatementField.DATE) for row in (exchanged, typed))
        self._table.refuse(
            exchanged,
            StatementField.DATE,
            f"the spreadsheet may have exchanged day and month of {date[:40]}, because row {typed.line} has "
            f"{text[:40]}; use the file as it was downloaded.",
        )

    def _refuse_amount(self, row: Row, field: StatementField) -> NoReturn:
        text = self._table.text(row, field)
        self._table.refuse(
            row,
            field,
            f"the amount {text[:40]} has two readings, and no other amount of the file shows whether its "
            "separator is one of thousands; say --thousands comma or --thousands dot.",
        )


def _can_be_exchanged(text: str) -> bool:
    """Whether a text is a date of a spreadsheet's own that is another date with day and month exchanged."""
    found = _DATE_CELL.match(text)
    return found is not None and found["day"] != found["month"] and int(found["day"]) <= 12


def check_thousands(
    table: StatementTable, row: Row, field: StatementField, amount: CellAmount, conventions: FileConventions
) -> None:
    """Refuse an amount that a file with these conventions cannot have."""
    if not amount.agrees_with(conventions.thousands):
        shown = f"in row {conventions.thousands_of}" if conventions.thousands_of else "--thousands says"
        sentence = f"the amount {table.text(row, field)[:40]} separates thousands otherwise than {shown}."
        table.refuse(row, field, sentence)


def no_such_order(conventions: FileConventions) -> str:
    """The sentence for a date that is possible only in the other order of day and month."""
    shown = f"in row {conventions.order_of}" if conventions.order_of else "--dates says"
    return f"day and month stand in another order than {shown}."
