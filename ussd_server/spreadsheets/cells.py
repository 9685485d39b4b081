"""Cells of the CSV files that we write."""

from __future__ import annotations

import re

# What spreadsheet programs take for the start of a formula, in ASCII and in full width.
_FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")
_SIGNED_NUMBER = re.compile(r"[+-][0-9]{1,20}(?:\.[0-9]{1,20})?")


def neutralised(value: object) -> str:
    """The text of a cell, which no spreadsheet program will evaluate; empty for None.

    A leading apostrophe makes what looks like a formula text. Numbers with a sign, phone numbers too, stay as they are.
    """
    text = "" if value is None else str(value)
    if text.startswith(_FORMULA_STARTS) and not _SIGNED_NUMBER.fullmatch(text):
        return f"'{text}"
    return text
