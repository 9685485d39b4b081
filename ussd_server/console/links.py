"""Pages of objects: their addresses by kind, and an operator's request on behalf of a client."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flask import g, url_for

from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.clients.messages import ClientView

_PAGES = {
    "transaction": ("show_transaction", "transaction_id"),
    "session": ("show_session", "session_id"),
    "message": ("show_message", "message_id"),
    "event": ("show_event", "event_id"),
    "key": ("show_api_key", "api_key_id"),
    "payout": ("show_payout", "payout_id"),
    "menu": ("show_menu", "menu_id"),
    "webhook": ("show_webhook", "webhook_id"),
    "person": ("show_person", "user_id"),
    "subscriber": ("show_subscriber", "phone_number"),
    "payment_code": ("show_payment_code", "code"),
}
_PAGES_OF_OPERATORS = {
    "transaction": ("show_any_transaction", "transaction_id"),
    "session": ("show_any_session", "session_id"),
    "event": ("show_any_event", "event_id"),
    "payout": ("show_any_payout", "payout_id"),
    "key": ("explain_api_key", "api_key_id"),
    "client": ("show_client", "client_id"),
    "channel": ("show_channel", "channel_id"),
    "difference": ("show_difference", "difference_id"),
    "statement": ("show_reconciliation", "statement_id"),
    "incoming": ("show_incoming", "incoming_id"),
}


def link_to(kind: str, object_id: str | None) -> str | None:
    """The address of an object's page for the person who signed in; None for no object and a kind without a page."""
    page = (_PAGES_OF_OPERATORS if g.person.is_operator else _PAGES).get(kind)
    if page is None or not object_id:
        return None
    view, variable = page
    variables: dict[str, Any] = {variable: object_id}
    return url_for(f"console.{view}", **variables)


def public_address(view: str, **variables: Any) -> str:
    """The whole address of a view, to be copied: on `USSD_PUBLIC_URL`, else on the host that the browser asked for."""
    public_url = services().settings.public_url
    if public_url is None:
        return url_for(view, **variables, _external=True)
    return public_url + url_for(view, **variables)


def operators_view(view: str) -> str:
    """The operators' name of a view of a client's page: `show_any_payout` for `show_payout`."""
    return view.replace("_", "_any_", 1)


def own_view(view: str) -> str:
    """The endpoint of a view of a client's page for the person who signed in."""
    return f"console.{operators_view(view) if g.person.is_operator else view}"


def acting_for(client: ClientView, context: RequestContext) -> RequestContext:
    """The operator's request, on behalf of a client."""
    return replace(context, caller=replace(context.caller, client_id=client.client_id))
