"""Streams one XML part of an XLSX file, in bounded work, with pauses for other requests of the process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import IO
from xml.parsers import expat

from ussd_server.spreadsheets.rows import SpreadsheetError

DAMAGED = "The XLSX file is damaged or not a spreadsheet."

# An element takes four bytes and some 2 us at least, so a chunk takes some 4 ms.
_CHUNK_BYTES = 8 * 1024
# expat reads an unfinished tag again with every chunk.
_MOST_TAG_BYTES = 64 * 1024
_MOST_DEPTH = 50


def parse(part: IO[bytes], parser: expat.XMLParserType) -> Iterator[None]:
    """Feed a part to its parser; the caller takes what was found after every chunk."""
    size = 0
    while chunk := part.read(_CHUNK_BYTES):
        time.sleep(0)
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
