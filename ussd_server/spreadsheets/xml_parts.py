"""Streams the XML parts of an XLSX file, in bounded work.

Here are also the parts that the cells of a sheet refer to: styles and shared texts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import IO
from xml.parsers import expat

from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format

from ussd_server.spreadsheets.rows import SpreadsheetError

DAMAGED = "The XLSX file is damaged or not a spreadsheet."

# An element takes four bytes and some 2 us at least, so a chunk takes some 2 ms.
_CHUNK_BYTES = 4 * 1024
# expat reads an unfinished tag again with every chunk.
_MOST_TAG_BYTES = 64 * 1024
_MOST_DEPTH = 50
# Excel itself allows 255 characters and some 250 formats. Judging a longer one may take quadratic time.
_LONGEST_FORMAT = 255
_MOST_FORMATS = 1000
# Excel allows 65,490.
_MOST_STYLES = 65_536
# expat returns a text in pieces, each of at most 8 KB.
_MOST_PIECES = 10_000
_MOST_SHARED_BYTES = 100 * 1024 * 1024


def parse(part: IO[bytes], parser: expat.XMLParserType) -> Iterator[None]:
    """Feed a part to its parser; the caller takes what was found after every chunk."""
    size = 0
    while chunk := part.read(_CHUNK_BYTES):
        parser.Parse(chunk, False)
        size += len(chunk)
        # expat keeps an unfinished tag in memory, however long it is.
        if size - parser.CurrentByteIndex > _MOST_TAG_BYTES:
            raise SpreadsheetError(DAMAGED)
        yield
    parser.Parse(b"", True)
    yield


class Elements:
    """The elements of all parts together. A small file may unpack to millions of empty ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0

    def add(self) -> None:
        """Count one more. Raises SpreadsheetError beyond the bound."""
        self._count += 1
        if self._count > self._most:
            raise SpreadsheetError(f"The XLSX file has more than {self._most:,} elements; save it as CSV.")


class PartReader:
    """Receives the tags and texts of one part from expat."""

    def __init__(self, elements: Elements) -> None:
        self._elements = elements
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._open
        self.parser.EndElementHandler = self._close
        self.parser.CharacterDataHandler = self._characters
        # Entities could unpack a few bytes to gigabytes; no spreadsheet program writes them.
        self.parser.StartDoctypeDeclHandler = self._refuse
        self._depth = 0

    def _open(self, tag: str, attributes: dict[str, str]) -> None:
        self._elements.add()
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            self._refuse()
        self._start(tag.rpartition(":")[2] if ":" in tag else tag, attributes)

    def _close(self, tag: str) -> None:
        self._depth -= 1
        self._end(tag.rpartition(":")[2] if ":" in tag else tag)

    def _refuse(self, *_: object) -> None:
        raise SpreadsheetError(DAMAGED)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        """Receive the begin of an element, by its name without the namespace."""

    def _characters(self, text: str) -> None:
        """Receive text."""

    def _end(self, tag: str) -> None:
        """Receive the end of an element."""


class DateStyles(PartReader):
    """The styles, by their number in text, whose cells hold dates: `numbers`."""

    def __init__(self, elements: Elements) -> None:
        super().__init__(elements)
        self.numbers: set[str] = set()
        self._formats = {str(number): text for number, text in BUILTIN_FORMATS.items()}
        self._judged: dict[str, bool] = {}
        self._is_inside = False
        self._number = 0

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "numFmt":
            code = attributes.get("formatCode", "")
            self._formats[attributes.get("numFmtId", "")] = code
            if len(code) > _LONGEST_FORMAT or len(self._formats) > _MOST_FORMATS:
                raise SpreadsheetError(DAMAGED)
        elif tag == "cellXfs":
            self._is_inside = True
        elif tag == "xf" and self._is_inside:
            code = self._formats.get(attributes.get("numFmtId", ""), "")
            if code not in self._judged:
                self._judged[code] = is_date_format(code)
            if self._judged[code]:
                self.numbers.add(str(self._number))
            self._number += 1
            if self._number > _MOST_STYLES:
                raise SpreadsheetError(DAMAGED)

    def _end(self, tag: str) -> None:
        self._is_inside &= tag != "cellXfs"


class SharedTexts(PartReader):
    """The texts that cells refer to by number, in one block of bytes."""

    def __init__(self, elements: Elements) -> None:
        super().__init__(elements)
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
                raise SpreadsheetError(DAMAGED)

    def _end(self, tag: str) -> None:
        self._is_inside = False
        self._is_hint &= tag != "rPh"
        if tag == "si":
            self._text += "".join(self._pieces).encode()
            self._ends.append(len(self._text))
            self._pieces.clear()
            if len(self._text) + self._ends.itemsize * len(self._ends) > _MOST_SHARED_BYTES:
                raise SpreadsheetError("The XLSX file holds too much text; save it as CSV.")
