"""API keys: listed, created, shown, rotated and deleted; for operators, what a call with any key would get."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from flask import Response, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.charts import Point
from ussd_server.console.formats import short_day
from ussd_server.console.forms import any_sum, day, done, typed
from ussd_server.console.tables import Column, DataTable, TableFilter, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.services.clients.keys import messages
from ussd_server.services.request_log.messages import GetKeyUsage, UsageItem
from ussd_server.status import Code, ServiceError
from ussd_server.values import kampala_day, shillings

_COLUMNS = (
    Column("name", "Name", missing="unnamed", link=lambda key: url_for("console.show_api_key", api_key_id=key.id)),
    Column("apikey", "API key", "code"),
    Column("state", "State", "status"),
    Column("scopes", "Scopes", value=lambda key: key.scopes or "everything", kind="sentence"),
    Column("daily_limit", "Daily limit", "money", missing="none", where="files"),
    Column("last_used_at", "Last use", "moment", missing="never used"),
    Column("last_used_address", "From", "code", where="files"),
    Column("created_by", "Created by", missing="the operator", where="files"),
    Column("created_at", "Created", "moment", where="files"),
    Column("updated_at", "Changed", "moment", where="files"),
    Column("expires_at", "Expires", "moment", missing="never"),
    Column(
        "allowed_addresses",
        "Allowed addresses",
        value=lambda key: " ".join(key.allowed_addresses or ()) or None,
        missing="any",
        where="files",
    ),
    Column("id", "Id", "id"),
)
_STATES = {"active": "Active", "disabled": "Disabled", "expired": "Expired"}
_GRACE = {"86400": "1 day", "3600": "1 hour", "604800": "7 days", "0": "not at all: refuse it now"}


@console.page("GET", "/api-keys", needs="api_keys:list")
def list_api_keys(context: RequestContext) -> Response:
    """All keys of the client; a client has 50 at most."""
    state, text = (
        TableFilter("state", "State", _STATES),
        TableFilter("q", "Name, API key or id", placeholder=marked("Name, key or id")),
    )
    keys = [
        key
        for key in services().key_reader.list(context)
        if state.chosen in ("", key.state) and (not text.chosen or _is_named(key, text.chosen))
    ]
    table = DataTable(
        "API keys, newest first",
        _COLUMNS,
        keys,
        filters=(state, text),
        empty_title="No API key yet",
        empty_text="A key lets your programs call the API.",
        select_name="api_key_ids" if context.may("api_keys:delete") else None,
        select_value=lambda key: key.id,
    )
    return show_table("console/api_keys/list.html", table)


@console.page("GET", "/api-keys/new", needs="api_keys:create")
def new_api_key(_: RequestContext) -> str:
    return _form({})


@console.page("POST", "/api-keys/new", needs="api_keys:create", fresh_code=True, form_on="new_api_key")
def create_api_key(context: RequestContext) -> Any:
    key = services().api_keys.create(messages.CreateApiKey(**_given_fields()), context)
    return done(
        "The API key is ready. Reveal its secret and give both to your program.", "show_api_key", api_key_id=key.id
    )


@console.page("GET", "/api-keys/<api_key_id>/edit", needs="api_keys:rotate")
def edit_api_key(context: RequestContext, api_key_id: str) -> str:
    key = services().key_reader.show(api_key_id, context)
    form = {
        "name": key.name,
        "access": "all" if key.scopes is None else "some",
        "scopes": (key.scopes or "").split(),
        "expires_at": _last_day(key.expires_at),
        "allowed_addresses": "\n".join(key.allowed_addresses or ()),
        "daily_limit": key.daily_limit_cents and shillings(key.daily_limit_cents),
    }
    return _form(form, key)


@console.page("POST", "/api-keys/<api_key_id>/edit", needs="api_keys:rotate", fresh_code=True, form_on="edit_api_key")
def update_api_key(context: RequestContext, api_key_id: str) -> Any:
    """Change a key; what it may no longer do is refused from now on."""
    key = services().key_reader.show(api_key_id, context)
    fields = _given_fields()
    if request.form.get("expires_at", "") == _last_day(key.expires_at):
        # The key may expire within that day.
        del fields["expires_at"]
    services().api_keys.change(messages.UpdateApiKey(key.id, **fields), context)
    return done("The API key is changed, for every call from now on.", "show_api_key", api_key_id=key.id)


@console.page("POST", "/api-keys/<api_key_id>/disable", needs="api_keys:rotate", fresh_code=True)
def disable_api_key(context: RequestContext, api_key_id: str) -> Any:
    services().api_keys.change(messages.UpdateApiKey(api_key_id, is_active=0), context)
    return done(
        "The API key is disabled. Calls with it are refused from now on.", "show_api_key", api_key_id=api_key_id
    )


@console.page("GET", "/api-keys/<api_key_id>", needs="api_keys:list", shows="key")
def show_api_key(context: RequestContext, api_key_id: str) -> str:
    """One key without its secret, and its calls against both limits; of a deleted key what is left."""
    try:
        return _key_page(api_key_id, context)
    except ServiceError as error:
        if error.code is not Code.NOT_FOUND:
            raise
    deleted = services().key_reader.deleted(api_key_id, context)
    return render_template("console/api_keys/deleted.html", key=deleted)


@console.page("GET", "/api-keys/<api_key_id>/calls", needs="api_keys:list")
def show_api_key_calls(context: RequestContext, api_key_id: str) -> str:
    """The part of a key's page that refreshes by itself."""
    calls = services().key_reader.calls(api_key_id, context)
    return render_template("console/api_keys/calls.html", calls=calls, api_key_id=api_key_id)


