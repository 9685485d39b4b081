"""Notices about API keys, an event and mails: those that expire, and those called from an address they do not allow."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from peewee import SQL

from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.keys import ApiKey, KeyUsage
from ussd_server.models.sending import Event
from ussd_server.services.clients.keys.messages import ExpiringApiKeyView, RefusedAddressView
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.texts import written_moment
from ussd_server.services.runtime import Runtime
from ussd_server.services.webhooks.events import write_event
from ussd_server.values import iso_milliseconds, kampala_day
from ussd_server.wire import writer

_AT_ONCE = 200
_DAYS_BEFORE = (7, 1)
_EXPIRING, _REFUSED = "api_key.expiring", "api_key.address_refused"
REFUSED_ELSEWHERE = SQL("code = 'ADDRESS_NOT_ALLOWED'")
"""The condition of the index of `key_usage` about refused addresses."""


class KeyNotices:
    """Writes notices. Each is written once, by the first worker that finds it due."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._outbox = runtime.clock, runtime.mail_outbox

    def write_expiring(self) -> None:
        """Write the notices of expiry that are due now. A key that was made for a shorter time gets none."""
        now = self._clock.now()
        for days in _DAYS_BEFORE:
            # Each notice has its own period, so that the later one replaces one that was missed.
            earliest = now + timedelta(days=max((each for each in _DAYS_BEFORE if each < days), default=0))
            latest = now + timedelta(days=days)
            keys = ApiKey.select().where(ApiKey.is_active, ApiKey.expires_at > earliest, ApiKey.expires_at <= latest)
            last = None
            while page := list(
                (keys if last is None else keys.where(ApiKey.id > last)).order_by(ApiKey.id).limit(_AT_ONCE)
            ):
                for key in page:
                    if key.created_at <= key.expires_at - timedelta(days=days) and not _has_notice_of_expiry(key, days):
                        self._write_expiring(key.id, key.expires_at, days, now)
                last = page[-1].id

    def write_refused(self) -> None:
        """Write the notices of yesterday and today (days of Kampala) about calls from addresses that are not allowed.

        The calls themselves write nothing: they are in the usage of keys, which is written in batches.
        """
        now = self._clock.now()
        days = [kampala_day(now - timedelta(days=1)), kampala_day(now)]
        rows = KeyUsage.select().where(REFUSED_ELSEWHERE, KeyUsage.day.in_(days))
        # Sorted by time, so that the latest call of each key and day replaces the earlier ones.
        latest = {(row.key_id, row.day): row for row in sorted(rows, key=lambda row: row.last_at)}
        for usage in latest.values():
            if not _has_notice_of_refusal(usage):
                self._write_refused(usage, self._clock.now())

    def _write_expiring(self, key_id: str, expires_at: datetime, days: int, now: datetime) -> None:
        with unit_of_work():
            key = for_update(ApiKey.select().where(ApiKey.id == key_id, ApiKey.expires_at == expires_at)).first()
            if key is None or _has_notice_of_expiry(key, days):
                return
            payload = writer(ExpiringApiKeyView)(ExpiringApiKeyView(key.id, key.apikey, key.name, key.expires_at, days))
            about = {"expires": written_moment(key.expires_at)}
            occasion = f"{iso_milliseconds(key.expires_at)}/{days}"
            self._write(key, _EXPIRING, payload, MailKind.KEY_EXPIRES, about, occasion, now)

    def _write_refused(self, usage: KeyUsage, now: datetime) -> None:
        with unit_of_work():
            key = for_update(ApiKey.select().where(ApiKey.id == usage.key_id)).first()
            if key is None or _has_notice_of_refusal(usage):
                return
            refusal = RefusedAddressView(key.id, key.apikey, key.name, usage.day, usage.last_address, usage.last_at)
            payload = writer(RefusedAddressView)(refusal)
            about = {"address": usage.last_address, "at": written_moment(usage.last_at)}
            self._write(key, _REFUSED, payload, MailKind.KEY_ADDRESS_REFUSED, about, usage.day, now)

    def _write(
        self,
        key: ApiKey,
        event_type: str,
        payload: Any,
        kind: MailKind,
        about: dict[str, str],
        occasion: str,
        now: datetime,
    ) -> None:
        """Write a notice as an event and as mails. Call in a unit of work with the key's row locked."""
        write_event(key.client_id, event_type, key.id, payload, now)
        about["key"] = f"{key.name} ({key.apikey})" if key.name else key.apikey
        about["page"] = f"/console/api-keys/{key.id}"
        self._outbox.notify_people(kind, key.client_id, about, now, occasion=f"{kind}/{key.id}/{occasion}")


def _has_notice_of_expiry(key: ApiKey, days: int) -> bool:
    expiry = (iso_milliseconds(key.expires_at), days)
    return any((each.payload["expires_at"], each.payload["days_left"]) == expiry for each in _events(key.id, _EXPIRING))


def _has_notice_of_refusal(usage: KeyUsage) -> bool:
    # One notice a day, and `usage` is of yesterday or today.
    newest = _events(usage.key_id, _REFUSED).order_by(Event.sequence.desc()).limit(2)
    return any(notice.payload["day"] == usage.day for notice in newest)


def _events(key_id: str, event_type: str) -> Any:
    return Event.select(Event.payload).where(Event.object_id == key_id, Event.type == event_type)
