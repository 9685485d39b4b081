"""Events: what clients are sent, each attempt to deliver it, and redelivery."""

from __future__ import annotations

import shlex
from datetime import timedelta
from decimal import Decimal
from typing import Any

from flask import Response, request, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done, local_moment
from ussd_server.console.live import show_live
from ussd_server.console.tables import BEFORE, Column, DataTable, TableFilter, chosen, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.services.clients.messages import ClientView
from ussd_server.services.webhooks.messages import (
    EVENT_TYPES,
    DeliveryAttemptView,
    DeliveryStatus,
    DeliveryView,
    EventDeliveries,
    EventView,
    ListEvents,
    RedeliverEvents,
)
from ussd_server.status import Code, ServiceError

_UNTIL_SENT = timedelta(seconds=10)
"""How long an event may wait for the worker before the page says that it goes to no webhook."""
_MOST_CHOSEN = 100
_STATES = marked({"waiting": "Not delivered yet", "dead": "Given up"})
_WORST_FIRST = (DeliveryStatus.DEAD, DeliveryStatus.WAITING, DeliveryStatus.CANCELLED, DeliveryStatus.DELIVERED)
_COLUMNS = (
    Column("type", "Type", "code", link=lambda event: url_for("console.show_event", event_id=event.id)),
    Column("created_at", "Written", "moment"),
    Column("reference", "Reference", "reference", value=lambda event: event.data.get("reference")),
    Column("amount", "Amount", "money", value=lambda event: _amount_cents(event)),
    Column(
        "phone_number",
        "Phone number",
        "phone",
        value=lambda event: event.data.get("phone_number"),
        is_minor=True,
    ),
    Column("delivery", "Delivery", "status", value=lambda event: _state_of(event), missing="no webhook"),
    Column("object_id", "About", "id", where="files"),
    Column("sequence", "Number", "number", where="files"),
    Column("id", "Id", "id"),
)
_FILTERS = {
    "type": TableFilter("type", "Type", {name: name for name in EVENT_TYPES}),
    "delivery": TableFilter("delivery", "Delivery", _STATES, read=DeliveryStatus),
    "from_at": TableFilter("from", "From", input_type="datetime-local", read=local_moment),
    "to_at": BEFORE,
}


@console.page("GET", "/events", needs="webhooks:read")
def list_events(context: RequestContext) -> Response:
    table = DataTable(
        "Events, newest first",
        _COLUMNS,
        pages(services().events.list_with_deliveries, ListEvents(**chosen(_FILTERS)), context),
        _FILTERS.values(),
        empty_title="No event yet",
        empty_text="Each change of a payment writes an event here.",
        select_name="event_ids" if context.may("webhooks:write") else None,
        select_value=lambda event: event.id,
    )
    return show_table("console/events/list.html", table, chosen={each.name: each.chosen for each in table.filters})


@console.page("POST", "/events/redeliver", needs="webhooks:write", form_on="list_events")
def redeliver_events(context: RequestContext) -> Any:
    form = request.form
    from_at, to_at = local_moment(form.get("from", "")), local_moment(form.get("to", ""))
    if from_at is None or to_at is None:
        raise ServiceError(Code.INVALID_REQUEST, "Give the beginning and the end of the period.")
    only = "failed" if form.get("only") else None
    period = RedeliverEvents(from_at, to_at, form.get("type") or None, only)
    outcome = services().events.redeliver_range(period, context)
    text = gettext("Events that are sent again: %(count)s.", count=f"{outcome.events:,}")
    kept = {name: value for name in ("type", "from", "to") if (value := form.get(name))}
    return done(text, "list_events", tone="good" if outcome.events else "warn", **kept)


@console.page("POST", "/events/redeliver-chosen", needs="webhooks:write")
def redeliver_chosen_events(context: RequestContext) -> Any:
    outcome = services().events.redeliver_chosen(request.form.getlist("event_ids")[:_MOST_CHOSEN], context)
    if not outcome.events:
        return done("No event was sent: choose one or more first.", "list_events", tone="warn")
    return done(gettext("Events that are sent again: %(count)s.", count=f"{outcome.events:,}"), "list_events")


@console.page("GET", "/events/<event_id>", needs="webhooks:read", shows="event")
@console.operators_page("GET", "/operator/events/<event_id>", shows="event")
def show_event(context: RequestContext, event_id: str, client: ClientView | None = None) -> Response:
    shown = _shown(event_id, context)
    return show_live("console/events/event.html", "console/events/deliveries.html", **shown, client=client)


@console.page("POST", "/events/<event_id>/redeliver", needs="webhooks:write")
def redeliver_event(context: RequestContext, event_id: str) -> Any:
    services().events.redeliver(event_id, context)
    return done(
        "The event is sent again to every enabled webhook that takes its type.", "show_event", event_id=event_id
    )


def _state_of(event: EventDeliveries) -> str | None:
    """The worst state of the last delivery to each address; None for an event that no webhook takes."""
    states = {delivery.url: delivery.status for delivery in event.deliveries}.values()
    return next((state.value for state in _WORST_FIRST if state in states), None)


def _amount_cents(event: EventView) -> int | None:
    """The amount of the payment, or of the payout, that an event is about."""
    shillings = event.data.get("amount", event.data.get("total_amount"))
    return None if shillings is None else round(Decimal(str(shillings)) * 100)


def _curl(delivery: DeliveryView, attempt: DeliveryAttemptView, body: str | None) -> str:
    """The command that sends the request of an attempt again."""
    headers = [part for name, value in attempt.headers.items() for part in ("-H", f"{name}: {value}")]
    return shlex.join(["curl", "-sS", "-X", "POST", delivery.url, *headers, "--data-raw", body or ""])


def _shown(event_id: str, context: RequestContext) -> dict[str, Any]:
    event: EventDeliveries = services().events.get(event_id, context)
    sent = services().delivery_attempts.of_event(event_id, context)
    deliveries = [
        (delivery, [attempt for attempt in sent.attempts if attempt.delivery_id == delivery.id])
        for delivery in reversed(event.deliveries)
    ]
    return {
        "event": event,
        "about": EVENT_TYPES.get(event.type, ""),
        "amount_cents": _amount_cents(event),
        "body": sent.body,
        "curl": _curl,
        "deliveries": deliveries,
        "is_new": event.created_at > services().clock.now() - _UNTIL_SENT,
    }
