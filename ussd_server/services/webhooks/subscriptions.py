"""Webhooks: the addresses that receive the events of a client, and the secrets that sign them."""

from __future__ import annotations

import base64
import secrets
from datetime import datetime, timedelta
from typing import Any

from peewee import ModelSelect, fn

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.sending import Delivery, Event, Webhook
from ussd_server.outbound.addresses import AddressGuard, AddressRefusedError
from ussd_server.security.key_ring import Vault
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.pages import find_by_id
from ussd_server.services.runtime import Runtime
from ussd_server.services.webhooks import messages
from ussd_server.services.webhooks.events import event_views, no_such_type, write_event
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds, new_id
from ussd_server.wire import DeletionResult, Page, columns_of, view_of_row, writer

MOST_WEBHOOKS_OF_A_CLIENT = 20

# The Standard Webhooks specification asks for 24 to 64 random bytes behind this prefix.
_SECRET_PREFIX = "whsec_"  # noqa: S105 - how every secret begins
_SECRET_BYTES = 32

_WRITE_DISABLED, _WRITE_TEST = writer(messages.WebhookDisabledView), writer(messages.WebhookTestView)
_WRITE_RECOVERED = writer(messages.WebhookRecoveredView)


class WebhookService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._vault, self._guard = runtime.clock, runtime.vault, runtime.guard

    def list(self, context: RequestContext) -> Page[messages.WebhookView]:
        """All webhooks of the client, oldest first."""
        context.require("webhooks:read")
        rows = _webhooks_of(context.client_id).order_by(Webhook.id)
        return Page(tuple(map(_view, rows)), None)

    def get(self, webhook_id: str, context: RequestContext) -> messages.WebhookView:
        """One webhook. NOT_FOUND for one that is not the client's."""
        context.require("webhooks:read")
        return _view(_find(_webhooks_of(context.client_id), webhook_id))

    def create(self, request: messages.CreateWebhook, context: RequestContext) -> messages.NewWebhookView:
        """Add a webhook; the answer alone shows its secret.

        INVALID_REQUEST for an address that may not be called, an unknown type, or a client with 20 webhooks.
        """
        context.require("webhooks:write")
        types = _checked_types(request.types)
        require_callable(self._guard, "url", request.url)
        now, secret = self._clock.now(), new_webhook_secret()
        row = new_webhook(self._vault, context.client_id, request.url, types, secret, now)
        with unit_of_work():
            for_update(Client.select(Client.id).where(Client.id == context.client_id)).get()
            if _webhooks_of(context.client_id).count() >= MOST_WEBHOOKS_OF_A_CLIENT:
                raise ServiceError(Code.INVALID_REQUEST, "Webhook limit reached")
            row.save(force_insert=True)
            _write_audit_event("webhook.created", row, context, now)
        return view_of_row(messages.NewWebhookView, row, types=_types_of(row), secret=secret)

    def change(self, request: messages.ChangeWebhook, context: RequestContext) -> messages.WebhookView:
        """Give a webhook another address and other types. Its secret stays; what waits goes to the new address.

        NOT_FOUND for one that is not the client's, INVALID_REQUEST as `create`.
        """
        context.require("webhooks:write")
        types = _checked_types(request.types)
        require_callable(self._guard, "url", request.url)
        with unit_of_work():
            row = _locked(request.webhook_id, context.client_id)
            if (row.url, row.types) != (request.url, types):
                if row.url != request.url:
                    # The health of the old address says nothing about the new one.
                    row.is_proven, row.failing_since = False, None
                    Delivery.update(url=request.url).where(*_waiting(row)).execute()
                row.url, row.types, row.updated_at = request.url, types, self._clock.now()
                row.save()
                _write_audit_event("webhook.changed", row, context, row.updated_at)
        return _view(row)

    def delete(self, webhook_id: str, context: RequestContext) -> DeletionResult:
        """Remove a webhook with its unsent deliveries. NOT_FOUND for one that is not the client's."""
        context.require("webhooks:write")
        now = self._clock.now()
        with unit_of_work():
            row = _locked(webhook_id, context.client_id)
            row.delete_instance()
            _cancel_deliveries(row, now)
            _write_audit_event("webhook.deleted", row, context, now)
        return DeletionResult(row.id, now)

    def rotate(self, request: messages.RotateWebhook, context: RequestContext) -> messages.RotatedSecretView:
        """Give a webhook another secret; for the grace period its calls carry the signatures of both.

        A secret that an earlier rotation had left signing ends now. NOT_FOUND for a webhook that is not the client's.
        """
        context.require("webhooks:write")
        with unit_of_work():
            return self._rotate(_locked(request.webhook_id, context.client_id), request.grace_period_seconds, context)

    def rotate_callbacks(
        self, request: messages.RotateCallbacks, context: RequestContext
    ) -> messages.RotatedSecretView:
        """Give the client another secret, or its first, for the callbacks of single transactions."""
        context.require("webhooks:write")
        with unit_of_work():
            row = locked_callbacks_row(self._vault, context.client_id, self._clock.now())
            return self._rotate(row, request.grace_period_seconds, context)

    def enable(self, webhook_id: str, context: RequestContext) -> messages.WebhookView:
        """Switch a webhook on again. Events of the time when it was off are sent only by redelivery."""
        context.require("webhooks:write")
        with unit_of_work():
            row = _locked(webhook_id, context.client_id)
            if not row.is_active:
                row.is_active, row.disabled_at, row.disabled_reason, row.failing_since = True, None, None, None
                row.updated_at = self._clock.now()
                row.save()
                _write_audit_event("webhook.enabled", row, context, row.updated_at)
        return _view(row)

    def test(self, webhook_id: str, context: RequestContext) -> messages.EventView:
        """Send a test event to one webhook. INVALID_REQUEST while it is switched off."""
        context.require("webhooks:write")
        now = self._clock.now()
        with unit_of_work():
            row = _locked(webhook_id, context.client_id)
            if not row.is_active:
                raise ServiceError(Code.INVALID_REQUEST, "The webhook is switched off; enable it first")
            # An object of its own, so that it never waits for an earlier test.
            event_id = write_event(
                row.client_id, messages.WEBHOOK_TEST, new_id(now), _WRITE_TEST(messages.WebhookTestView(row.id)), now
            )
            return event_views([Event.get_by_id(event_id)])[0]

    def _rotate(self, row: Webhook, grace_period_seconds: int, context: RequestContext) -> messages.RotatedSecretView:
        now, secret = self._clock.now(), new_webhook_secret()
        row.previous_secret_sealed = row.previous_secret_expires_at = None
        if grace_period_seconds:
            row.previous_secret_sealed = row.secret_sealed
            row.previous_secret_expires_at = now + timedelta(seconds=grace_period_seconds)
        row.secret_sealed = self._vault.encrypt(secret, row.client_id, row.id)
        row.updated_at = now
        row.save()
        _write_audit_event("webhook.rotated", row, context, now)
        return messages.RotatedSecretView(secret, row.previous_secret_expires_at)


