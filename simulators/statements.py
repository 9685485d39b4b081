"""Statements of a provider's book, as account holders download them: CSV and XLSX."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from openpyxl import Workbook

KAMPALA = timezone(timedelta(hours=3))
ENCODINGS = {"utf-8": "utf-8", "utf-8-bom": "utf-8-sig", "utf-16": "utf-16"}
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}
DATES = {
    "iso": "%Y-%m-%d %H:%M:%S",
    "day-first": "%d/%m/%Y %H:%M:%S",
    "month-first": "%m/%d/%Y %H:%M",
    "minutes": "%d/%m/%Y %H:%M",
}


@dataclass(frozen=True, slots=True)
class StatementForm:
    """The form of a statement, one of the keys of each table above; `file` is csv or xlsx."""

    file: str = "csv"
    encoding: str = "utf-8"
    separator: str = "comma"
    dates: str = "iso"

    @classmethod
    def read(cls, wanted: Mapping[str, str]) -> "StatementForm":
        """Read the form from query parameters; raises ValueError for a value that no table has."""
        form = cls(**{name: wanted[name] for name in cls.__slots__ if name in wanted})
        tables = {"file": ("csv", "xlsx"), "encoding": ENCODINGS, "separator": SEPARATORS, "dates": DATES}
        for name, known in tables.items():
            if getattr(form, name) not in known:
                raise ValueError(f"{name} is one of {', '.join(known)}.")
        return form


def written_time(at: float, form: StatementForm) -> str:
    """Returns seconds since 1970 as a date in Kampala."""
    return datetime.fromtimestamp(at, UTC).astimezone(KAMPALA).strftime(DATES[form.dates])


def written_amount(cents: int) -> str:
    """Returns an amount with thousands separators: `1,234,567.00`."""
    return f"{cents // 100:,}.{cents % 100:02d}"


def write_statement(holder: str, headings: Sequence[str], lines: Iterable[Sequence[str]], form: StatementForm) -> bytes:
    """Returns the file: titles, the headings, the lines and a total."""
    body = list(lines)
    rows = [["Account holder", holder], [], list(headings), *map(list, body), ["Total lines", str(len(body))]]
    return _workbook(rows) if form.file == "xlsx" else _text(rows, form)


def _text(rows: list[list[str]], form: StatementForm) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=SEPARATORS[form.separator]).writerows(rows)
    return text.getvalue().encode(ENCODINGS[form.encoding])


def _workbook(rows: list[list[str]]) -> bytes:
    book = Workbook(write_only=True)
    sheet = book.create_sheet("Statement")
    for row in rows:
        sheet.append(row)
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()
