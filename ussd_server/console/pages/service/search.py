"""Search: one box on every page, and everything that happened with one phone number."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from flask import g, redirect, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.console.links import link_to
from ussd_server.console.tables import Column, DataTable, TableFilter, show_table
from ussd_server.context import SEND, RequestContext
from ussd_server.languages import gettext
from ussd_server.services.search.messages import KINDS, SHORTEST_PART, Search, SearchHit, SearchRecent, SearchReply
from ussd_server.services.subscribers.messages import GetHistory, ResetPin
from ussd_server.status import ServiceError
from ussd_server.values import is_id, phone_number

_SHORTEST, _LONGEST = 3, 64
_COLUMNS = (
    Column("kind", "Kind"),
    Column("title", "What"),
    Column("sentence", "How it is"),
    Column("created_at", "Created", "moment"),
    Column("id", "Id", "id"),
)
_COLUMNS_OF_OPERATORS = (Column("client", "Client"), *_COLUMNS)
_AMOUNT = re.compile(r"(?:UGX\s*)?([0-9][0-9.,]*)(?:\s+(today|yesterday|[0-9]{4}-[0-9]{2}-[0-9]{2}))?", re.ASCII | re.I)


@console.page("GET", "/search", needs="search:read")
def search(context: RequestContext) -> Any:
    """What the client has of an id, also of a request, a reference, a receipt or a phone number."""
    return _answer(services().search.search, _COLUMNS, KINDS, context)


@console.page("GET", "/operator/search", who="operator")
def search_all_clients(context: RequestContext) -> Any:
    """The same over all clients."""
    return _answer(services().search.find, _COLUMNS_OF_OPERATORS, (*KINDS, "movement"), context)


@console.page("GET", "/subscribers/<phone_number>", needs="transactions:read", shows="subscriber")
def show_subscriber(context: RequestContext, phone_number: str) -> str:
    wanted = GetHistory(phone_number, cursor=request.args.get("cursor"))
    history = services().subscriber_history.get(wanted, context)
    pin = services().subscriber_pins.state(phone_number, context) if context.may("ussd:read") else None
    return render_template(
        "console/subscribers/history.html",
        history=history,
        phone_number=phone_number,
        pin=pin,
        may_reset=context.may(SEND),
    )


@console.page("POST", "/subscribers/<phone_number>/pin", needs=SEND)
def reset_pin(context: RequestContext, phone_number: str) -> Any:
    """Remove the PIN that a subscriber has in the client's menus."""
    services().subscriber_pins.reset(ResetPin(phone_number), context)
    return done("The PIN is removed. The subscriber may choose another.", "show_subscriber", phone_number=phone_number)


def _answer(
    find: Callable[[Search, RequestContext], SearchReply],
    columns: tuple[Column, ...],
    kinds: tuple[str, ...],
    context: RequestContext,
) -> Any:
    """The hits; the only one opens at once."""
    box = TableFilter("q", "Search")
    kind = TableFilter("kind", "Kind", {each: each.capitalize() for each in kinds})
    day = TableFilter("day", "Created on", input_type="date")
    text = box.chosen
    is_searched = _SHORTEST <= len(text) <= _LONGEST and "\0" not in text
    wanted = Search(text, kind.chosen or None, forms.day(day.chosen), forms.day(day.chosen, is_last=True))
    hits = _hits(find, wanted, context) if is_searched else ()
    address = link_to(hits[0].kind, hits[0].id) if len(hits) == 1 else None
    if is_searched and not hits and not g.person.is_operator and context.may("api_keys:list"):
        address = _key_page(text, context) or _request_page(text, context)
    if address and not {"format", "kind", "day"} & request.args.keys():
        return redirect(address)
    table = DataTable(gettext("What was found for %(text)s", text=text), columns, hits, filters=(box, kind, day))
    number = phone_number(forms.phone_number(text) or "")
    history = link_to("subscriber", number) if number and context.may("transactions:read") else None
    return show_table("console/search.html", table, text=text, is_searched=is_searched, history=history)


def _key_page(apikey: str, context: RequestContext) -> str | None:
    """The page of a deleted key; None for no such key."""
    try:
        return link_to("key", services().key_reader.deleted(apikey, context).id)
    except ServiceError:
        return None


def _request_page(request_id: str, context: RequestContext) -> str | None:
    """The page of a request that was refused and so changed nothing; None for no such request."""
    try:
        services().request_log.get(request_id, context)
    except ServiceError:
        return None
    return url_for("console.show_request", request_id=request_id)


def _hits(
    find: Callable[[Search, RequestContext], SearchReply], query: Search, context: RequestContext
) -> tuple[SearchHit, ...]:
    """Objects with the whole value; else those with the number, the amount or the part that the text may mean."""
    if hits := find(query, context).items:
        return hits
    number = forms.phone_number(query.q)
    if number != query.q:
        return find(replace(query, q=str(number)), context).items
    recent = SearchRecent(kind=query.kind, from_at=query.from_at, to_at=query.to_at)
    if match := _AMOUNT.fullmatch(query.q):
        try:
            sought = replace(recent, amount_cents=forms.cents(match[1]))
            if match[2]:
                sought = replace(sought, from_at=_day(match[2]), to_at=_day(match[2], is_last=True))
        except ServiceError:
            return ()
        if hits := services().search.recent(sought, context).items:
            return hits
    if len(query.q) < SHORTEST_PART or is_id(query.q.lower()):
        return ()
    return services().search.recent(replace(recent, part=query.q), context).items


def _day(text: str, *, is_last: bool = False) -> datetime | None:
    """The beginning or the end of a day, which may be `today` or `yesterday`."""
    today = forms.today()
    days = {"today": today, "yesterday": today - timedelta(days=1)}
    return forms.day(str(days.get(text.lower(), text)), is_last=is_last)
