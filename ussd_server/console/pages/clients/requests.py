"""Requests: what programs and people called, and what was refused."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from flask import Response, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.links import link_to
from ussd_server.console.tables import PERIOD, Column, DataTable, TableFilter, chosen, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.services.clients.keys.messages import DeletedKey
from ussd_server.services.request_log.messages import ListRequests, RequestDetail, RequestView
from ussd_server.services.transactions.messages import GetTransaction
from ussd_server.status import ServiceError

_FILTERS = {
    "status": TableFilter("status", "Status", placeholder="400", read=lambda text: _number(text)),
    "code": TableFilter("code", "Code", placeholder="OK", read=str.upper),
    "path": TableFilter("path", "Path", placeholder="/api/transactions"),
    **PERIOD,
}


@console.page("GET", "/requests", needs="api_keys:list")
def list_requests(context: RequestContext) -> Response:
    """The client's requests that were refused or changed something, newest first."""
    names = _key_names(context)
    if deleted := _deleted_key(request.args.get("key_id", ""), names, context):
        names[deleted.id] = deleted.title
    columns = (
        Column("at", "When", "moment", link=lambda row: url_for("console.show_request", request_id=row.request_id)),
        Column(
            "key", "Caller", "person", value=lambda row: names.get(row.key_id, row.key_id) or row.person or "a person"
        ),
        Column("call", "Request", "path", value=lambda row: f"{row.method} {row.path}"),
        Column("status", "Status", "number", is_minor=True),
        Column("code", "Code", "word"),
        Column("message", "Message", "sentence", link=_object_page),
        Column("address", "From", "code", where="files"),
        Column("took_ms", "ms", "number", where="files"),
        Column("object_id", "Object", "id", where="files"),
        Column("request_id", "Request id", "id", where="files"),
    )
    filters = {"key_id": TableFilter("key_id", "Key", names)} | _FILTERS
    table = DataTable(
        "Requests, newest first",
        columns,
        pages(services().request_log.list, ListRequests(**chosen(filters)), context),
        filters.values(),
        empty_title="No request yet",
        empty_text="Refused calls and calls that change something appear here within a second.",
    )
    return show_table("console/requests/list.html", table, errors=services().request_log.errors(context))


@console.page("GET", "/requests/<request_id>", needs="api_keys:list")
def show_request(context: RequestContext, request_id: str) -> str:
    """One request, with its body where it was refused."""
    seen = services().request_log.get(request_id, context)
    return render_template(
        "console/requests/request.html",
        seen=seen,
        key_name=_key_names(context).get(seen.key_id or ""),
        made=_made_by(seen, context),
    )


def _object_page(seen: RequestView) -> str | None:
    """The page of the payment or the payout that a request made or changed; None for anything else."""
    kind = next((kind for kind in ("transaction", "payout") if f"/{kind}s" in seen.path), "")
    return link_to(kind, seen.object_id)


def _made_by(detail: RequestDetail, context: RequestContext) -> tuple[str, str, str] | None:
    """The payment or the payout that a request made or changed: kind, id and reference; None for anything else."""
    if detail.object_id is None:
        return None
    with suppress(ServiceError):
        if "/transactions" in detail.path:
            payment = services().transactions.get(GetTransaction(detail.object_id), context)
            return "transaction", payment.transaction_id, payment.reference
        if "/payouts" in detail.path:
            return "payout", detail.object_id, services().payouts.get(detail.object_id, context).reference
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _deleted_key(key_id: str, names: Mapping[str, str], context: RequestContext) -> DeletedKey | None:
    """The deleted key by which the list is filtered; None for any other."""
    with suppress(ServiceError):
        return services().key_reader.deleted(key_id, context) if key_id and key_id not in names else None
    return None


def _key_names(context: RequestContext) -> dict[str, str]:
    return {key.id: key.name or key.apikey for key in services().key_reader.list(context)}
