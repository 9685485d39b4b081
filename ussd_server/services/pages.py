"""Rows of lists: pages, newest first, and single rows.

Ids are made from the time, so that one order serves pages and periods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from peewee import ModelSelect

from ussd_server.database.servers import Replica, rows_that_may_lag
from ussd_server.database.tables import Table
from ussd_server.security.tokens import Tokens
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, new_id_floor
from ussd_server.wire import ListPage, ListPeriod, Page

Row = TypeVar("Row", bound=Table)
View = TypeVar("View")

MOST_COUNTED = 10_000


def find_by_id(rows: ModelSelect[Any], table: type[Row], row_id: str, noun: str) -> Row:
    """The one of `rows` with this id. Raises NOT_FOUND ("Payout not found"), also for what is no id."""
    row: Row | None = rows.where(table._meta.primary_key == row_id).first() if is_id(row_id) else None
    return require_row(row, noun)


def require_row(row: Row | None, noun: str) -> Row:
    """The row. Raises NOT_FOUND where there is none."""
    if row is None:
        raise ServiceError(Code.NOT_FOUND, f"{noun} not found")
    return row


def matching(rows: ModelSelect[Row], request: object, *columns: Any) -> ModelSelect[Row]:
    """Filters rows by the request's fields of the same names; None sets no bound."""
    for column in columns:
        if (value := getattr(request, column.name)) is not None:
            rows = rows.where(column == value)
    return rows


def count_rows(rows: ModelSelect[Any]) -> int:
    """How many rows a query has, counted up to 10,000: a longer count would take long and tell no more."""
    return int(rows.limit(MOST_COUNTED).count())


def of_period(rows: ModelSelect[Row], table: Any, from_at: datetime | None, to_at: datetime | None) -> ModelSelect[Row]:
    """Filters rows created from `from_at` (inclusive) to `to_at` (exclusive); None sets no bound."""
    if from_at is not None:
        rows = rows.where(table.id >= new_id_floor(from_at))
    if to_at is not None:
        rows = rows.where(table.id < new_id_floor(to_at))
    return rows


def page_of(
    rows: ModelSelect[Any],
    table: Any,
    request: ListPage,
    tokens: Tokens,
    views: Callable[[list[Any]], Iterable[View]],
    replica: Replica | None = None,
    beside: Iterable[tuple[ModelSelect[Any], Any]] = (),
) -> Page[View]:
    """The page of views of the newest rows, in the period of the request if it has one.

    `beside` are rows of other tables, each with its table, that stand in the same list.

    The cost does not grow with the number of newer rows. A page that is read from a replica may lag by some seconds.
    Raises INVALID_REQUEST for a cursor of another list.
    """
    kind, newest = table._meta.table_name, list[Any]()
    position = None if request.cursor is None else tokens.read_cursor(kind, request.cursor)
    for some, its_table in ((rows, table), *beside):
        if isinstance(request, ListPeriod):
            some = of_period(some, its_table, request.from_at, request.to_at)
        if position is not None:
            assert is_id(position)
            some = some.where(its_table.id < position)
        newest += rows_that_may_lag(some.order_by(its_table.id.desc()).limit(request.limit + 1), replica)
    newest.sort(key=lambda row: row.id, reverse=True)
    page = newest[: request.limit]
    next_cursor = tokens.cursor(kind, page[-1].id) if len(newest) > request.limit else None
    return Page(tuple(views(page)), next_cursor)
