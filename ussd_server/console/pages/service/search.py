"""Search: one box on every page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import redirect, request

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.links import link_to
from ussd_server.console.tables import Column, DataTable, show_table
from ussd_server.context import RequestContext
from ussd_server.services.search.messages import Search, SearchReply

_SHORTEST, _LONGEST = 3, 64
_COLUMNS = (
    Column("kind", "Kind"),
    Column("title", "What"),
    Column("sentence", "How it is"),
    Column("created_at", "Created", "moment"),
    Column("id", "Id", "id"),
)
_COLUMNS_OF_OPERATORS = (Column("client", "Client"), *_COLUMNS)


@console.page("GET", "/search", needs="search:read")
def search(context: RequestContext) -> Any:
    """What the client has of an id, also of a request, a reference, a receipt or a phone number."""
    return _answer(services().search.search, _COLUMNS, context)


@console.page("GET", "/operator/search", who="operator")
def search_all_clients(context: RequestContext) -> Any:
    """The same over all clients."""
    return _answer(services().search.find, _COLUMNS_OF_OPERATORS, context)


def _answer(
    find: Callable[[Search, RequestContext], SearchReply], columns: tuple[Column, ...], context: RequestContext
) -> Any:
    """The hits; the only one opens at once."""
    text = request.args.get("q", "").strip()
    is_searched = _SHORTEST <= len(text) <= _LONGEST and "\0" not in text
    hits = find(Search(text), context).items if is_searched else ()
    if is_searched and not hits and (number := forms.phone_number(text)) and number != text:
        hits = find(Search(number), context).items
    address = link_to(hits[0].kind, hits[0].id) if len(hits) == 1 else None
    if address and "format" not in request.args:
        return redirect(address)
    table = DataTable(f"What was found for {text}", columns, hits)
    return show_table("console/search.html", table, text=text, is_searched=is_searched)
