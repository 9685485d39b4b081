"""Reads and writes text with separated columns: CSV as spreadsheet programs and providers write it."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from io import StringIO, TextIOWrapper
from itertools import islice
from typing import Any, BinaryIO, TextIO

from ussd_server.spreadsheets.rows import FileBounds, Row, SpreadsheetError
from ussd_server.wire import keys_of, writer

_DELIMITERS = ",;\t"
_SAMPLE_ROWS = 100
_MOST_LINE_CHARACTERS = 200_000
# Each costs nearly as much as a row, in a byte.
_MOST_EMPTY_ROWS = 20_000
# Excel writes such a first line to name the separator.
_NAMED_DELIMITER = re.compile(r"sep=([,;\t])\s*", re.IGNORECASE)
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
# What `surrogateescape` makes of bytes that are not UTF-8, and `surrogatepass` of halves of UTF-16 pairs.
_UNDECODED = re.compile(r"[\ud800-\udfff]")
# What spreadsheet programs take for the start of a formula, in ASCII and in full width.
_FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")
# The same behind what other readers take for a separator: a program that expects semicolons divides at those.
_FORMULA_BEHIND_SEPARATOR = re.compile(
    r"""([,;\t\r\n][\s"]*)(?![+-][0-9]{1,20}(?:\.[0-9]{1,20})?\s*(?:[,;\t\r\n]|\Z))(?=[=+\-@＝＋－＠])"""
)
_MOST_BYTES_TOGETHER = 64 * 1024
_SIGNED_NUMBER = re.compile(r"[+-][0-9]{1,20}(?:\.[0-9]{1,20})?")


def read_delimited(source: BinaryIO, start: bytes, bounds: FileBounds) -> Iterator[Row]:
    """Yield the rows that are not empty. `start` are the first bytes of `source`, which is read from its beginning."""
    encoding = _encoding_of(start)
    text = TextIOWrapper(
        source, encoding, errors="surrogateescape" if encoding == "utf-8-sig" else "surrogatepass", newline=""
    )
    try:
        first = next(_Lines(text, 0), "")
        if first.lstrip().startswith("<"):
            raise SpreadsheetError("The file is a web page, not a spreadsheet; save it as XLSX or CSV.")
        if named := _NAMED_DELIMITER.fullmatch(first):
            delimiter, lines_before = named[1], 1
        else:
            text.seek(0)
            delimiter, lines_before = _delimiter_of(text), 0
            text.seek(0)
        yield from _read(text, delimiter, lines_before, bounds)
    finally:
        # The file belongs to the caller, who may have closed it while an unfinished reader was not yet collected.
        with suppress(ValueError):
            text.detach()


def _encoding_of(start: bytes) -> str:
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # In UTF-16 without a mark, every other byte of Latin text is zero.
    pairs = len(start) // 2
    if pairs and start[1::2].count(0) > 0.7 * pairs and not start[0::2].count(0):
        return "utf-16-le"
    if pairs and start[0::2].count(0) > 0.7 * pairs and not start[1::2].count(0):
        return "utf-16-be"
    return "utf-8-sig"


def _delimiter_of(text: TextIOWrapper) -> str:
    """The delimiter that gives the most rows of one length, weighted by that length.

    Thousands separators and titles hold other delimiters too, but not the same number of them in every row.
    """
    sample = list(islice(_Lines(text, 0), _SAMPLE_ROWS))

    def score(delimiter: str) -> int:
        try:
            lengths = Counter(len(cells) for cells in csv.reader(sample, delimiter=delimiter))
        except csv.Error:
            return 0
        return max(((length - 1) * count for length, count in lengths.items()), default=0)

    return max(_DELIMITERS, key=score)


def _read(text: TextIOWrapper, delimiter: str, lines_before: int, bounds: FileBounds) -> Iterator[Row]:
    lines = _Lines(text, lines_before)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    line = 1 + lines_before
    count = empty = 0
    while True:
        try:
            cells = next(rows, None)
        except csv.Error:
            # Text after a closing quotation mark, one that nothing closes, or the parser's limit of a cell.
            raise SpreadsheetError(
                "a quotation mark is opened and never closed, or stands within a cell.", line=line
            ) from None
        if cells is None:
            return
        texts = tuple([cell.strip() for cell in cells])
        if any(texts):
            count += 1
            _check(line, texts, count, bounds)
            is_over_lines = lines.number > line
            yield Row(line, texts, _broken(cells) if is_over_lines else (), lines.ends_with_break)
        else:
            empty += 1
            if empty > _MOST_EMPTY_ROWS:
                raise SpreadsheetError(f"the file has more than {_MOST_EMPTY_ROWS:,} empty rows.", line=line)
        line = 1 + lines.number


def _broken(cells: Sequence[str]) -> tuple[int, ...]:
    return tuple(index for index, cell in enumerate(cells) if "\n" in cell or "\r" in cell)


class _Lines:
    """Reads the lines of a text: `number` is that of the last one, which `ends_with_break` unless the text ends."""

    def __init__(self, text: TextIOWrapper, lines_before: int) -> None:
        self._text = text
        self.number = lines_before
        self.ends_with_break = True

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            line = self._text.readline(_MOST_LINE_CHARACTERS)
        except UnicodeDecodeError:
            raise SpreadsheetError(
                "the text is not UTF-16 to its end; is the file whole?", line=self.number + 1
            ) from None
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) == _MOST_LINE_CHARACTERS:
            raise SpreadsheetError(f"the line is longer than {_MOST_LINE_CHARACTERS:,} characters.", line=self.number)
        self.ends_with_break = line.endswith(("\n", "\r"))
        return line


