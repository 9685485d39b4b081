"""Reads the table in a file, CSV or XLSX, row by row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO

from ussd_server.spreadsheets.delimited import read_delimited
from ussd_server.spreadsheets.rows import FileBounds, Row, SpreadsheetError
from ussd_server.threads import in_native_thread, with_pauses

_START_BYTES = 4096
_ZIP = b"PK\x03\x04"
# Old Excel files (.xls), and the container of files with a password.
_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_PASSWORD_MARK = "EncryptedPackage".encode("utf-16-le")
_CHUNK_BYTES = 1024 * 1024
_ROWS_AT_ONCE = 250
_OTHER_FORMATS = {b"%PDF": "a PDF document", b"\x89PNG": "a picture", b"\xff\xd8\xff": "a picture", b"{\\rtf": "RTF"}


def read_rows(source: BinaryIO, bounds: FileBounds | None = None) -> Iterator[Row]:
    """Yield the rows of a CSV file, or of the first visible sheet of an XLSX file, that are not empty.

    `source` must be seekable, such as an open file or `io.BytesIO`. CSV: UTF-8 or UTF-16, with or without byte order
    mark, separated by comma, semicolon or tab. Formulas are never evaluated: a cell that holds one is its text, such
    as `=A1+B1`. Rows are read in a native thread, some hundreds at a time, so that other requests run beside a file
    that takes minutes. Memory does not grow with the rows. Raises SpreadsheetError for everything that cannot be read
    and for a file beyond `bounds`, possibly after some rows: the caller must not act before the last one.
    """
    bounds = bounds or FileBounds()
    size = source.seek(0, os.SEEK_END)
    source.seek(0)
    start = source.read(_START_BYTES)
    source.seek(0)
    if size > bounds.most_bytes:
        raise SpreadsheetError(f"The file is larger than {bounds.most_bytes // (1024 * 1024)} MB.")
    if not start.strip():
        raise SpreadsheetError("The file is empty.")
    if start.startswith(_OLE):
        raise SpreadsheetError(
            "The file has a password; save it without one."
            if _contains(source, _PASSWORD_MARK)
            else "The file has the old Excel format; save it as XLSX or CSV."
        )
    for signature, name in _OTHER_FORMATS.items():
        if start.startswith(signature):
            raise SpreadsheetError(f"The file is {name}, not a spreadsheet; save it as XLSX or CSV.")
    if not start.startswith(_ZIP):
        return _beside_others(read_delimited(source, start, bounds))
    # openpyxl takes a tenth of a start of any process, and few processes read an XLSX file.
    from ussd_server.spreadsheets.workbook import read_workbook

    return _beside_others(read_workbook(source, bounds))


def _beside_others(rows: Iterator[Row]) -> Iterator[Row]:
    while True:
        some, error = in_native_thread(_next_rows, rows, pool="documents")
        yield from with_pauses(some)
        if error is not None:
            raise error
        if len(some) < _ROWS_AT_ONCE:
            return


def _next_rows(rows: Iterator[Row]) -> tuple[list[Row], SpreadsheetError | None]:
    """The next rows, as far as they can be read, and why the one after them cannot."""
    some: list[Row] = []
    try:
        # Not `list(...)`, which would lose the rows before the error.
        some.extend(islice(rows, _ROWS_AT_ONCE))
    except SpreadsheetError as error:
        return some, error
    return some, None


def is_workbook(source: BinaryIO) -> bool:
    """Whether a file is an XLSX file, whatever its name: its rows may end early, because they leave out empty cells."""
    source.seek(0)
    return source.read(len(_ZIP)) == _ZIP


def _contains(source: BinaryIO, mark: bytes) -> bool:
    end = b""
    while chunk := source.read(_CHUNK_BYTES):
        if mark in end + chunk:
            return True
        end = chunk[-len(mark) :]
    return False