@console.page("POST", "/api-keys/<api_key_id>/reveal", needs="api_keys:list", fresh_code=True)
def reveal_api_key(context: RequestContext, api_key_id: str) -> str:
    return _key_page(api_key_id, context, services().key_reader.reveal(api_key_id, context))


@console.page("POST", "/api-keys/<api_key_id>/rotate", needs="api_keys:rotate", fresh_code=True)
def rotate_api_key(context: RequestContext, api_key_id: str) -> Any:
    grace = request.form.get("grace_period_seconds", "")
    if grace not in _GRACE:
        raise ServiceError(Code.INVALID_REQUEST, "Choose how long the old secret stays valid.")
    services().api_keys.rotate(messages.RotateApiKey(api_key_id, int(grace)), context)
    return done(
        "The key has a new secret. Reveal it and give it to your program.", "show_api_key", api_key_id=api_key_id
    )


@console.page("POST", "/api-keys/<api_key_id>/delete", needs="api_keys:delete", fresh_code=True)
def delete_api_key(context: RequestContext, api_key_id: str) -> Any:
    services().api_keys.delete(api_key_id, context)
    return done("The API key is deleted. Calls with it are refused from now on.", "list_api_keys")


@console.page("GET", "/api-keys/chosen", needs="api_keys:delete")
def show_chosen_api_keys(context: RequestContext) -> Any:
    """The chosen keys by their names, and the button that deletes them."""
    chosen = set(request.args.getlist("api_key_ids"))
    keys = [key for key in services().key_reader.list(context) if key.id in chosen]
    if not keys:
        return done("No key was deleted: choose one or more keys first.", "list_api_keys", tone="warn")
    return render_template("console/api_keys/delete.html", keys=keys)


@console.page("POST", "/api-keys/delete", needs="api_keys:delete", fresh_code=True)
def delete_api_keys(context: RequestContext) -> Any:
    chosen = tuple(dict.fromkeys(request.form.getlist("api_key_ids")))
    if not chosen:
        return done("No key was deleted: choose one or more keys first.", "list_api_keys", tone="warn")
    outcome = services().api_keys.delete_many(messages.DeleteApiKeys(chosen[:100]), context)
    counts = {"count": outcome.deleted_count, "requested": outcome.requested}
    text = gettext("%(count)s of %(requested)s API keys deleted.", **counts)
    return done(text, "list_api_keys", tone="warn" if outcome.failed else "good")


