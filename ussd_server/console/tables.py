"""Tables: the same rows as a page, as CSV and as JSON. Filters and the position are in the URL."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import Enum
from functools import partial
from itertools import pairwise
from typing import Any, Literal
from urllib.parse import urlencode

import orjson
from flask import Response, render_template, request, stream_with_context

from ussd_server.api.requests import services
from ussd_server.console import formats, forms
from ussd_server.context import RequestContext
from ussd_server.languages import ENGLISH, marked, use_language
from ussd_server.spreadsheets.delimited import csv_parts
from ussd_server.values import shillings, without_marks
from ussd_server.wire import Page

_LONGEST_WORD = 60
_CUT_AT = 14
"""How many letters of a long reference a list shows: those by which it differs from its neighbours."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.]+")
_NO_NOUN = re.compile(r"^(?:list|show|find|search)_(?:any_)?|_for_operators$")

Kind = Literal[
    "text", "code", "day", "duration", "id", "money", "moment", "number", "path", "person", "phone", "reference",
    "sentence", "status", "word",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `name` names it in CSV and JSON and, without `value`, the attribute of the row; of money with `_cents`.

    `kind` says how it is written; money is in cents, or a text that is no amount; a `word` and a `phone` are
    never broken.
    `link` gives the address that the cell leads to, `note` a second status beside the value. `where` says whether the
    page, the files or both have it. A column that `is_minor` is left out between a phone's width and a laptop's, as
    those of ids are.
    """

    name: str
    title: str
    kind: Kind = "text"
    value: Callable[[Any], Any] | None = None
    link: Callable[[Any], str | None] | None = None
    note: Callable[[Any], str | None] | None = None
    missing: str = ""
    where: Literal["both", "page", "files"] = "both"
    is_minor: bool = False

    def of(self, row: Any) -> Any:
        """The value of this column in `row`."""
        if self.value:
            return self.value(row)
        value = getattr(row, f"{self.name}_cents" if self.kind == "money" else self.name)
        return value.value if isinstance(value, Enum) else value

    def written(self, row: Any) -> Any:
        """The value as CSV and JSON carry it."""
        value = self.of(row)
        if self.kind == "money":
            return shillings(value) if isinstance(value, int) else value
        return formats.iso(value) or None if self.kind == "moment" else value


@dataclass(frozen=True, slots=True)
class UsualPeriod:
    title: str
    address: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class ListedPage(Page[Any]):
    """One page of a list; `following` returns the page behind a cursor."""

    following: Callable[[str], Page[Any]]


def pages(read: Callable[[Any, RequestContext], Page[Any]], wanted: Any, context: RequestContext) -> ListedPage:
    """The page that a service's method returns for a request, with the pages behind it."""
    page = read(wanted, context)
    return ListedPage(page.items, page.next_cursor, lambda cursor: read(replace(wanted, cursor=cursor), context))


ACCOUNT = Column("account", "Account", "word", value=lambda row: formats.account_name(row.account))


@dataclass(frozen=True, slots=True)
class TableFilter:
    """A filter above a table: the parameter `name` of the URL. With `choices` it is a list, else a text.

    `read` makes of its text what the service takes.
    """

    name: str
    title: str
    choices: Mapping[str, str] | None = None
    input_type: str = "search"
    placeholder: str = ""
    read: Callable[[str], Any] = str

    @property
    def chosen(self) -> str:
        """The value in the present URL. A value that is no choice counts as none."""
        value = without_marks(request.args.get(self.name, "")).strip()
        return value if self.choices is None or value in self.choices else ""

    @property
    def value(self) -> Any:
        """The chosen value, as the service takes it; None if nothing is chosen. Raises what `read` raises."""
        return self.read(self.chosen) if self.chosen else None


def words_of(words: type[Enum]) -> dict[str, str]:
    """The choices of a filter by one of `words`."""
    return {word.value: word.value.capitalize() for word in words}


def chosen(filters: Mapping[str, TableFilter]) -> dict[str, Any]:
    """The fields of a list's request: those that `filters` fill, each by the name of its field, and the cursor."""
    return {"cursor": request.args.get("cursor")} | {field: each.value for field, each in filters.items()}


PERIOD = {
    "from_at": TableFilter("from", "From", input_type="date", read=forms.day),
    "to_at": TableFilter("to", "To", input_type="date", read=partial(forms.day, is_last=True)),
}
_PRESETS = marked({"Today": 0, "Last 7 days": 6, "Last 30 days": 29})
"""Periods that end now, and how many days before today each begins."""
BEFORE = TableFilter("to", "Before", input_type="datetime-local", read=forms.local_moment)
PHONE_NUMBER = TableFilter("phone_number", "Phone number", placeholder="0772 123 456", read=forms.phone_number)


@dataclass(frozen=True, slots=True)
class DataTable:
    """Rows: one page of a list, or a list that needs no second page.

    `select_name` adds a check box to each row whose `select_value` is not None.

    Without `has_filter_form` the page has its own links for the filters.
    """

    caption: str
    columns: Sequence[Column]
    listed: Page[Any] | Sequence[Any]
    filters: Collection[TableFilter] = ()
    empty_title: str = "Nothing here yet"
    empty_text: str = ""
    select_name: str | None = None
    select_value: Callable[[Any], str | None] | None = None
    has_filter_form: bool = True

    @property
    def rows(self) -> Sequence[Any]:
        return self.listed.items if isinstance(self.listed, Page) else self.listed

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None on the last."""
        return self.listed.next_cursor if isinstance(self.listed, Page) else None

    def all_rows(self) -> Iterator[Any]:
        """The rows of this page and of all pages behind it; each page is read once the one before is sent."""
        page: Any = self.listed
        yield from self.rows
        while isinstance(self.listed, ListedPage) and page.next_cursor:
            page = self.listed.following(page.next_cursor)
            # The database connection serves others while this page is sent.
            services().release_connection()
            yield from page.items

    @property
    def shown_columns(self) -> Sequence[Column]:
        return [column for column in self.columns if column.where != "files"]

    @property
    def opening(self) -> Column | None:
        """The column whose link a whole row opens: the first that has one."""
        return next((column for column in self.shown_columns if column.link), None)

    @property
    def cuts(self) -> dict[str, tuple[str, str, str]]:
        """The long references of the page, each as what is hidden before, what is shown, and what is hidden after."""
        return cut_references(
            str(column.of(row)) for column in self.shown_columns if column.kind == "reference" for row in self.rows
        )

    @property
    def file_columns(self) -> Sequence[Column]:
        """The columns of CSV and JSON."""
        return [column for column in self.columns if column.where != "page"]

    @property
    def periods(self) -> Sequence[UsualPeriod]:
        """The usual periods, for a table that has a filter by the beginning of one."""
        begin = next((each for each in self.filters if each.name == "from"), None)
        if begin is None:
            return []
        today, is_moment = forms.today(), begin.input_type == "datetime-local"
        month = today.replace(day=1)
        end_of_last = month - timedelta(days=1)
        spans: dict[str, tuple[date, date | None]] = {
            title: (today - timedelta(days=days), None) for title, days in _PRESETS.items()
        }
        # A filter by moments excludes its end.
        spans |= marked({"Last month": (end_of_last.replace(day=1), month if is_moment else end_of_last)})
        return [_usual_period(title, *span, "T00:00" if is_moment else "") for title, span in spans.items()]

    @property
    def is_filtered(self) -> bool:
        return "cursor" in request.args or any(item.chosen for item in self.filters)


def cut_references(references: Iterable[str]) -> dict[str, tuple[str, str, str]]:
    """Cut those of more than 14 letters where they are alike: the part is kept in which each begins to differ."""
    ordered = sorted(set(references))
    same = [_alike(*pair) for pair in pairwise(ordered)]
    cuts = {}
    for reference, *alike in zip(ordered, [0, *same], [*same, 0], strict=False):
        if len(reference) > _CUT_AT:
            begin = max(0, min(max(alike) - 2, len(reference) - _CUT_AT))
            end = begin + _CUT_AT
            cuts[reference] = reference[:begin], reference[begin:end], reference[end:]
    return cuts


def _alike(one: str, other: str) -> int:
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def _usual_period(title: str, first: date, last: date | None, time: str) -> UsualPeriod:
    bounds = {"from": f"{first}{time}", "to": f"{last}{time}" if last else None}
    is_current = all((request.args.get(name) or None) == bound for name, bound in bounds.items())
    return UsualPeriod(title, link_to_table(cursor=None, **bounds), is_current)


def show_table(template: str, table: DataTable, **values: Any) -> Response:
    """Answer with the table: as the page `template`, or as CSV or JSON where the URL has `format=csv` or `json`.

    A CSV file has this page, or with `all=1` the whole list, which is read while it is sent.
    """
    file_format = request.args.get("format")
    if file_format:
        # Programs read files: their words are the same for every person.
        use_language(ENGLISH)
    if file_format == "json":
        items = [{column.name: column.written(row) for column in table.file_columns} for row in table.rows]
        response = Response(
            orjson.dumps({"items": items, "next_cursor": table.next_cursor}), mimetype="application/json"
        )
    elif file_format == "csv":
        is_whole = request.args.get("all") == "1"
        rows = (
            [column.written(row) for column in table.file_columns]
            for row in (table.all_rows() if is_whole else table.rows)
        )
        lines = csv_parts([column.name for column in table.file_columns], rows)
        what = _NO_NOUN.sub("", (request.endpoint or "table").rpartition(".")[2])
        if is_whole:
            return send_csv(stream_with_context(lines), what, forms.today())
        response = Response(b"".join(lines), mimetype="text/csv")
        response.headers["Content-Disposition"] = attachment("csv", what, forms.today())
    else:
        return Response(render_template(template, table=table, **values))
    if table.next_cursor:
        response.headers["Link"] = f'<{link_to_table(cursor=table.next_cursor, format=file_format)}>; rel="next"'
    return response


def send_csv(parts: Iterator[bytes], *words: object) -> Response:
    """Answer with a file that is made while it is sent. `words` name it; empty ones are left out."""
    response = Response(parts, mimetype="text/csv")
    response.headers["Content-Disposition"] = attachment("csv", *words)
    return response


def attachment(ending: str, *words: object) -> str:
    """The header of a file with a name of letters, digits, points and hyphens."""
    parts = (_NOT_IN_NAMES.sub("-", str(word or "")).strip("-.")[:_LONGEST_WORD] for word in words)
    return f'attachment; filename="{"-".join(filter(None, parts))}.{ending}"'


def link_to_table(**changes: str | None) -> str:
    """The address of the present table with other parameters; None takes one away."""
    parameters = {name: value for name, value in (request.args.to_dict() | changes).items() if value}
    return f"{request.path}?{urlencode(parameters)}" if parameters else request.path
