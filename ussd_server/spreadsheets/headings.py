"""Finds the columns of a table by their headings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from ussd_server.spreadsheets.rows import Row, SpreadsheetError

LONGEST_HEADING = 100
"""Characters; a longer cell is no heading."""
_ROWS_SEARCHED = 100


class Headings(NamedTuple):
    """The index of every field that has a column, the number of columns with a heading, and the headings.

    `is_by_layout`: the columns are those of a layout for exactly these headings.
    """

    columns: dict[str, int]
    width: int
    cells: tuple[str, ...] = ()
    is_by_layout: bool = False


Names = Mapping[str, Sequence[str]]
"""The headings that each field may have, the preferred one first."""


def heading_key(text: str) -> str:
    """A heading without capitals, spaces and punctuation: the same for `External_ID` and `external id`.

    Empty for a text of more than 100 characters.
    """
    if len(text) > LONGEST_HEADING:
        return ""
    return "".join(filter(str.isalnum, text.casefold()))


def headings_key(cells: Sequence[str]) -> tuple[str, ...]:
    """The keys of all headings of a table, without empty ones at the end."""
    keys = list(map(heading_key, cells))
    while keys and not keys[-1]:
        keys.pop()
    return tuple(keys)


def find_columns(
    rows: Iterator[Row],
    headings: Names,
    required: Collection[Collection[str]],
    layouts: Mapping[tuple[str, ...], Names] | None = None,
) -> Headings:
    """Read rows up to the headings, and return the columns of the fields. `rows` goes on below the headings.

    Of each of the `required` collections one field must be there. `layouts` are the names for tables with exactly the
    headings of a `headings_key`, where they take the place of `headings`. Titles above the headings are skipped;
    headings may take two rows, as merged cells do. Raises SpreadsheetError when the first rows hold no headings, naming
    what is missing in the most likely row, and when the heading of a required field is there twice: either column may
    be the one that is meant.
    """
    above: tuple[str, ...] = ()
    likely: tuple[int, int, list[str]] | None = None
    for row in islice(rows, _ROWS_SEARCHED):
        length = max(len(row.cells), len(above))
        merged = tuple(row.cell(index) or "".join(above[index : index + 1]) for index in range(length))
        for cells in (row.cells, merged):
            layout = layouts.get(headings_key(cells)) if layouts else None
            columns = _columns_in(cells, headings if layout is None else layout)
            missing = [_named(fields, headings) for fields in required if columns.keys().isdisjoint(fields)]
            if not missing:
                _refuse_doubled(
                    cells, {columns[field] for fields in required for field in fields if field in columns}, row
                )
                width = max(index + 1 for index, cell in enumerate(cells) if cell)
                return Headings(columns, width, tuple(cells[:width]), layout is not None)
            if columns and (likely is None or len(columns) > likely[0]):
                likely = (len(columns), row.line, missing)
        above = row.cells
    if likely is None:
        wanted = ", ".join(_named(fields, headings) for fields in required)
        raise SpreadsheetError(f"No row has the headings {wanted}.")
    _, line, missing = likely
    raise SpreadsheetError(f"the headings lack {', '.join(missing)}.", line=line)


def _refuse_doubled(cells: Sequence[str], columns: Collection[int], row: Row) -> None:
    chosen = {heading_key(cells[column]) for column in columns}
    for index, cell in enumerate(cells):
        if index not in columns and heading_key(cell) in chosen:
            raise SpreadsheetError(f"the heading {cell} is there twice.", line=row.line, column=index)


def _named(fields: Collection[str], headings: Names) -> str:
    return " or ".join(headings[field][0] for field in fields if field in headings)


def _columns_in(cells: Sequence[str], headings: Names) -> dict[str, int]:
    columns: dict[str, int] = {}
    for index, cell in enumerate(cells):
        columns.setdefault(heading_key(cell), index)
    chosen = {
        field: next((columns[key] for key in map(heading_key, names) if key in columns), None)
        for field, names in headings.items()
    }
    return {field: index for field, index in chosen.items() if index is not None}