@console.page("GET", "/operator/api-keys/<api_key_id>", who="operator", shows="key")
def explain_api_key(context: RequestContext, api_key_id: str) -> str:
    """What would happen to a call with a key of any client now, and why."""
    explained = services().key_explanations.explain(api_key_id, context)
    if explained.client is None:
        raise ServiceError(Code.NOT_FOUND, "API Key not found")
    return render_template("console/operator/api_key.html", explained=explained, api_key_id=api_key_id)


@console.page("GET", "/operator/api-keys", who="operator")
def find_any_api_key(context: RequestContext) -> str:
    """What would happen to a call with any client's key, named by itself or its id."""
    wanted = request.args.get("q", "").strip()
    explained = services().key_explanations.explain(wanted, context) if wanted else None
    return render_template("console/operator/api_keys.html", api_key_id=wanted, explained=explained)


@console.page("POST", "/operator/api-keys/set", who="operator")
def set_any_api_key(context: RequestContext) -> Any:
    key, action = request.form.get("key", ""), request.form.get("action")
    if action not in ("disable", "enable"):
        raise ServiceError(Code.INVALID_REQUEST, "Choose whether to disable or enable the key.")
    services().api_keys.set_active(key, action == "enable", context)
    return done(
        "The key is enabled. This holds for calls from now on."
        if action == "enable"
        else "The key is disabled. This holds for calls from now on.",
        "find_any_api_key",
        q=key,
    )


def _key_page(api_key_id: str, context: RequestContext, secret: str | None = None) -> str:
    reader = services().key_reader
    key: messages.ApiKeySummary = reader.show(api_key_id, context)
    usage = services().request_log.usage(GetKeyUsage(key.id, 30), context).items
    return render_template(
        "console/api_keys/key.html",
        key=key,
        secret=secret,
        may_reveal=reader.may_reveal(key, context),
        calls=reader.calls(api_key_id, context),
        api_key_id=key.id,
        grace_periods=_GRACE,
        used=_by_day(usage),
        refused_elsewhere=sum(each.count for each in usage if each.code == Code.ADDRESS_NOT_ALLOWED.name),
        is_unused=services().clock.now() - (key.last_used_at or key.created_at) > timedelta(days=90),
    )


def _by_day(usage: Sequence[UsageItem]) -> list[Point]:
    """The calls of each of the last 30 days, the oldest first; empty without a call."""
    counts = Counter[str]()
    for each in usage:
        counts[each.date] += each.count
    now = services().clock.now()
    days = [kampala_day(now - timedelta(days=back)) for back in reversed(range(30))]
    return [(short_day(date.fromisoformat(day)), counts[day]) for day in days] if counts else []


def _form(form: dict[str, Any], key: messages.ApiKeySummary | None = None) -> str:
    given = typed(form)
    return render_template(
        "console/api_keys/form.html",
        form=given if given is form else {**given, "scopes": request.form.getlist("scopes")},
        key=key,
        resources=messages.RESOURCES,
        actions=messages.ACTIONS,
        scopes=messages.SCOPES,
    )


def _given_fields() -> dict[str, Any]:
    """The fields of a key that a form gives; INVALID_REQUEST and INVALID_AMOUNT for those that cannot be read."""
    form = request.form
    scopes = tuple(form.getlist("scopes")) if form.get("access") == "some" else None
    if scopes == ():
        raise ServiceError(Code.INVALID_REQUEST, "Choose at least one scope.")
    return {
        "name": form.get("name", "").strip() or None,
        "scopes": scopes,
        "expires_at": day(form.get("expires_at", ""), is_last=True),
        "allowed_addresses": tuple(re.findall(r"[^\s,;]+", form.get("allowed_addresses", ""))) or None,
        "daily_limit_cents": any_sum(form.get("daily_limit", ""), "daily_limit"),
    }


def _is_named(key: messages.ApiKeySummary, text: str) -> bool:
    return text in (key.apikey, key.id) or text.lower() in (key.name or "").lower()


def _last_day(expires_at: datetime | None) -> str:
    """The last day of a key in Kampala, as a form has it."""
    return "" if expires_at is None else kampala_day(expires_at - timedelta(milliseconds=1))
