"""Notices about API keys that expire: an event, and mails, 7 days and 1 day before."""

from __future__ import annotations

from datetime import datetime, timedelta

from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.events import Event
from ussd_server.models.keys import ApiKey
from ussd_server.runtime import Service
from ussd_server.services.clients.key_messages import ExpiringApiKeyView
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import notify_people
from ussd_server.services.mail.texts import written_moment
from ussd_server.services.webhooks.events import write_event
from ussd_server.values import iso_milliseconds
from ussd_server.wire import writer

_AT_ONCE = 200
_DAYS_BEFORE = (7, 1)
_EXPIRING = "api_key.expiring"
_WRITE = writer(ExpiringApiKeyView)


class KeyExpiryNotices(Service):
    """Writes notices. Each is written once, by the first worker that finds it due."""

    def write(self) -> None:
        """Write the notices that are due now. A key that was made for a shorter time gets none."""
        now = self._clock.now()
        for days in _DAYS_BEFORE:
            # The later notice replaces one that was missed.
            earliest = now + timedelta(days=max((each for each in _DAYS_BEFORE if each < days), default=0))
            latest = now + timedelta(days=days)
            keys = ApiKey.select().where(ApiKey.is_active, ApiKey.expires_at > earliest, ApiKey.expires_at <= latest)
            last = None
            while page := list(
                (keys if last is None else keys.where(ApiKey.id > last)).order_by(ApiKey.id).limit(_AT_ONCE)
            ):
                for key in page:
                    if key.created_at <= key.expires_at - timedelta(days=days) and not _was_written(key, days):
                        _write(key.id, key.expires_at, days, now)
                last = page[-1].id


def _write(key_id: str, expires_at: datetime, days: int, now: datetime) -> None:
    with unit_of_work():
        key = for_update(ApiKey.select().where(ApiKey.id == key_id, ApiKey.expires_at == expires_at)).first()
        if key is None or _was_written(key, days):
            return
        view = ExpiringApiKeyView(key.id, key.apikey, key.name, key.expires_at, days)
        write_event(key.client_id, _EXPIRING, key.id, _WRITE(view), now)
        about = {
            "key": f"{key.name} ({key.apikey})" if key.name else key.apikey,
            "expires": written_moment(key.expires_at),
            "page": f"/console/api-keys/{key.id}",
        }
        kind = MailKind.KEY_EXPIRES
        occasion = f"{kind}/{key.id}/{iso_milliseconds(key.expires_at)}/{days}"
        notify_people(kind, key.client_id, about, now, occasion=occasion)


def _was_written(key: ApiKey, days: int) -> bool:
    notices = Event.select(Event.payload).where(Event.object_id == key.id, Event.type == _EXPIRING)
    wanted = (iso_milliseconds(key.expires_at), days)
    return any((notice.payload["expires_at"], notice.payload["days_left"]) == wanted for notice in notices)
