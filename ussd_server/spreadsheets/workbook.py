"""Reads the first visible sheet of an XLSX file in a bounded amount of memory.

openpyxl keeps all shared texts, and a whole row, in memory before it returns one; a small file can make both fill the
machine. Here expat streams the sheet, and every count is bounded before anything is kept.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, time, timedelta
from typing import BinaryIO
from xml.etree import ElementTree
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from openpyxl.utils import column_index_from_string
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel

from ussd_server.spreadsheets.rows import FileBounds, Row, SpreadsheetError
from ussd_server.spreadsheets.xml_parts import DAMAGED, DateStyles, Elements, PartReader, SharedTexts, parse

_MOST_PARTS = 1000
_PART_MARK = b"PK\x01\x02"
_SEARCH_BYTES = 1024 * 1024
# XFD1048576 is the last cell of a sheet.
_CELL_ADDRESS = re.compile(r"([A-Z]{1,3})[1-9][0-9]{0,6}", re.ASCII)
_ROW_NUMBER = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
# The parts that describe the sheets are small; they are read whole.
_MOST_DESCRIPTION_BYTES = 512 * 1024


def read_workbook(source: BinaryIO, bounds: FileBounds) -> Iterator[Row]:
    """Yield the rows of the first visible sheet that are not empty."""
    try:
        _check_part_count(source)
        with ZipFile(source) as parts:
            _check_sizes(parts, bounds)
            sheet, base = _first_sheet(parts)
            elements = Elements(bounds.most_elements)
            styles, shared = DateStyles(elements), SharedTexts(elements)
            for name, reader in (("xl/styles.xml", styles), ("xl/sharedStrings.xml", shared)):
                if name in parts.namelist():
                    with parts.open(name) as part:
                        for _ in parse(part, reader.parser):
                            pass
            rows = _Rows(elements, shared, frozenset(styles.numbers), base, bounds)
            with parts.open(sheet) as part:
                for _ in parse(part, rows.parser):
                    yield from rows.take()
    # zipfile raises RuntimeError for parts with a password.
    except (BadZipFile, KeyError, ValueError, EOFError, zlib.error, RuntimeError, ElementTree.ParseError) as error:
        raise SpreadsheetError(DAMAGED) from error
    except expat.ExpatError as error:
        raise SpreadsheetError(DAMAGED) from error


def _check_part_count(source: BinaryIO) -> None:
    """Refuse a directory of many parts before `zipfile` reads it whole."""
    source.seek(0)
    count = 0
    while chunk := source.read(_SEARCH_BYTES):
        count += chunk.count(_PART_MARK)
    source.seek(0)
    if count > _MOST_PARTS:
        raise SpreadsheetError(DAMAGED)


def _check_sizes(parts: ZipFile, bounds: FileBounds) -> None:
    """Refuse a zip bomb. `zipfile` never unpacks more than the size that a part declares."""
    infos = parts.infolist()
    if len(infos) > _MOST_PARTS or sum(info.file_size for info in infos) > bounds.most_unpacked_bytes:
        raise SpreadsheetError(
            f"The XLSX file unpacks to more than {bounds.most_unpacked_bytes // (1024 * 1024)} MB; save it as CSV."
        )
    if any(info.flag_bits & 1 for info in infos):
        raise SpreadsheetError("The file has a password; save it without one.")
    # Other compressions raise errors of their own, and take memory that the file chooses.
    if any(info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for info in infos):
        raise SpreadsheetError(DAMAGED)


def _description(parts: ZipFile, name: str) -> ElementTree.Element:
    if parts.getinfo(name).file_size > _MOST_DESCRIPTION_BYTES:
        raise SpreadsheetError(DAMAGED)
    text = parts.read(name)
    if b"<!DOCTYPE" in text:
        raise SpreadsheetError(DAMAGED)
    return ElementTree.fromstring(text)  # noqa: S314 - bounded, and without entities


def _first_sheet(parts: ZipFile) -> tuple[str, datetime]:
    """The part that holds the first visible sheet, and day 0 of the workbook's dates."""
    workbook = _description(parts, "xl/workbook.xml")
    settings = workbook.find("{*}workbookPr")
    is_of_1904 = settings is not None and settings.get("date1904") in ("1", "true")
    sheets = [sheet for sheet in workbook.iterfind("{*}sheets/{*}sheet") if sheet.get("state", "visible") == "visible"]
    if not sheets:
        raise SpreadsheetError("The XLSX file has no visible sheet.")
    link = next((value for name, value in sheets[0].items() if name.endswith("}id")), None)
    for relation in _description(parts, "xl/_rels/workbook.xml.rels"):
        if relation.get("Id") == link:
            target = relation.get("Target", "")
            name = target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
            return name, CALENDAR_MAC_1904 if is_of_1904 else CALENDAR_WINDOWS_1900
    raise SpreadsheetError(DAMAGED)


