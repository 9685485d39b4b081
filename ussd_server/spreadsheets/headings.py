"""Finds the columns of a table by their headings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from ussd_server.spreadsheets.rows import Row, SpreadsheetError

_ROWS_SEARCHED = 100


def heading_key(text: str) -> str:
    """A heading without capitals, spaces and punctuation: the same for `External_ID` and `external id`."""
    return "".join(filter(str.isalnum, text.casefold()))


def find_columns(
    rows: Iterator[Row], headings: Mapping[str, Sequence[str]], required: Collection[Collection[str]]
) -> dict[str, int]:
    """Read rows up to the headings, and return the index of every field that has one. `rows` goes on below them.

    `headings` are the names that each field may have, the preferred one first. Of each of the `required` collections
    one field must be there. Titles above the headings are skipped; headings may take two rows, as merged cells do.
    Raises SpreadsheetError when the first rows hold no headings, naming what is missing in the most likely row.
    """
    above: tuple[str, ...] = ()
    likely: tuple[int, int, list[str]] | None = None
    for row in islice(rows, _ROWS_SEARCHED):
        length = max(len(row.cells), len(above))
        merged = tuple(row.cell(index) or "".join(above[index : index + 1]) for index in range(length))
        for cells in (row.cells, merged):
            found = _columns_in(cells, headings)
            missing = [_named(fields, headings) for fields in required if found.keys().isdisjoint(fields)]
            if not missing:
                return found
            if found and (likely is None or len(found) > likely[0]):
                likely = (len(found), row.line, missing)
        above = row.cells
    if likely is None:
        wanted = ", ".join(_named(fields, headings) for fields in required)
        raise SpreadsheetError(f"No row has the headings {wanted}.")
    _, line, missing = likely
    raise SpreadsheetError(f"the headings lack {', '.join(missing)}.", line=line)


def _named(fields: Collection[str], headings: Mapping[str, Sequence[str]]) -> str:
    return " or ".join(headings[field][0] for field in fields if field in headings)


def _columns_in(cells: Sequence[str], headings: Mapping[str, Sequence[str]]) -> dict[str, int]:
    places: dict[str, int] = {}
    for index, cell in enumerate(cells):
        places.setdefault(heading_key(cell), index)
    chosen = {
        field: next((places[key] for key in map(heading_key, names) if key in places), None)
        for field, names in headings.items()
    }
    return {field: index for field, index in chosen.items() if index is not None}
