"""The file of settlements for the bank: written when they are proposed, read when the bank has paid them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import islice
from typing import BinaryIO

from ussd_server.services.bank.messages import LARGEST_FILE_BYTES, DueSettlement, SettlementLine
from ussd_server.spreadsheets.changed import is_changed
from ussd_server.spreadsheets.delimited import csv_parts, neutralised, shillings_cell
from ussd_server.spreadsheets.headings import Headings, find_columns
from ussd_server.spreadsheets.reader import read_rows
from ussd_server.spreadsheets.rows import FileBounds, Row
from ussd_server.status import Code, ServiceError
from ussd_server.values import canonical_receipt, cents_of, is_id

_COLUMNS = (
    "settlement_id", "client_id", "client", "bank", "number", "name", "amount", "currency", "bank_reference",
)  # fmt: skip

_MOST_LINES = 5000
_BELOW = Decimal(10) ** 13
_LONGEST_REFERENCE = 59
_BOUNDS = FileBounds(
    most_bytes=LARGEST_FILE_BYTES,
    most_unpacked_bytes=16 * LARGEST_FILE_BYTES,
    most_elements=200_000,
    most_columns=32,
    most_cell_characters=1000,
    most_characters=4 * LARGEST_FILE_BYTES,
)


def file_of(settlements: Iterable[DueSettlement]) -> Iterator[bytes]:
    """The file of reserved settlements, in parts; the last column is left for the bank's references."""
    rows = (
        (
            each.settlement_id,
            each.client_id,
            each.client,
            each.bank,
            each.number,
            each.name,
            shillings_cell(each.amount_cents),
            "UGX",
            "",
        )
        for each in settlements
    )
    return csv_parts(_COLUMNS, rows)


def read_file(source: BinaryIO, is_paid: bool) -> list[SettlementLine]:
    """The lines that have a bank reference, each with `is_paid`.

    INVALID_REQUEST, naming row and column, for the first bad one.
    """
    rows = read_rows(source, _BOUNDS)
    headings = find_columns(rows, {name: (name,) for name in _COLUMNS}, [(name,) for name in _COLUMNS])
    found = list(islice(rows, _MOST_LINES + 1))
    if len(found) > _MOST_LINES:
        raise ServiceError(Code.INVALID_REQUEST, f"The file has more than {_MOST_LINES:,} rows; divide it.")
    lines = [_read_line(row, headings, is_paid) for row in found if row.cell(headings.columns["bank_reference"])]
    line_by_settlement: dict[str, int] = {}
    for each in lines:
        earlier = line_by_settlement.setdefault(each.settlement_id, each.line)
        if earlier != each.line:
            raise bad_line(each.line, f"settlement_id: Row {earlier} has it, too.")
    return lines


def names_account(line: SettlementLine, bank: str, number: str, name: str) -> bool:
    """Whether a line names a bank account, as `file_of` writes it."""
    return (line.bank, line.number, line.name) == (neutralised(bank), neutralised(number), neutralised(name))


def bad_line(line: int, problem: str) -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, f"Row {line}, {problem} Nothing was recorded.")


def _read_line(row: Row, headings: Headings, is_paid: bool) -> SettlementLine:
    cells = {name: row.cell(index) for name, index in headings.columns.items()}
    for column, what in (("settlement_id", "a settlement"), ("client_id", "a client")):
        if not is_id(cells[column]):
            raise bad_line(row.line, f"{column}: Is not the id of {what}.")
    if cells["currency"] != "UGX":
        raise bad_line(row.line, "currency: Must be UGX.")
    amount_cents = cents_of(cells["amount"], below=_BELOW)
    if amount_cents is None:
        raise bad_line(row.line, "amount: Must be more than 0 shillings, with at most two decimals.")
    reference = cells["bank_reference"]
    if len(reference) > _LONGEST_REFERENCE or not reference.isprintable():
        raise bad_line(row.line, f"bank_reference: Must be at most {_LONGEST_REFERENCE} characters.")
    if is_changed(reference):
        raise bad_line(row.line, f"bank_reference: A spreadsheet changed the number to {reference}.")
    if not canonical_receipt(reference):
        raise bad_line(row.line, "bank_reference: Needs a letter or a digit.")
    account = (cells["bank"], cells["number"], cells["name"])
    return SettlementLine(
        row.line, cells["client_id"], *account, amount_cents, reference, cells["settlement_id"], is_paid
    )
