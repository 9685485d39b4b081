"""Search: one box on every page, and everything that happened with one phone number."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from flask import flash, g, redirect, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.console.links import link_to
from ussd_server.console.tables import Column, DataTable, TableFilter, show_table
from ussd_server.context import SEND, RequestContext
from ussd_server.languages import gettext
from ussd_server.security.credentials import SECRET_PREFIX, may_be_apisecret
from ussd_server.services.search.messages import KINDS, Search, SearchHit, SearchRecent, SearchReply, without_repeats
from ussd_server.services.subscribers.messages import GetHistory, ResetPin
from ussd_server.status import ServiceError
from ussd_server.values import is_id, phone_number

_LONGEST = 64
_COLUMNS = (
    Column("kind", "Kind"),
    Column("title", "What"),
    Column("sentence", "How it is"),
    Column("created_at", "Created", "moment"),
    Column("id", "Id", "id"),
)
_COLUMNS_OF_OPERATORS = (Column("client", "Client"), *_COLUMNS)
_SHILLINGS = r"(?:UGX|USH|SHS?)\.?"
_AMOUNT = re.compile(
    rf"(?:{_SHILLINGS})?\s*([0-9][0-9.,]*)\s*(?:/[=-]|{_SHILLINGS})?"
    r"(?:\s+(today|yesterday|[0-9]{4}-[0-9]{2}-[0-9]{2}))?",
    re.ASCII | re.I,
)


@console.page("GET", "/search", needs="search:read")
def search(context: RequestContext) -> Any:
    """What the client has of an id, also of a request, a reference, a receipt or a phone number."""
    return _answer(services().search.search, _COLUMNS, KINDS, context)


@console.page("GET", "/operator/search", who="operator")
def search_all_clients(context: RequestContext) -> Any:
    """The same over all clients."""
    return _answer(services().search.find, _COLUMNS_OF_OPERATORS, (*KINDS, "movement"), context)


@console.page("POST", "/search", needs="search:read")
@console.page("POST", "/operator/search", who="operator", name="seek_for_operators")
def seek(context: RequestContext) -> Any:
    """Lead to what the box on every page asks for. A secret leads to its key and never stands in an address."""
    text = request.form.get("q", "").strip()
    return _key_of_secret(text, context) or redirect(url_for(_own_search(), q=text), 303)


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
    if of_secret := _key_of_secret(text, context):
        return of_secret
    is_searched = 0 < len(text) <= _LONGEST
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


def _key_of_secret(text: str, context: RequestContext) -> Any:
    """Where a pasted secret leads: to its key, else to an empty search. None for what is no secret."""
    if is_id(text) or not may_be_apisecret(text):
        return None
    may_list = g.person.is_operator or context.may("api_keys:list")
    if key_id := services().key_reader.of_secret(text, context) if may_list else None:
        flash("This key has the secret that you searched for. If others may have read it, stop the key now.", "warn")
        return redirect(link_to("key", key_id) or "", 303)
    if SECRET_PREFIX not in text:
        return None
    flash("No API key was found for the secret that you searched for.", "warn")
    return redirect(url_for(_own_search()), 303)


def _own_search() -> str:
    return "console.search_all_clients" if g.person.is_operator else "console.search"


def _hits(
    find: Callable[[Search, RequestContext], SearchReply], query: Search, context: RequestContext
) -> tuple[SearchHit, ...]:
    """Objects with the whole value first, then recent ones with the amount or the words that the text may mean."""
    number = forms.phone_number(query.q)
    exact = find(query, context).items or find(replace(query, q=str(number)), context).items
    amount = _AMOUNT.fullmatch(query.q)
    if is_id(query.q.lower()) or (exact and (phone_number(str(number)) or (len(exact) == 1 and not amount))):
        return exact
    sought = SearchRecent(query.q, kind=query.kind, from_at=query.from_at, to_at=query.to_at)
    if amount:
        sought = _with_amount(sought, amount[1], amount[2])
    return without_repeats([*exact, *services().search.recent(sought, context).items])


def _with_amount(sought: SearchRecent, amount: str, day: str | None) -> SearchRecent:
    """The search, also for payments of an amount; on a day, where one is named. As it is for what is no amount."""
    try:
        amount_cents = forms.cents(amount)
        if day is None:
            return replace(sought, amount_cents=amount_cents)
        return replace(sought, text=None, amount_cents=amount_cents, from_at=_day(day), to_at=_day(day, is_last=True))
    except ServiceError:
        return sought


def _day(text: str, *, is_last: bool = False) -> datetime | None:
    """The beginning or the end of a day, which may be `today` or `yesterday`."""
    today = forms.today()
    days = {"today": today, "yesterday": today - timedelta(days=1)}
    return forms.day(str(days.get(text.lower(), text)), is_last=is_last)