def _checked_types(types: tuple[str, ...] | None) -> list[str] | None:
    """The types, each once. INVALID_REQUEST for an unknown one."""
    for unknown in set(types or ()) - messages.EVENT_TYPES.keys():
        raise ServiceError(Code.INVALID_REQUEST, f"types: {no_such_type(unknown)}")
    return None if types is None else [*dict.fromkeys(types)]


def require_callable(guard: AddressGuard, field: str, url: str) -> None:
    """INVALID_REQUEST with the guard's sentence unless an address may be called."""
    try:
        guard.check_url(url)
    except AddressRefusedError as refusal:
        raise ServiceError(Code.INVALID_REQUEST, f"{field}: {refusal}.") from None


def new_webhook_secret() -> str:
    """A fresh secret of 256 random bits in the form of the Standard Webhooks specification."""
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def new_webhook(
    vault: Vault, client_id: str, url: str | None, types: list[str] | None, secret: str, now: datetime
) -> Webhook:
    """A row that is not saved yet."""
    row_id = new_id(now)
    return Webhook(
        id=row_id,
        client_id=client_id,
        url=url,
        types=types,
        secret_sealed=vault.encrypt(secret, client_id, row_id),
        is_active=True,
        is_proven=False,
        created_at=now,
        updated_at=now,
    )


