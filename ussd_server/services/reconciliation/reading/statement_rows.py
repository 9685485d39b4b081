"""Finds the table in a statement, and refuses rows whose cells may have moved, before a cell is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import BinaryIO, NoReturn

from ussd_server.providers.statement_format import StatementField, StatementFormat
from ussd_server.spreadsheets.dates import read_date
from ussd_server.spreadsheets.headings import Headings, Names, find_columns, heading_key
from ussd_server.spreadsheets.reader import is_workbook, read_rows
from ussd_server.spreadsheets.rows import Row, SpreadsheetError

Layouts = Mapping[tuple[str, ...], Names]
"""Layouts that operators stated, by the key of the headings."""

_REQUIRED = (
    (StatementField.ID, StatementField.REFERENCE),
    (StatementField.DATE,),
    (StatementField.AMOUNT, StatementField.CREDIT, StatementField.DEBIT),
)
_SINGLE = (StatementField.STATUS, StatementField.TYPE, StatementField.CURRENCY)
# A cut in another column changes neither the payment nor its amount.
_CUT_MATTERS = {
    StatementField.ID, StatementField.REFERENCE, StatementField.DATE, StatementField.TYPE, StatementField.AMOUNT,
    StatementField.CREDIT, StatementField.DEBIT,
}  # fmt: skip

# A total or a footer fills fewer cells.
_FEWEST_CELLS = 4


class StatementTable:
    """The table of a statement: its headings, the rows above them (`titles`), and the rows that are lines.

    Titles above the headings, repeated headings and rows with neither an id nor a date are no lines. Rows of a workbook
    (`is_workbook`) may end early.
    """

    def __init__(self, known: StatementFormat, layouts: Layouts, columns: Mapping[str, str] | None = None) -> None:
        """`columns` are headings by field, instead of all known headings."""
        self.known = known
        self._layouts = {} if columns else layouts
        self._names: Names = {field.value: names for field, names in known.headings.items()}
        self._required: Sequence[Sequence[str]] = _REQUIRED
        if columns:
            self._names = {field: (heading,) for field, heading in columns.items()}
            self._required = [(field,) for field in columns]
        self.headings = Headings({}, 0, ())
        self.titles: list[Row] = []
        self.is_workbook = False

    def rows(self, source: BinaryIO, on_other: Callable[[Row], object] = lambda _: None) -> Iterator[Row]:
        """Yield the rows of all lines, from the beginning of the file. Raises SpreadsheetError, possibly after some.

        `on_other` is called with the other rows below the headings, such as totals.
        """
        self.is_workbook = is_workbook(source)
        rows = read_rows(source)
        above = self.titles = []
        self.headings = find_columns(_noted(rows, above), self._names, self._required, self._layouts)
        self._check_above(above)
        first: Row | None = None
        for row in rows:
            if not self._is_line(row):
                on_other(row)
                continue
            if any(row.cells[self.headings.width :]):
                self._refuse_length(row)
            first = first or row
            # Empty cells beyond the headings are there in every line or in none.
            if self._is_longer(row) != self._is_longer(first):
                self.refuse(row, None, f"the row has {len(row.cells)} cells, and row {first.line} {len(first.cells)}.")
            yield row

    def text(self, row: Row, field: StatementField) -> str:
        """The text of a field, empty where the row or the table has none."""
        # Called some twenty times for each line, so it does without `row.cell`.
        column, cells = self.headings.columns.get(field), row.cells
        if column is None or column >= len(cells):
            return ""
        # Spreadsheet programs put an apostrophe before a number that is text.
        return cells[column].removeprefix("'")

    def refuse(self, row: Row, field: StatementField | None, sentence: str) -> NoReturn:
        """Raise SpreadsheetError, which names the row and the column of the field."""
        raise SpreadsheetError(sentence, line=row.line, column=self.headings.columns.get(field) if field else None)

    def _check_above(self, above: list[Row]) -> None:
        """Refuse a file whose headings are there twice, or that has a line above them."""
        keys = [heading_key(cell) for cell in self.headings.cells]
        for field in _SINGLE:
            column = self.headings.columns.get(field)
            if column is not None and keys.count(keys[column]) > 1:
                heading = self.headings.cells[column]
                raise SpreadsheetError(f"the heading {heading} is there twice.", line=above[-1].line, column=column)
        column = self.headings.columns[StatementField.DATE]
        for row in above:
            for index in row.broken:
                if any(map(str.isdigit, row.cells[index])):
                    self._refuse_break(row, index)
            if self._is_date(row.cell(column)) and len(row.cells) >= self.headings.width:
                self.refuse(row, None, "the row is above the headings.")

    def _is_line(self, row: Row) -> bool:
        first, dated = row.cells[0], self.text(row, StatementField.DATE)
        column = self.headings.columns[StatementField.DATE]
        for index in row.broken:
            if index != column:
                self._refuse_break(row, index)
        if dated[:1].isalpha() and heading_key(dated) == heading_key(self.headings.cells[column]):
            return False
        is_short = len(row.cells) < self.headings.width and not self.is_workbook
        if is_short and len(row.cells) == 1 and any(map(str.isdigit, first)):
            self.refuse(row, None, "the row has no separator; perhaps it has another one than the rows above.")
        if not self._names_payment(row) and not any(map(str.isdigit, dated)):
            if is_short and first.isdigit():
                self._refuse_length(row)
            if len(list(filter(None, row.cells))) >= _FEWEST_CELLS:
                if any(row.cells[self.headings.width :]):
                    self._refuse_length(row)
                if any(map(self._is_date, row.cells)):
                    self.refuse(row, StatementField.DATE, "the row has a date in another column; its cells have moved.")
            return False
        if is_short:
            self._refuse_length(row)
        if not row.is_whole and _CUT_MATTERS.intersection(self._fields_at(len(row.cells) - 1)):
            self.refuse(row, None, "the last line does not end, so it may be cut; use the file as it was downloaded.")
        return True

    def _is_date(self, text: str) -> bool:
        return read_date(text, self.known.zone) is not None

    def _names_payment(self, row: Row) -> bool:
        """Whether a row has an id, which a word such as Total is not, or a status."""
        provider_id = self.text(row, StatementField.ID)
        if any(map(str.isdigit, provider_id)) or (not provider_id and self.text(row, StatementField.REFERENCE)):
            return True
        return heading_key(self.text(row, StatementField.STATUS)) in self.known.statuses

    def _fields_at(self, column: int) -> set[StatementField]:
        return {StatementField(field) for field, index in self.headings.columns.items() if index == column}

    def _is_longer(self, row: Row) -> bool:
        return len(row.cells) > self.headings.width

    def _refuse_length(self, row: Row) -> NoReturn:
        self.refuse(row, None, f"the row has {len(row.cells)} cells, and {self.headings.width} headings.")

    def _refuse_break(self, row: Row, column: int) -> NoReturn:
        sentence = "the cell has more than one line; perhaps a quotation mark is missing or too many."
        raise SpreadsheetError(sentence, line=row.line, column=column)


def lacks_columns(fields: Collection[str]) -> bool:
    """Whether a table with columns of these fields alone has too few to be read."""
    return any(not set(fields).intersection(choice) for choice in _REQUIRED)


def _noted(rows: Iterator[Row], above: list[Row]) -> Iterator[Row]:
    for row in rows:
        above.append(row)
        yield row
