"""Rows of a payout in JSON, or in a CSV or XLSX file as people write them: their values and their problems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from io import BytesIO
from itertools import islice
from typing import Any

from ussd_server.services.payouts.messages import FIELDS, LARGEST_FILE_BYTES, MOST_ITEMS, RESULT_COLUMNS
from ussd_server.spreadsheets.headings import Headings, find_columns, heading_key
from ussd_server.spreadsheets.reader import read_rows
from ussd_server.spreadsheets.rows import FileBounds, Row, SpreadsheetError
from ussd_server.values import PHONE_NUMBER, cents_of, mark_in, phone_number, without_marks

_LONGEST = {"reference": 64, "description": 200, "name": 100}
# How many characters of an invalid cell are kept, so that its sender recognises it.
_LONGEST_KEPT = 64
# How many further columns of a file are kept, and how much of each cell.
_MOST_FURTHER, _LONGEST_FURTHER = 10, 100
_KEYS_OF_RESULTS = frozenset(map(heading_key, RESULT_COLUMNS))

PHONE_NUMBER_PROBLEM = "phone_number: Must be +256 followed by nine digits."
METADATA_PROBLEM = "metadata: Must be an object of at most 10 texts of at most 100 characters."
AMOUNT_PROBLEM = "amount: Must be greater than 0 and less than 1000000, with at most two decimals."

_BOUNDS = FileBounds(
    most_bytes=LARGEST_FILE_BYTES,
    most_unpacked_bytes=64 * 1024 * 1024,
    # Three times what 5,000 rows with six cells take: one element for each row, three for each cell.
    most_elements=300_000,
    most_columns=64,
    most_cell_characters=1000,
    # As many as the largest CSV file has.
    most_characters=LARGEST_FILE_BYTES,
)
_HEADINGS = {
    "phone_number": ("phone_number", "phone", "msisdn", "mobile", "mobile number", "number", "telephone"),
    "amount": ("amount", "amount ugx", "sum", "net pay"),
    "reference": ("reference", "ref", "row reference", "id"),
    "description": ("description", "narration", "reason", "note"),
    "name": ("name", "full name", "account name", "beneficiary", "payee"),
    "currency": ("currency",),
}
_REQUIRED = (("phone_number",), ("amount",), ("reference",))

_DROPPED_FROM_NUMBERS = str.maketrans("", "", " -()")
_WITHOUT_ZERO = re.compile(r"[1-9][0-9]{8}", re.ASCII)
_ZEROS_BEFORE_COUNTRY = re.compile("00(?=256)")
_SHORTENED = re.compile(r"[0-9]+([.,][0-9]+)?[eE]\+?[0-9]+")
_WITH_THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_WITH_DECIMALS = re.compile(r"\+?[0-9]+\.[0-9]+")
_NUMBER_CHARACTERS = re.compile(r"[-+0-9.,]*")
_DECIMAL_COMMA = re.compile(r"[0-9]+([. ][0-9]{3})*,[0-9]{1,2}")
_FIRST_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}")
_FURTHER_THOUSANDS = re.compile(r"[0-9]{3}(\.[0-9]+)?")
_QUOTED_FORMULA = re.compile(r"'[=+\-@\t\r\n＝＋－＠]")

_CELL_WITHOUT_HEADING = "The row has a cell that has no heading; perhaps an amount has a comma without quotation marks."


@dataclass(slots=True)
class PayoutRow:
    """One row: its place, its values where they are valid, and what is wrong with it, in sentences.

    `metadata` are further columns of its file, by their headings. `sent` is a row with problems as it was sent, where
    its values do not show all of it.
    """

    line: int
    phone_number: str | None = None
    amount_cents: int | None = None
    amount_text: str | None = None
    reference: str | None = None
    description: str | None = None
    name: str | None = None
    provider: str | None = None
    fee_cents: int | None = None
    problems: list[str] = field(default_factory=list)
    metadata: dict[str, str] | None = None
    sent: Any = None

    @property
    def is_ready(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.problems

    @property
    def content(self) -> tuple[Any, ...]:
        """The values that distinguish this row from another one."""
        values = (self.line, self.phone_number, self.amount_cents, self.reference, self.description, self.name)
        further = [each for each in (self.metadata, self.sent) if each is not None]
        return (*values, *further)


def row_of(line: int, values: Mapping[str, Any]) -> PayoutRow:
    """A row of values as JSON has them; nothing is trimmed or rewritten."""
    row = PayoutRow(line)
    number, amount = values.get("phone_number"), values.get("amount")
    row.phone_number = _kept(number)
    if not isinstance(number, str) or not PHONE_NUMBER.fullmatch(number):
        mark = mark_in(number[:_LONGEST_KEPT]) if isinstance(number, str) else None
        named = f"{PHONE_NUMBER_PROBLEM[:-1]}; it has the character {mark}."
        row.problems.append(named if mark else PHONE_NUMBER_PROBLEM)
    row.amount_cents = cents_of(amount)
    if row.amount_cents is None:
        row.problems.append(AMOUNT_PROBLEM)
        row.amount_text = _kept(str(amount) if isinstance(amount, str | int | float | Decimal) else None)
    for name, longest in _LONGEST.items():
        value = values.get(name)
        setattr(row, name, _kept(value, longest))
        if value is None or value == "" or (name == "reference" and str(value).isspace()):
            if name == "reference":
                row.problems.append("reference: Missing.")
        elif not isinstance(value, str) or len(value) > longest:
            row.problems.append(f"{name}: Must be text of at most {longest} characters.")
        elif any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
            row.problems.append(f"{name}: Must not contain line breaks or control characters.")
    row.metadata = values.get("metadata")
    if row.metadata is not None and not _is_metadata(row.metadata):
        row.metadata = None
        row.problems.append(METADATA_PROBLEM)
    if row.problems:
        row.sent = dict(values)
    return row


def _is_metadata(value: object) -> bool:
    """Whether a value is what the further columns of a file would be."""
    return (
        isinstance(value, dict)
        and 0 < len(value) <= _MOST_FURTHER
        and all(
            isinstance(each, str) and len(each) <= _LONGEST_FURTHER and each.isprintable()
            for pair in value.items()
            for each in pair
        )
    )


def read_file(file: bytes) -> list[PayoutRow]:
    """The rows of a file, each with the problems of its cells.

    Raises INVALID_REQUEST with one sentence, which names row and column, for a file that cannot be read, lacks a
    column, or has no row or more than 5,000.
    """
    rows = read_rows(BytesIO(file), _BOUNDS)
    headings = find_columns(rows, _HEADINGS, _REQUIRED)
    found = [_read(row, headings) for row in islice(rows, MOST_ITEMS + 1)]
    if not found:
        raise SpreadsheetError("The file has no row below its headings.")
    if len(found) > MOST_ITEMS:
        raise SpreadsheetError(f"The file has more than {MOST_ITEMS:,} rows; divide it.")
    return found


def corrected_row(line: int, fields: Mapping[str, str]) -> PayoutRow:
    """A row whose fields were typed anew, read as the cells of a file."""
    row = Row(line, tuple(fields[name] for name in FIELDS))
    read = _read_cells(row, Headings({name: column for column, name in enumerate(FIELDS)}, len(FIELDS)))
    if read.problems:
        read.sent = row.cells
    return read


def _kept(value: object, longest: int = _LONGEST_KEPT) -> str | None:
    return value[:longest] if isinstance(value, str) and value else None


def _read(row: Row, headings: Headings) -> PayoutRow:
    item = _read_cells(row, headings)
    item.metadata = _further(row, headings)
    if item.is_ready and (whole := _cut_amount(row, headings)) is not None:
        item.problems.append(
            f"amount: {whole.replace(',', ' and ')} side by side look like {whole}, cut at its comma; "
            "put it in quotation marks, or write .00 behind a small amount."
        )
    if item.problems:
        item.sent = row.cells
    return item


def _further(row: Row, headings: Headings) -> dict[str, str] | None:
    """The cells of columns that payouts do not know, by their headings; those of the result file are left out."""
    known = set(headings.columns.values())
    further = [
        (heading, column)
        for column, heading in enumerate(headings.cells)
        if heading and column not in known and heading_key(heading) not in _KEYS_OF_RESULTS
    ]
    cells = {heading[:_LONGEST_FURTHER]: row.cell(column) for heading, column in reversed(further[:_MOST_FURTHER])}
    return {name: _text(text)[:_LONGEST_FURTHER] for name, text in reversed(cells.items()) if text} or None


def _cut_amount(row: Row, headings: Headings) -> str | None:
    """The amount with its comma, where a row would also be valid if the amount and the next cell were one amount.

    Only for an amount of up to three digits, and a cell of three digits after it: with a second comma it would be too
    large.
    """
    column = headings.columns["amount"]
    first, further = without_marks(row.cell(column)), without_marks(row.cell(column + 1))
    if not _FIRST_THOUSANDS.fullmatch(first) or not _FURTHER_THOUSANDS.fullmatch(further):
        return None
    whole = f"{first},{further}"
    joined = Row(row.line, (*row.cells[:column], whole, *row.cells[column + 2 :]))
    return whole if _read_cells(joined, headings).is_ready else None


def _read_cells(row: Row, headings: Headings) -> PayoutRow:
    cells = {name: row.cell(index) for name, index in headings.columns.items()}
    number, number_problem = _number(cells["phone_number"])
    amount, amount_problem = _amount(cells["amount"])
    values = {name: _text(cells.get(name, "")) for name in ("reference", "description", "name")}
    item = row_of(row.line, values | {"phone_number": number, "amount": amount})
    for problem in (number_problem, amount_problem):
        if problem:
            # More helpful than the sentence of the field, because it names the cause.
            name = problem.partition(":")[0]
            item.problems = [each for each in item.problems if not each.startswith(f"{name}:")] + [problem]
    if any(row.cells[headings.width :]):
        # The cells may be shifted, so the other values of the row mean nothing.
        item.problems = [_CELL_WITHOUT_HEADING]
    if cells.get("currency", "UGX").upper() not in ("UGX", ""):
        item.problems.append("currency: Must be UGX.")
    return item


def _number(cell: str) -> tuple[str, str | None]:
    """A phone number as +256 and nine digits where the cell means one; else the cell, and the problem if it is known.

    Drops spaces, hyphens, brackets, marks without a glyph and a leading apostrophe.
    """
    if problem := _problem_of(cell):
        return cell, f"phone_number: {problem}"
    plain = without_marks(cell, spaces_too=True).removeprefix("'").translate(_DROPPED_FROM_NUMBERS)
    if _WITH_DECIMALS.fullmatch(plain):
        return cell, "phone_number: Has decimals; format the column as text, enter the number again and save."
    if _SHORTENED.fullmatch(plain):
        return cell, (
            f"phone_number: The spreadsheet shortened the number to {cell}; "
            "format the column as text, enter the number again and save."
        )
    typed = f"0{plain}" if _WITHOUT_ZERO.fullmatch(plain) else plain
    if _ZEROS_BEFORE_COUNTRY.match(typed):
        typed = typed[2:]
    return phone_number(typed) or cell, None


def _amount(cell: str) -> tuple[str, str | None]:
    """An amount without thousands commas, spaces around it, marks without a glyph and a leading apostrophe, and the
    problem if it is known.
    """
    cell = without_marks(cell)
    if problem := _problem_of(cell):
        return cell, f"amount: {problem}"
    plain = cell.removeprefix("'").strip()
    if _WITH_THOUSANDS.fullmatch(plain):
        return plain.replace(",", ""), None
    if _DECIMAL_COMMA.fullmatch(plain):
        return plain, "amount: Has a comma before its decimals; write 5000 or 5000.50."
    if not _NUMBER_CHARACTERS.fullmatch(plain):
        return plain, "amount: Must be a number alone, such as 5000."
    return plain, None


def _problem_of(cell: str) -> str | None:
    """The problem of a cell that needs a value."""
    if not cell:
        return "Missing."
    if len(cell) > _LONGEST_KEPT:
        return "Is too long."
    return "Holds a formula; enter its value." if cell.startswith("=") else None


def _text(cell: str) -> str:
    """The text of a cell, without the apostrophe that keeps spreadsheet programs from taking it for a formula."""
    return cell[1:] if _QUOTED_FORMULA.match(cell) else cell
