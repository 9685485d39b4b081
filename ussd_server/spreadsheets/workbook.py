"""Reads the first visible sheet of an XLSX file in a bounded amount of memory.

openpyxl keeps all shared texts, and a whole row, in memory before it returns one; a small file can make both fill the
machine. Here expat streams the sheet, and every count is bounded before anything is kept.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, time, timedelta
from typing import IO, BinaryIO
from xml.etree import ElementTree
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel

from ussd_server.spreadsheets.rows import Bounds, Row, SpreadsheetError, column_index

_CHUNK_BYTES = 64 * 1024
_MOST_PARTS = 1000
_MOST_TAG_BYTES = 1024 * 1024
_MOST_DEPTH = 50
# expat returns a text in pieces, each of at most 8 KB.
_MOST_PIECES = 10_000
# The parts that describe the sheets are small; they are read whole.
_MOST_DESCRIPTION_BYTES = 4 * 1024 * 1024
_MOST_SHARED_BYTES = 100 * 1024 * 1024
_DAMAGED = "The XLSX file is damaged or not a spreadsheet."


def read_workbook(source: BinaryIO, bounds: Bounds) -> Iterator[Row]:
    """Yield the rows of the first visible sheet that are not empty."""
    try:
        with ZipFile(source) as parts:
            _check_sizes(parts, bounds)
            sheet, base = _first_sheet(parts)
            dates = _date_styles(parts)
            shared = _SharedTexts()
            if "xl/sharedStrings.xml" in parts.namelist():
                with parts.open("xl/sharedStrings.xml") as part:
                    for _ in _parse(part, shared.parser):
                        pass
            rows = _Rows(shared, dates, base, bounds)
            with parts.open(sheet) as part:
                for _ in _parse(part, rows.parser):
                    yield from rows.take()
    except SpreadsheetError:
        raise
    # zipfile raises RuntimeError for parts with a password, NotImplementedError for other compressions.
    except (BadZipFile, KeyError, ValueError, EOFError, zlib.error, RuntimeError, ElementTree.ParseError) as error:
        raise SpreadsheetError(_DAMAGED) from error
    except expat.ExpatError as error:
        raise SpreadsheetError(_DAMAGED) from error


def _check_sizes(parts: ZipFile, bounds: Bounds) -> None:
    """Refuse a zip bomb. `zipfile` never unpacks more than the size that a part declares."""
    infos = parts.infolist()
    if len(infos) > _MOST_PARTS or sum(info.file_size for info in infos) > bounds.most_unpacked_bytes:
        raise SpreadsheetError(
            f"The XLSX file unpacks to more than {bounds.most_unpacked_bytes // (1024 * 1024)} MB; save it as CSV."
        )
    if any(info.flag_bits & 1 for info in infos):
        raise SpreadsheetError("The file has a password; save it without one.")


def _description(parts: ZipFile, name: str) -> ElementTree.Element:
    if parts.getinfo(name).file_size > _MOST_DESCRIPTION_BYTES:
        raise SpreadsheetError(_DAMAGED)
    text = parts.read(name)
    if b"<!DOCTYPE" in text:
        raise SpreadsheetError(_DAMAGED)
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
    raise SpreadsheetError(_DAMAGED)


def _date_styles(parts: ZipFile) -> frozenset[str]:
    """The styles, by their number in text, whose cells hold dates."""
    if "xl/styles.xml" not in parts.namelist():
        return frozenset()
    styles = _description(parts, "xl/styles.xml")
    formats = {str(number): text for number, text in BUILTIN_FORMATS.items()}
    formats |= {
        each.get("numFmtId", ""): each.get("formatCode", "") for each in styles.iterfind("{*}numFmts/{*}numFmt")
    }
    return frozenset(
        str(number)
        for number, style in enumerate(styles.iterfind("{*}cellXfs/{*}xf"))
        if is_date_format(formats.get(style.get("numFmtId", ""), ""))
    )


def _parse(part: IO[bytes], parser: expat.XMLParserType) -> Iterator[None]:
    """Feed a part to its parser; the caller takes what was found after every chunk."""
    size = 0
    while chunk := part.read(_CHUNK_BYTES):
        parser.Parse(chunk, False)
        size += len(chunk)
        # expat keeps an unfinished tag in memory, however long it is.
        if size - parser.CurrentByteIndex > _MOST_TAG_BYTES:
            raise SpreadsheetError(_DAMAGED)
        yield
    parser.Parse(b"", True)
    yield


class _Reader:
    """Receives the tags and texts of one part from expat."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._open
        self.parser.EndElementHandler = self._close
        self.parser.CharacterDataHandler = self._characters
        # Entities could unpack a few bytes to gigabytes; no spreadsheet program writes them.
        self.parser.StartDoctypeDeclHandler = self._refuse
        self._depth = 0

    def _open(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            self._refuse()
        self._start(tag.rpartition(":")[2] if ":" in tag else tag, attributes)

    def _close(self, tag: str) -> None:
        self._depth -= 1
        self._end(tag.rpartition(":")[2] if ":" in tag else tag)

    def _refuse(self, *_: object) -> None:
        raise SpreadsheetError(_DAMAGED)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        raise NotImplementedError

    def _characters(self, text: str) -> None:
        raise NotImplementedError

    def _end(self, tag: str) -> None:
        raise NotImplementedError


class _SharedTexts(_Reader):
    """The texts that cells refer to by number, in one block of bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._text = bytearray()
        self._ends = array("Q", [0])
        self._pieces: list[str] = []
        self._is_inside = self._is_hint = False

    def text(self, number: int) -> str:
        """The text of a number. Raises IndexError."""
        if not 0 <= number < len(self._ends) - 1:
            raise IndexError(number)
        return self._text[self._ends[number] : self._ends[number + 1]].decode()

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        # Pronunciation hints, which some languages add, are no part of the text.
        self._is_hint |= tag == "rPh"
        self._is_inside = tag == "t" and not self._is_hint

    def _characters(self, text: str) -> None:
        if self._is_inside:
            self._pieces.append(text)
            if len(self._pieces) > _MOST_PIECES:
                raise SpreadsheetError(_DAMAGED)

    def _end(self, tag: str) -> None:
        self._is_inside = False
        self._is_hint &= tag != "rPh"
        if tag == "si":
            self._text += "".join(self._pieces).encode()
            self._ends.append(len(self._text))
            self._pieces.clear()
            if len(self._text) + self._ends.itemsize * len(self._ends) > _MOST_SHARED_BYTES:
                raise SpreadsheetError("The XLSX file holds too much text; save it as CSV.")


class _Rows(_Reader):
    """Collects the rows of a sheet while expat reads it."""

    def __init__(self, shared: _SharedTexts, dates: frozenset[str], base: datetime, bounds: Bounds) -> None:
        super().__init__()
        self._shared, self._dates, self._base, self._bounds = shared, dates, base, bounds
        self._found: list[Row] = []
        self._count = 0
        self._line = 0
        self._cells: dict[int, str] = {}
        self._column = -1
        self._length = 0
        self._kind = self._style = ""
        self._value: list[str] = []
        self._formula: list[str] = []
        self._pieces: list[str] | None = None

    def take(self) -> list[Row]:
        """The rows completed since the last call."""
        found, self._found = self._found, []
        return found

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "c":
            place = attributes.get("r", "").rstrip("0123456789")
            self._column = column_index(place) if place.isascii() and place.isalpha() else self._column + 1
            self._kind, self._style = attributes.get("t", "n"), attributes.get("s", "0")
            self._length = 0
            self._value.clear()
            self._formula.clear()
        elif tag in ("v", "t"):
            self._pieces = self._value
        elif tag == "f":
            self._pieces = self._formula
            # A shared formula has its text in another cell.
            self._formula[:] = "="
        elif tag == "row":
            number = attributes.get("r", "")
            self._line = int(number) if number.isascii() and number.isdigit() else self._line + 1
            self._column = -1
            self._cells.clear()

    def _characters(self, text: str) -> None:
        if self._pieces is not None:
            self._pieces.append(text)
            self._length += len(text)
            if self._length > self._bounds.most_cell_characters:
                raise SpreadsheetError("the cell is too long.", line=self._line, column=self._column)

    def _end(self, tag: str) -> None:
        self._pieces = None
        if tag == "c":
            if text := self._text().strip():
                if self._column >= self._bounds.most_columns:
                    raise SpreadsheetError(
                        f"the row has more than {self._bounds.most_columns} columns.", line=self._line
                    )
                self._cells[self._column] = text
        elif tag == "row" and self._cells:
            self._count += 1
            if self._count > self._bounds.most_rows:
                raise SpreadsheetError(f"the file has more than {self._bounds.most_rows:,} rows.", line=self._line)
            cells = self._cells
            self._found.append(Row(self._line, tuple([cells.get(column, "") for column in range(max(cells) + 1)])))

    def _text(self) -> str:
        if self._formula:
            return "".join(self._formula)
        value = "".join(self._value)
        if self._kind == "s" and value:
            with suppress(ValueError, IndexError):
                return self._shared.text(int(value))
            raise SpreadsheetError("the cell's text is missing in the file.", line=self._line, column=self._column)
        if self._kind == "n" and value:
            return self._number(value)
        return {"0": "FALSE", "1": "TRUE"}.get(value, value) if self._kind == "b" else value

    def _number(self, value: str) -> str:
        try:
            number = float(value)
            if self._style in self._dates:
                moment = from_excel(number, self._base)
                if isinstance(moment, time):
                    return moment.isoformat("seconds")
                return f"{moment + timedelta(microseconds=500_000):%Y-%m-%d %H:%M:%S}"
            # Whole numbers without a decimal point or an exponent: a phone number is stored as 2.56772123456E11.
            return value if value.isdigit() else str(int(number)) if number.is_integer() else repr(number)
        except (ValueError, OverflowError, TypeError, AttributeError):
            raise SpreadsheetError("the cell's number cannot be read.", line=self._line, column=self._column) from None
