"""Notices about API keys that were called from an address that they do not allow: an event, and mails, once a day."""

from __future__ import annotations

from datetime import timedelta

from peewee import SQL

from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.events import Event
from ussd_server.models.keys import ApiKey, KeyUsage
from ussd_server.runtime import Service
from ussd_server.services.clients.key_messages import RefusedAddressView
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import notify_people
from ussd_server.services.mail.texts import written_moment
from ussd_server.services.webhooks.events import write_event
from ussd_server.values import kampala_day
from ussd_server.wire import writer

REFUSED_ELSEWHERE = SQL("code = 'ADDRESS_NOT_ALLOWED'")
"""The condition of the index of `key_usage` about refused addresses."""

_REFUSED = "api_key.address_refused"
_WRITE = writer(RefusedAddressView)


class KeyAddressNotices(Service):
    """Writes notices. Each is written once, by the first worker that finds a refused call of the key's day.

    The calls themselves write nothing: they are in the usage of keys, which is written in batches.
    """

    def write(self) -> None:
        """Write the notices of yesterday and today, days of Kampala, that are missing."""
        now = self._clock.now()
        days = [kampala_day(now - timedelta(days=1)), kampala_day(now)]
        rows = KeyUsage.select().where(REFUSED_ELSEWHERE, KeyUsage.day.in_(days))
        # The latest call of each key and day is the last one that stays.
        latest = {(row.key_id, row.day): row for row in sorted(rows, key=lambda row: row.last_at)}
        for usage in latest.values():
            if not _was_written(usage):
                self._write(usage)

    def _write(self, usage: KeyUsage) -> None:
        now = self._clock.now()
        with unit_of_work():
            key = for_update(ApiKey.select().where(ApiKey.id == usage.key_id)).first()
            if key is None or _was_written(usage):
                return
            view = RefusedAddressView(key.id, key.apikey, key.name, usage.day, usage.last_address, usage.last_at)
            write_event(key.client_id, _REFUSED, key.id, _WRITE(view), now)
            about = {
                "key": f"{key.name} ({key.apikey})" if key.name else key.apikey,
                "address": usage.last_address,
                "at": written_moment(usage.last_at),
                "page": f"/console/api-keys/{key.id}",
            }
            kind = MailKind.KEY_ADDRESS_REFUSED
            notify_people(kind, key.client_id, about, now, occasion=f"{kind}/{key.id}/{usage.day}")


def _was_written(usage: KeyUsage) -> bool:
    notices = Event.select(Event.payload).where(Event.object_id == usage.key_id, Event.type == _REFUSED)
    # Yesterday's and today's.
    newest = notices.order_by(Event.sequence.desc()).limit(2)
    return any(notice.payload["day"] == usage.day for notice in newest)