def locked_callbacks_row(vault: Vault, client_id: str, now: datetime) -> Webhook:
    """The row of the client's callbacks, made at its first use. Call inside a unit of work."""
    of_client = Webhook.select().where(Webhook.client_id == client_id, Webhook.url.is_null())
    if not of_client.exists():
        fresh = new_webhook(vault, client_id, None, None, new_webhook_secret(), now)
        Webhook.insert(columns_of(fresh)).on_conflict_ignore().execute()
    (row,) = for_update(of_client)
    assert isinstance(row, Webhook)
    return row


def switch_off(row: Webhook, reason: str, outbox: MailOutbox, now: datetime) -> None:
    """Stop sending to a webhook, and write an event. Call inside a unit of work, with the row locked.

    The row of the client's callbacks has no URL and is never switched off.
    """
    assert row.url is not None
    row.is_active, row.disabled_at, row.disabled_reason, row.updated_at = False, now, reason, now
    undelivered = Delivery.select(Delivery.event_id).where(*_waiting(row))
    note_missed(row, Event.select(fn.MIN(Event.created_at)).where(Event.id.in_(undelivered)).scalar() or now)
    row.save()
    _cancel_deliveries(row, now)
    write_event(
        row.client_id,
        messages.WEBHOOK_DISABLED,
        row.id,
        _WRITE_DISABLED(messages.WebhookDisabledView(row.id, row.url, reason, now)),
        now,
    )
    about = {"url": row.url, "reason": reason, "page": f"/console/webhooks/{row.id}"}
    kind = MailKind.WEBHOOK_DISABLED
    outbox.notify_people(kind, row.client_id, about, now, occasion=f"{kind}/{row.id}/{iso_milliseconds(now)}")


def note_missed(row: Webhook, at: datetime) -> None:
    """Note that a webhook missed an event of that moment. The caller has the row locked, and saves it."""
    row.missed_since = min(row.missed_since or at, at)


def write_recovery(row: Webhook, now: datetime) -> None:
    """Write that a webhook accepts events again, if it has missed some. In a unit of work, with the row locked."""
    if row.missed_since is None or row.url is None:
        return
    seen = messages.WebhookRecoveredView(row.id, row.url, row.missed_since)
    row.missed_since = None
    row.save(only=[Webhook.missed_since])
    write_event(row.client_id, messages.WEBHOOK_RECOVERED, row.id, _WRITE_RECOVERED(seen), now)


def _write_audit_event(action: str, row: Webhook, context: RequestContext, now: datetime) -> None:
    write_audit_event(action, context, now, client_id=row.client_id, object_id=row.id)


def _cancel_deliveries(row: Webhook, now: datetime) -> None:
    Delivery.update(
        status=messages.DeliveryStatus.CANCELLED, due_at=None, leased_until=None, lease_token=None, completed_at=now
    ).where(*_waiting(row)).execute()


def _waiting(row: Webhook) -> tuple[Any, Any]:
    """The conditions of the deliveries that a webhook has not accepted yet."""
    return Delivery.webhook_id == row.id, Delivery.status == messages.DeliveryStatus.WAITING


def _webhooks_of(client_id: str) -> Any:
    return Webhook.select().where(Webhook.client_id == client_id, Webhook.url.is_null(False))


def _locked(webhook_id: str, client_id: str) -> Webhook:
    return _find(for_update(_webhooks_of(client_id)), webhook_id)


def _find(rows: ModelSelect[Webhook], webhook_id: str) -> Webhook:
    return find_by_id(rows, Webhook, webhook_id, "Webhook")


def _view(row: Webhook) -> messages.WebhookView:
    return view_of_row(messages.WebhookView, row, types=_types_of(row))


def _types_of(row: Webhook) -> tuple[str, ...] | None:
    return None if row.types is None else tuple(row.types)
