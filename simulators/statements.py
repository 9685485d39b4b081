"""Statements of a provider's book, as account holders download them: CSV and XLSX."""

import csv
import io
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from openpyxl import Workbook

from simulators.layouts import MovedLine, TableLayout

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
    """The form of a statement, one of the keys of each table above; `file` is csv or xlsx.

    `layout` is one of the provider's layouts, empty for its first.
    """

    file: str = "csv"
    encoding: str = "utf-8"
    separator: str = "comma"
    dates: str = "iso"
    layout: str = ""

    @classmethod
    def read(cls, wanted: Mapping[str, str], layouts: Collection[str]) -> "StatementForm":
        """Read the form from query parameters; raises ValueError for a value that no table and no layout has."""
        form = cls(**{name: wanted[name] for name in cls.__slots__ if name in wanted})
        tables = {
            "file": ("csv", "xlsx"),
            "encoding": ENCODINGS,
            "separator": SEPARATORS,
            "dates": DATES,
            "layout": ("", *layouts),
        }
        for name, choices in tables.items():
            if getattr(form, name) not in choices:
                raise ValueError(f"{name} is one of {', '.join(choices)}.")
        return form


def written_time(at: float, form: StatementForm) -> str:
    """Returns seconds since 1970 as a date in Kampala."""
    return _local(at).strftime(DATES[form.dates])


def write_statement(movements: Iterable[MovedLine], form: StatementForm, layout: TableLayout) -> bytes:
    """Returns the file: titles, the headings, the lines, and a total where the layout has one."""
    listed = [movement for movement in movements if layout.has_failures or movement.has_moved]
    lines = [
        list(layout.cells(movement, number, _date_of(movement, form, layout)))
        for number, movement in enumerate(listed, 1)
    ]
    total = [["Total lines", str(len(lines))]] if layout.ends_with_total else []
    return write_rows([*map(list, layout.titles), list(layout.headings), *lines, *total], form)


def write_rows(rows: list[list[str]], form: StatementForm) -> bytes:
    """Returns a file with these rows."""
    return _workbook(rows) if form.file == "xlsx" else _text(rows, form)


def _date_of(movement: MovedLine, form: StatementForm, layout: TableLayout) -> str:
    if not layout.dates:
        return written_time(movement.at, form)
    return _local(movement.at).strftime(layout.dates).upper()


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone(KAMPALA)


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
