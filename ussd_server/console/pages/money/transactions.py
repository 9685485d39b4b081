"""Transactions: listed, explained and given back; for operators also what they propose about one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from flask import Response, request

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.console.links import link_to, operators_view
from ussd_server.console.live import show_live
from ussd_server.console.pages.service.proposals import proposal_about
from ussd_server.console.tables import (
    PERIOD,
    PHONE_NUMBER,
    Column,
    DataTable,
    TableFilter,
    chosen,
    pages,
    show_table,
    words_of,
)
from ussd_server.console.timeline import timeline_of
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.clients.messages import ClientView
from ussd_server.services.request_log.messages import ListRequests
from ussd_server.services.transactions import messages
from ussd_server.services.webhooks.messages import DeliveryStatus, EventDeliveries
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id

_REFUSED_BY_PROVIDER = tuple(code for code in Code if code.http_status == 502)

_COLUMNS = (
    Column("created_at", "When", "moment", link=lambda row: link_to("transaction", row.transaction_id)),
    Column("type", "Type", "word", is_minor=True),
    Column("phone_number", "Phone number", "phone"),
    Column("amount", "Amount", "money"),
    Column("status", "Status", "status"),
    Column("reference", "Reference", "reference"),
    Column("description", "Description", is_minor=True),
    Column("outcome", "Receipt or failure", "sentence", value=lambda row: _outcome(row), where="page"),
    Column("provider_transaction_id", "Receipt", where="files"),
    Column("failure", "Failure", value=lambda row: row.failure.code if row.failure else None, where="files"),
    Column("provider", "Provider", where="files"),
    Column("fee", "Fee", "money", where="files"),
    Column("made_by", "Made by", value=lambda row: row.made_by.name or row.made_by.id, where="files"),
    Column("made_by_kind", "Made by a", value=lambda row: row.made_by.kind.value, where="files"),
    Column("request_id", "Request id", "id", where="files"),
    Column("transaction_id", "Id", "id", where="files"),
    Column("metadata", "Metadata", value=lambda row: _metadata(row), where="files"),
)
_FILTERS = {
    "status": TableFilter("status", "Status", words_of(messages.TransactionStatus), read=messages.TransactionStatus),
    "type": TableFilter("type", "Type", words_of(messages.TransactionType), read=messages.TransactionType),
    "phone_number": PHONE_NUMBER,
    "amount_cents": TableFilter("amount", "Amount", placeholder="5,000", read=forms.cents),
    "reference": TableFilter("reference", "Reference"),
    "provider_transaction_id": TableFilter("receipt", "Receipt"),
    **PERIOD,
}


@console.page("GET", "/transactions", needs="transactions:read")
@console.operators_page("GET", "/operator/clients/<client_id>/transactions")
def list_transactions(context: RequestContext, client: ClientView | None = None) -> Response:
    """The transactions of a client, newest first; `key_id` in the URL filters by the key that made them."""
    key_id = request.args.get("key_id", "")
    by_key = {"key_id": TableFilter("key_id", "Key", {key_id: f"…{key_id[-7:]}"})} if is_id(key_id) else {}
    filters = by_key | _FILTERS
    listed = pages(services().transactions.list, messages.ListTransactions(**chosen(filters)), context)
    doubles = services().transactions.doubles([row.transaction_id for row in listed.items], context)
    table = DataTable(
        "Transactions, newest first",
        tuple(replace(each, note=partial(_double, doubles)) if each.name == "status" else each for each in _COLUMNS),
        listed,
        filters.values(),
        empty_title="No transaction yet",
        empty_text="" if client else "Payments that your programs and menus make appear here.",
    )
    return show_table("console/transactions/list.html", table, client=client)


@console.page("GET", "/transactions/<transaction_id>", needs="transactions:read", shows="transaction")
def show_transaction(context: RequestContext, transaction_id: str) -> Response:
    """One transaction: where its money is, and everything that happened to it."""
    values = about_payment(transaction_id, context)
    view, refunds = values["view"], values["refunds"]
    number = f"-{len(refunds) + 1}" if refunds else ""
    suggested = f"{view.reference[: messages.REFERENCE.longest - 11]}-refund{number}"
    return show_live(
        "console/transactions/transaction.html",
        "console/transactions/live.html",
        **values,
        suggested_reference=suggested,
        left_cents=view.amount_cents - view.refunded_amount_cents,
    )


@console.page(
    "POST",
    "/transactions/<transaction_id>/refund",
    needs="transactions:send",
    fresh_code=True,
    form_on="show_transaction",
    refusals=_REFUSED_BY_PROVIDER,
)
def refund_transaction(context: RequestContext, transaction_id: str) -> Any:
    form = request.form
    amount_cents, reference = forms.cents(form.get("amount", "")), form.get("reference", "").strip()
    if not 0 < len(reference) <= messages.REFERENCE.longest:
        raise ServiceError(Code.INVALID_REQUEST, "Give the refund a reference of 1 to 64 characters.")
    wanted = messages.CreateRefund(transaction_id, reference, amount_cents, reason=form.get("reason", "").strip())
    refund = services().refunds.create(wanted, context)
    refund_id = refund.transaction.transaction_id
    if refund.replayed:
        return done("This refund was made before.", "show_transaction", tone="warn", transaction_id=refund_id)
    return done("The refund is on its way to the payer.", "show_transaction", transaction_id=refund_id)


@console.page("POST", "/transactions/<transaction_id>/notes", needs="transactions:write", form_on="show_transaction")
@console.operators_page("POST", "/operator/transactions/<transaction_id>/notes", form_on="show_transaction")
def write_note(context: RequestContext, transaction_id: str, client: ClientView | None = None) -> Any:
    services().notes.write(messages.WriteNote(transaction_id, request.form.get("note", "")), context)
    view = operators_view("show_transaction") if client else "show_transaction"
    return done("The note is written.", view, transaction_id=transaction_id)


@console.operators_page("GET", "/operator/transactions/<transaction_id>", name="show_transaction", shows="transaction")
def show_transaction_of_client(context: RequestContext, transaction_id: str, client: ClientView) -> Response:
    return show_live(
        "console/operator/transaction.html",
        "console/transactions/live.html",
        **about_payment(transaction_id, context, client),
        proposal=proposal_about(transaction_id, context),
        may_be_unmoved=services().releases.may_be_unmoved(transaction_id, context),
    )


def about_payment(transaction_id: str, context: RequestContext, client: ClientView | None = None) -> dict[str, Any]:
    """The values of the page of one transaction; for operators, who act for `client`, also of its review."""
    item = services().reviews.show(transaction_id, context) if client else None
    view = item.transaction if item else services().transactions.get(messages.GetTransaction(transaction_id), context)
    events = services().events.list_of_object(view.transaction_id, context)
    original, payout = None, None
    if view.refund_of is not None:
        original = services().transactions.get(messages.GetTransaction(view.refund_of), context)
    if view.payout_id is not None and context.may("payouts:read"):
        payout = services().payouts.get(view.payout_id, context)
    return {
        "view": view,
        "item": item,
        "client": client,
        "original": original,
        "payout": payout,
        "request_page": _logged_request(view, context),
        "timeline": timeline_of(view),
        "double": services().transactions.doubles([view.transaction_id], context).get(view.transaction_id),
        "refunds": services().refunds.list(view.transaction_id, context),
        "notes": services().notes.list(view.transaction_id, context),
        "events": events,
        "is_live": view.completed_at is None or _is_sending(events),
        # It became final since the page was loaded.
        "reloads": view.completed_at is not None and "open" in request.args,
    }


def _logged_request(view: messages.TransactionHistory, context: RequestContext) -> str | None:
    """The id of the request that made a transaction, where its page can be read; else None."""
    if view.request_id is None or context.caller.operator or not context.may("api_keys:list"):
        return None
    logged = services().request_log.list(ListRequests(request_id=view.request_id, limit=1), context)
    return view.request_id if logged.items else None


def _double(doubles: Mapping[str, str], view: messages.TransactionView) -> str | None:
    return "possible double" if view.transaction_id in doubles else None


def _outcome(view: messages.TransactionView) -> str | None:
    return gettext(view.failure.message) if view.failure else view.provider_transaction_id


def _metadata(view: messages.TransactionView) -> str | None:
    return json.dumps(view.metadata, ensure_ascii=False) if view.metadata else None


def _is_sending(events: tuple[EventDeliveries, ...]) -> bool:
    """Whether the first attempt of a delivery is still to come."""
    deliveries = [delivery for event in events for delivery in event.deliveries]
    return any(each.status is DeliveryStatus.WAITING and not each.attempts for each in deliveries)
