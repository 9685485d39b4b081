"""Finds the cell styles of an XLSX file that show numbers as dates."""

from __future__ import annotations

from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format

from ussd_server.spreadsheets.rows import SpreadsheetError
from ussd_server.spreadsheets.xml_parts import DAMAGED, Elements, PartReader

# Excel itself allows 255 characters and some 250 formats. Judging a longer one may take quadratic time.
_LONGEST_FORMAT = 255
_MOST_FORMATS = 1000
# Excel allows 65,490.
_MOST_STYLES = 65_536


class DateStyles(PartReader):
    """The styles, by their number in text, whose cells hold dates: `found`."""

    def __init__(self, elements: Elements) -> None:
        super().__init__(elements)
        self.found: set[str] = set()
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
                self.found.add(str(self._number))
            self._number += 1
            if self._number > _MOST_STYLES:
                raise SpreadsheetError(DAMAGED)

    def _end(self, tag: str) -> None:
        self._is_inside &= tag != "cellXfs"
