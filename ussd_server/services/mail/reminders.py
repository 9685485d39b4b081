"""Mails that no change causes: about API keys that expire, and webhooks that fail for an hour."""

from __future__ import annotations

from datetime import timedelta

from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.keys import ApiKey
from ussd_server.models.webhooks import Webhook
from ussd_server.runtime import Runtime
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import is_mail_on, notify_people, was_queued
from ussd_server.services.mail.texts import written_moment
from ussd_server.values import iso_milliseconds

_AT_ONCE = 200
_BEFORE_EXPIRY = (timedelta(days=7), timedelta(days=1))
_FAILING_FOR = timedelta(hours=1)
# After a longer pause of all workers, no mail is written about what began before.
_FAILING_AT_MOST = timedelta(days=1)


class MailReminders:
    """Writes reminders. Each is written once, by the first worker that finds it due."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock

    def write(self) -> None:
        """Write what is due now."""
        if is_mail_on():
            for before in _BEFORE_EXPIRY:
                self._write_expiring(before)
            self._write_failing()

    def _write_expiring(self, before: timedelta) -> None:
        """Write mails about keys that expire within `before`, except keys that were made for a shorter time."""
        now, shorter = self._clock.now(), [each for each in _BEFORE_EXPIRY if each < before]
        earliest = now + max(shorter, default=timedelta())
        keys = ApiKey.select().where(ApiKey.is_active, ApiKey.expires_at > earliest, ApiKey.expires_at <= now + before)
        last = None
        while page := list(
            (keys if last is None else keys.where(ApiKey.id > last)).order_by(ApiKey.id).limit(_AT_ONCE)
        ):
            with unit_of_work():
                for key in page:
                    if key.created_at <= key.expires_at - before:
                        self._notify_of_key(key, before)
            last = page[-1].id

    def _notify_of_key(self, key: ApiKey, before: timedelta) -> None:
        about = {
            "key": key.apikey,
            "expires": written_moment(key.expires_at),
            "page": f"/console/api-keys/{key.id}",
        }
        kind = MailKind.KEY_EXPIRES
        occasion = f"{kind}/{key.id}/{iso_milliseconds(key.expires_at)}/{before.days}"
        if not was_queued(occasion):
            notify_people(kind, key.client_id, about, self._clock.now(), occasion=occasion)

    def _write_failing(self) -> None:
        now = self._clock.now()
        failing = Webhook.select().where(
            Webhook.is_active,
            Webhook.url.is_null(False),
            Webhook.failing_since <= now - _FAILING_FOR,
            Webhook.failing_since > now - _FAILING_AT_MOST,
        )
        for webhook in failing.order_by(Webhook.id).limit(_AT_ONCE):
            about = {
                "url": webhook.url,
                "since": written_moment(webhook.failing_since),
                "page": f"/console/webhooks/{webhook.id}",
            }
            kind = MailKind.WEBHOOK_FAILING
            occasion = f"{kind}/{webhook.id}/{iso_milliseconds(webhook.failing_since)}"
            if not was_queued(occasion):
                with unit_of_work():
                    notify_people(kind, webhook.client_id, about, now, occasion=occasion)