def _check(line: int, texts: tuple[str, ...], count: int, bounds: FileBounds) -> None:
    if count > bounds.most_rows:
        raise SpreadsheetError(f"the file has more than {bounds.most_rows:,} rows.", line=line)
    if len(texts) > bounds.most_columns:
        raise SpreadsheetError(f"the row has more than {bounds.most_columns} columns.", line=line)
    together = "".join(texts)
    if together.isprintable() and len(together) <= bounds.most_cell_characters:
        return
    for column, cell in enumerate(texts):
        if len(cell) > bounds.most_cell_characters:
            raise SpreadsheetError("the cell is too long.", line=line, column=column)
        if cell.isprintable():
            continue
        if _UNDECODED.search(cell):
            raise SpreadsheetError(
                "the text is neither UTF-8 nor UTF-16; save the file as CSV UTF-8.", line=line, column=column
            )
        if _NO_TEXT.search(cell):
            raise SpreadsheetError("the cell holds bytes that are no text.", line=line, column=column)


def neutralised(value: object) -> str:
    """The text of a cell, no part of which any spreadsheet program will evaluate; empty for None.

    An apostrophe before what looks like a formula makes it text, at the begin of the cell and behind every separator.
    Numbers with a sign, phone numbers too, stay as they are. Costs 0.5 us.
    """
    text = "" if value is None else str(value)
    text = _FORMULA_BEHIND_SEPARATOR.sub(r"\1'", text)
    # Some programs remove spaces before a formula.
    starts_one = text.startswith(_FORMULA_STARTS) or text.lstrip().startswith(_FORMULA_STARTS)
    if starts_one and not _SIGNED_NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def shillings_cell(cents: int | None) -> str:
    """An amount in shillings with no more decimals than it needs, as the API shows it; empty for None."""
    if cents is None:
        return ""
    whole, part = divmod(abs(cents), 100)
    return f"{'-' if cents < 0 else ''}{whole}{f'.{part:02}'.rstrip('0') if part else ''}"


def csv_parts(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> Iterator[bytes]:
    """A CSV file in UTF-8, in parts of some 64 KiB: a line of column names and the rows, every cell neutralised."""
    part = StringIO()
    lines = csv.writer(part)
    lines.writerow(map(neutralised, columns))
    for row in rows:
        lines.writerow(map(neutralised, row))
        if part.tell() >= _MOST_BYTES_TOGETHER:
            yield part.getvalue().encode()
            part.seek(0)
            part.truncate()
    yield part.getvalue().encode()


def line_writer(file: TextIO, view: Any) -> Callable[[Any], object]:
    """Write the names of a view's fields to a CSV file; returns what writes such a view as a line, neutralised."""
    lines, written = csv.writer(file), writer(view)
    lines.writerow(keys_of(view))
    return lambda each: lines.writerow(map(neutralised, written(each).values()))
