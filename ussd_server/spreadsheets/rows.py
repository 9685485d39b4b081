"""Rows of a table, the bounds of a file, and the error that names row and column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ussd_server.status import Code, ServiceError

_MEGABYTE = 1024 * 1024


class Row(NamedTuple):
    """One row with text in at least one cell.

    `line` is its number in the file, from 1. `cells` are stripped texts; rows of one file may differ in length.
    `broken` are the indexes of cells with a line break. `is_whole` is False for the last line of a text that ends
    without a line break, because it may be cut.
    """

    line: int
    cells: tuple[str, ...]
    broken: tuple[int, ...] = ()
    is_whole: bool = True

    def cell(self, index: int | None) -> str:
        """The text at an index from 0; empty beyond the row's end and for None."""
        return self.cells[index] if index is not None and index < len(self.cells) else ""


@dataclass(frozen=True, slots=True)
class FileBounds:
    """The largest file that is read. The reader raises `SpreadsheetError` when a bound is passed.

    `most_unpacked_bytes` is the sum of the parts of an XLSX file after unpacking, `most_elements` bounds its XML
    elements, each of which takes some 2 us. `most_characters` bounds the texts of all cells of an XLSX file, which may
    share one text.
    """

    most_bytes: int = 100 * _MEGABYTE
    most_unpacked_bytes: int = 1024 * _MEGABYTE
    most_elements: int = 30_000_000
    most_rows: int = 1_048_576
    most_columns: int = 256
    most_cell_characters: int = 32_767
    most_characters: int = 1024 * _MEGABYTE


class SpreadsheetError(ServiceError):
    """A file that is refused with INVALID_REQUEST, in one sentence that names row and column where they are known."""

    def __init__(self, sentence: str, *, line: int | None = None, column: int | None = None) -> None:
        """`line` counts from 1, `column` from 0."""
        places = [] if line is None else [f"row {line}"]
        places += [] if column is None else [f"column {column_letters(column)}"]
        place = ", ".join(places)
        super().__init__(Code.INVALID_REQUEST, f"{place[0].upper()}{place[1:]}: {sentence}" if place else sentence)
        self.line = line
        self.column = column


def column_letters(index: int) -> str:
    """The name that spreadsheet programs give a column: A for 0, AA for 26."""
    letters = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters
