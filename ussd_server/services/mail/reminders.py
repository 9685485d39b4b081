"""Mails that no change causes: about webhooks that fail for an hour."""

from __future__ import annotations

from datetime import timedelta

from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.sending import Webhook
from ussd_server.runtime import Service
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import is_mail_on, notify_people, was_queued
from ussd_server.services.mail.texts import written_moment
from ussd_server.values import iso_milliseconds

_AT_ONCE = 200
_FAILING_FOR = timedelta(hours=1)
# After a longer pause of all workers, no mail is written about what began before.
_FAILING_AT_MOST = timedelta(days=1)


class MailReminders(Service):
    """Writes reminders. Each is written once, by the first worker that finds it due."""

    def write(self) -> None:
        """Write what is due now."""
        if is_mail_on():
            self._write_failing()

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
