"""Notices about API keys, an event and mails: those that expire, and those called from an address they do not allow."""

from __future__ import annotations

from datetime import datetime, timedelta

from peewee import SQL

from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.events import Event
from ussd_server.models.keys import ApiKey, KeyUsage
from ussd_server.runtime import Service
from ussd_server.services.clients.keys.messages import ExpiringApiKeyView, RefusedAddressView
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import notify_people
from ussd_server.services.mail.texts import written_moment
from ussd_server.services.webhooks.events import write_event
from ussd_server.values import iso_milliseconds, kampala_day
from ussd_server.wire import writer

_AT_ONCE = 200
_DAYS_BEFORE = (7, 1)
_EXPIRING = "api_key.expiring"
_WRITE_EXPIRING = writer(ExpiringApiKeyView)
REFUSED_ELSEWHERE = SQL("code = 'ADDRESS_NOT_ALLOWED'")
"""The condition of the index of `key_usage` about refused addresses."""

_REFUSED = "api_key.address_refused"
_WRITE_REFUSED = writer(RefusedAddressView)


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
                    if key.created_at <= key.expires_at - timedelta(days=days) and not _has_notice_of_expiry(key, days):
                        _write_expiring(key.id, key.expires_at, days, now)
                last = page[-1].id


def _write_expiring(key_id: str, expires_at: datetime, days: int, now: datetime) -> None:
    with unit_of_work():
        key = for_update(ApiKey.select().where(ApiKey.id == key_id, ApiKey.expires_at == expires_at)).first()
        if key is None or _has_notice_of_expiry(key, days):
            return
        view = ExpiringApiKeyView(key.id, key.apikey, key.name, key.expires_at, days)
        write_event(key.client_id, _EXPIRING, key.id, _WRITE_EXPIRING(view), now)
        about = {
            "key": _named(key),
            "expires": written_moment(key.expires_at),
            "page": f"/console/api-keys/{key.id}",
        }
        kind = MailKind.KEY_EXPIRES
        occasion = f"{kind}/{key.id}/{iso_milliseconds(key.expires_at)}/{days}"
        notify_people(kind, key.client_id, about, now, occasion=occasion)


def _has_notice_of_expiry(key: ApiKey, days: int) -> bool:
    notices = Event.select(Event.payload).where(Event.object_id == key.id, Event.type == _EXPIRING)
    wanted = (iso_milliseconds(key.expires_at), days)
    return any((notice.payload["expires_at"], notice.payload["days_left"]) == wanted for notice in notices)


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
            if not _has_notice_of_refusal(usage):
                self._write(usage)

    def _write(self, usage: KeyUsage) -> None:
        now = self._clock.now()
        with unit_of_work():
            key = for_update(ApiKey.select().where(ApiKey.id == usage.key_id)).first()
            if key is None or _has_notice_of_refusal(usage):
                return
            view = RefusedAddressView(key.id, key.apikey, key.name, usage.day, usage.last_address, usage.last_at)
            write_event(key.client_id, _REFUSED, key.id, _WRITE_REFUSED(view), now)
            about = {
                "key": _named(key),
                "address": usage.last_address,
                "at": written_moment(usage.last_at),
                "page": f"/console/api-keys/{key.id}",
            }
            kind = MailKind.KEY_ADDRESS_REFUSED
            notify_people(kind, key.client_id, about, now, occasion=f"{kind}/{key.id}/{usage.day}")


def _has_notice_of_refusal(usage: KeyUsage) -> bool:
    notices = Event.select(Event.payload).where(Event.object_id == usage.key_id, Event.type == _REFUSED)
    # Yesterday's and today's.
    newest = notices.order_by(Event.sequence.desc()).limit(2)
    return any(notice.payload["day"] == usage.day for notice in newest)


def _named(key: ApiKey) -> str:
    return f"{key.name} ({key.apikey})" if key.name else key.apikey