class _Rows(PartReader):
    """Collects the rows of a sheet while expat reads it."""

    def __init__(
        self, elements: Elements, shared: SharedTexts, dates: frozenset[str], base: datetime, bounds: FileBounds
    ) -> None:
        super().__init__(elements)
        self._shared, self._dates, self._base, self._bounds = shared, dates, base, bounds
        self._rows: list[Row] = []
        self._count = self._characters_kept = 0
        self._line = 0
        self._cells: dict[int, str] = {}
        self._column = -1
        self._length = 0
        self._kind = self._style = ""
        self._value: list[str] = []
        self._formula: list[str] = []
        self._pieces: list[str] | None = None
        self._is_inline = self._is_hint = False

    def take(self) -> list[Row]:
        rows, self._rows = self._rows, []
        return rows

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "c":
            self._column = self._column_of(attributes.get("r"))
            self._kind, self._style = attributes.get("t", "n"), attributes.get("s", "0")
            self._length = 0
            self._value.clear()
            self._formula.clear()
            self._is_inline = self._is_hint = False
        elif tag == "v":
            if self._value and self._kind != "inlineStr":
                raise SpreadsheetError(DAMAGED)
            self._pieces = None if self._kind == "inlineStr" else self._value
        elif tag == "is":
            self._is_inline = self._kind == "inlineStr"
        elif tag == "rPh":
            self._is_hint = True
        elif tag == "t":
            self._pieces = self._value if self._is_inline and not self._is_hint else None
        elif tag == "f":
            self._pieces = self._formula
            # A shared formula has its text in another cell.
            self._formula[:] = "="
        elif tag == "row":
            self._line = self._line_of(attributes.get("r"))
            self._column = -1
            self._cells.clear()

    def _column_of(self, address: str | None) -> int:
        if address is None:
            return self._column + 1
        match = _CELL_ADDRESS.fullmatch(address)
        if match is None:
            raise SpreadsheetError("a cell has an address that no sheet has.", line=self._line)
        return column_index_from_string(match[1]) - 1

    def _line_of(self, number: str | None) -> int:
        if number is None:
            return self._line + 1
        if not _ROW_NUMBER.fullmatch(number) or int(number) <= self._line:
            raise SpreadsheetError(f"The row after row {self._line} has no number of its own.")
        return int(number)

    def _characters(self, text: str) -> None:
        if self._pieces is not None:
            self._pieces.append(text)
            self._length += len(text)
            if self._length > self._bounds.most_cell_characters:
                raise SpreadsheetError("the cell is too long.", line=self._line, column=self._column)

    def _end(self, tag: str) -> None:
        self._pieces = None
        self._is_inline &= tag != "is"
        self._is_hint &= tag != "rPh"
        if tag == "c":
            if text := self._text().strip():
                if self._column >= self._bounds.most_columns:
                    raise SpreadsheetError(
                        f"the row has more than {self._bounds.most_columns} columns.", line=self._line
                    )
                if self._column in self._cells:
                    raise SpreadsheetError("the row has this cell twice.", line=self._line, column=self._column)
                self._cells[self._column] = text
                self._characters_kept += len(text)
                if self._characters_kept > self._bounds.most_characters:
                    most = f"{self._bounds.most_characters:,}"
                    raise SpreadsheetError(f"the file has more than {most} characters; divide it.", line=self._line)
        elif tag == "row" and self._cells:
            self._count += 1
            if self._count > self._bounds.most_rows:
                raise SpreadsheetError(f"the file has more than {self._bounds.most_rows:,} rows.", line=self._line)
            cells = self._cells
            broken = tuple(column for column, text in cells.items() if "\n" in text or "\r" in text)
            texts = tuple([cells.get(column, "") for column in range(max(cells) + 1)])
            self._rows.append(Row(self._line, texts, broken))

    def _text(self) -> str:
        if self._formula:
            return "".join(self._formula)
        value = "".join(self._value)
        if self._kind == "s" and value:
            with suppress(ValueError, IndexError):
                if value.isascii() and value.isdigit():
                    return self._shared.text(int(value))
            raise SpreadsheetError("the cell's text is missing in the file.", line=self._line, column=self._column)
        if self._kind == "n" and value:
            return self._number(value)
        if self._kind == "e":
            return "#" + value.removeprefix("#")
        return {"0": "FALSE", "1": "TRUE"}.get(value, value) if self._kind == "b" else value

    def _number(self, value: str) -> str:
        try:
            # Python also takes underscores between digits, and the digits of all scripts.
            if "_" in value or not value.isascii():
                raise ValueError
            number = float(value)
            if self._style in self._dates:
                moment = from_excel(number, self._base)
                if isinstance(moment, time):
                    return moment.isoformat("seconds")
                return f"{moment + timedelta(microseconds=500_000):%Y-%m-%d %H:%M:%S}"
            # A spreadsheet keeps fifteen digits; the last ones of a longer number are not those that were typed.
            if abs(number) >= 1e15:
                return f"{number:.15E}"
            # Whole numbers without a decimal point or an exponent: a phone number is stored as 2.56772123456E11.
            return value if value.isdigit() else str(int(number)) if number.is_integer() else repr(number)
        except (ValueError, OverflowError, TypeError, AttributeError):
            raise SpreadsheetError("the cell's number cannot be read.", line=self._line, column=self._column) from None
