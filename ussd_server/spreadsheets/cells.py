"""Cells of the CSV files that we write."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

# What spreadsheet programs take for the start of a formula, in ASCII and in full width.
_FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")
_MOST_BYTES_TOGETHER = 64 * 1024
_SIGNED_NUMBER = re.compile(r"[+-][0-9]{1,20}(?:\.[0-9]{1,20})?")


def neutralised(value: object) -> str:
    """The text of a cell, which no spreadsheet program will evaluate; empty for None.

    A leading apostrophe makes what looks like a formula text. Numbers with a sign, phone numbers too, stay as they are.
    """
    text = "" if value is None else str(value)
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
    lines.writerow(columns)
    for row in rows:
        lines.writerow(map(neutralised, row))
        if part.tell() >= _MOST_BYTES_TOGETHER:
            yield part.getvalue().encode()
            part.seek(0)
            part.truncate()
    yield part.getvalue().encode()
