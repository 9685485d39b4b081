"""Webhooks: where a client's events are sent, and how these addresses answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.console.live import show_live
from ussd_server.console.tables import Column, DataTable, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.webhooks import messages
from ussd_server.status import Code, ServiceError

_GRACE = {"86400": "1 day", "3600": "1 hour", "604800": "7 days", "0": "not at all: stop signing with it now"}


def state_of(webhook: messages.WebhookView) -> str:
    """Whether a webhook accepts its deliveries, as a status."""
    return "disabled" if not webhook.is_active else "failing" if webhook.failing_since else "active"


_COLUMNS = (
    Column("url", "Address", link=lambda webhook: url_for("console.show_webhook", webhook_id=webhook.id)),
    Column("state", "State", "status", value=state_of),
    Column("types", "Events", value=lambda webhook: ", ".join(webhook.types or ()) or "all", kind="sentence"),
    Column("failing_since", "Failing since", "moment", missing="not failing"),
    Column("disabled_reason", "Why it is disabled", where="files"),
    Column("created_at", "Created", "moment"),
    Column("id", "Id", "id", where="files"),
)


@console.page("GET", "/webhooks", needs="webhooks:read")
def list_webhooks(context: RequestContext) -> Response:
    """All webhooks of the client; a client has 20 at most."""
    table = DataTable(
        "Webhooks, oldest first",
        _COLUMNS,
        services().webhooks.list(context).items,
        empty_title="No webhook yet",
        empty_text="A webhook tells your server at once what happens to your payments.",
    )
    return show_table("console/webhooks/list.html", table, grace_periods=_GRACE)


@console.page("GET", "/webhooks/new", needs="webhooks:write")
def new_webhook(_: RequestContext) -> str:
    return _form()


@console.page("POST", "/webhooks/new", needs="webhooks:write", form_on="new_webhook")
def create_webhook(context: RequestContext) -> Any:
    created = services().webhooks.create(messages.CreateWebhook(*_typed()), context)
    return _secret_page(gettext("The webhook is ready"), created.secret, created)


@console.page("GET", "/webhooks/<webhook_id>/edit", needs="webhooks:write")
def edit_webhook(context: RequestContext, webhook_id: str) -> str:
    webhook = services().webhooks.get(webhook_id, context)
    return _form(webhook)


@console.page("POST", "/webhooks/<webhook_id>/edit", needs="webhooks:write", form_on="edit_webhook")
def change_webhook(context: RequestContext, webhook_id: str) -> Any:
    services().webhooks.change(messages.ChangeWebhook(webhook_id, *_typed()), context)
    return done(
        "The webhook is changed. What waits goes to its address from now on.", "show_webhook", webhook_id=webhook_id
    )


@console.page("GET", "/webhooks/<webhook_id>", needs="webhooks:read", shows="webhook")
def show_webhook(context: RequestContext, webhook_id: str) -> Response:
    webhook = services().webhooks.get(webhook_id, context)
    return show_live(
        "console/webhooks/webhook.html",
        "console/webhooks/health.html",
        webhook=webhook,
        grace_periods=_GRACE,
        health=services().delivery_attempts.of_webhook(webhook.id, context),
        state=state_of(webhook),
    )


@console.page("POST", "/webhooks/<webhook_id>/test", needs="webhooks:write")
def test_webhook(context: RequestContext, webhook_id: str) -> Any:
    event = services().webhooks.test(webhook_id, context)
    return done("The test event is on its way. Its attempts appear below.", "show_event", event_id=event.id)


@console.page("POST", "/webhooks/<webhook_id>/rotate", needs="webhooks:write")
def rotate_webhook(context: RequestContext, webhook_id: str) -> Any:
    """Give a webhook another secret and show it this once."""
    subscriptions = services().webhooks
    rotated = subscriptions.rotate(messages.RotateWebhook(webhook_id, _grace_period()), context)
    webhook = subscriptions.get(webhook_id, context)
    return _secret_page(gettext("The secret is changed"), rotated.secret, webhook, rotated.previous_secret_expires_at)


@console.page("POST", "/webhooks/callbacks/rotate", needs="webhooks:write")
def rotate_callbacks(context: RequestContext) -> Any:
    rotated = services().webhooks.rotate_callbacks(messages.RotateCallbacks(_grace_period()), context)
    title = gettext("The secret of callbacks is changed")
    return _secret_page(title, rotated.secret, None, rotated.previous_secret_expires_at)


@console.page("POST", "/webhooks/<webhook_id>/enable", needs="webhooks:write")
def enable_webhook(context: RequestContext, webhook_id: str) -> Any:
    services().webhooks.enable(webhook_id, context)
    return done(
        "The webhook is enabled. Redeliver the events of the time when it was disabled, if you need them.",
        "show_webhook",
        webhook_id=webhook_id,
    )


@console.page("POST", "/webhooks/<webhook_id>/delete", needs="webhooks:write")
def delete_webhook(context: RequestContext, webhook_id: str) -> Any:
    services().webhooks.delete(webhook_id, context)
    return done("The webhook is deleted. Nothing more is sent to it.", "list_webhooks")


def _grace_period() -> int:
    seconds = request.form.get("grace_period_seconds", "")
    if seconds not in _GRACE:
        raise ServiceError(Code.INVALID_REQUEST, "Choose how long the old secret goes on signing.")
    return int(seconds)


def _typed() -> tuple[str, tuple[str, ...] | None]:
    """The address and the types of the form; None for all types."""
    types = tuple(request.form.getlist("types")) if request.form.get("which") == "some" else None
    if types == ():
        raise ServiceError(Code.INVALID_REQUEST, "Choose at least one type of event.")
    return request.form.get("url", "").strip(), types


def _form(webhook: messages.WebhookView | None = None) -> str:
    form: Mapping[str, str] = request.form
    types = tuple(request.form.getlist("types"))
    if webhook and not form:
        form = {"url": webhook.url, "which": "all" if webhook.types is None else "some"}
        types = webhook.types or ()
    return render_template(
        "console/webhooks/new.html",
        form=form,
        types=types,
        choices={name: about for name, about in messages.EVENT_TYPES.items() if name != messages.WEBHOOK_TEST},
        webhook_id=webhook and webhook.id,
        is_sandbox=services().settings.is_sandbox,
    )


def _secret_page(title: str, secret: str, webhook: messages.WebhookView | None, old_until: Any = None) -> str:
    return render_template(
        "console/webhooks/secret.html", title=title, secret=secret, webhook=webhook, old_until=old_until
    )
