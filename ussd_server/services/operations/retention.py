"""Retention: removes old sessions, messages, deliveries, mails and requests, and adds months and days to partitions.

Transactions, their events, the ledger and the audit trail stay.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ussd_server.database.partitions import add_partitions, ends_of_partitions, keep_days_of_requests
from ussd_server.models.keys import ApiRequest, KeyUsage
from ussd_server.models.sending import Delivery, Mail, Sms
from ussd_server.models.ussd import UssdSession
from ussd_server.services.runtime import Runtime
from ussd_server.services.ussd.endings import remove_sessions
from ussd_server.services.webhooks.messages import DeliveryStatus
from ussd_server.values import kampala_day, new_id_floor

# This month and three whole ones after it.
_MONTHS_AHEAD = timedelta(days=120)
_DAYS_AHEAD = timedelta(days=7)
# An API key is mailed about once within its last seven days, a webhook once within a day of failing.
_MAIL_DAYS = 30
_USAGE_DAYS = 100
_NEXT_CHECK = timedelta(hours=1)


class Retention:
    """Removes rows in small batches.

    Events of transactions stay: the next event takes the next number, and the book check compares them with the
    status history. Events of a session go with it.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self._sessions_days = runtime.settings.keep_sessions_days
        self._requests_days = runtime.settings.keep_requests_days
        self._deliveries_days = runtime.settings.keep_deliveries_days
        self._next_check_at = datetime.min.replace(tzinfo=UTC)

    def clean(self, limit: int = 500) -> int:
        """Remove up to `limit` old deliveries, sessions, messages, mails and requests each; return their number.

        First, once an hour, partitioned tables that end within 120 days get further months, and the request log gets
        the days of the next week and loses old ones. Raises OperationalError when another connection holds a lock for
        too long.
        """
        if self._clock.now() >= self._next_check_at:
            # After a lock conflict, too, the next attempt is an hour later.
            self._next_check_at = self._clock.now() + _NEXT_CHECK
            self._turn_partitions(self._clock.now())
        is_done = (Delivery.id < self._floor(self._deliveries_days)) & (Delivery.status != DeliveryStatus.WAITING)
        of_sessions = self._floor(self._sessions_days)
        is_over = (UssdSession.id < of_sessions) & (UssdSession.status != "active")
        removed = (
            _remove(Delivery, is_done, limit)
            + remove_sessions(_ids(UssdSession, is_over, limit))
            # Also messages and mails that were never sent because the setting of their sender was removed.
            + _remove(Sms, Sms.id < of_sessions, limit)
            + _remove(Mail, Mail.id < self._floor(_MAIL_DAYS), limit)
            # On PostgreSQL whole days of requests are dropped, so this finds what never got a partition.
            + _remove(ApiRequest, ApiRequest.id < new_id_floor(self._oldest_requests()), limit)
        )
        KeyUsage.delete().where(KeyUsage.day < kampala_day(self._clock.now() - timedelta(days=_USAGE_DAYS))).execute()
        return removed

    def _turn_partitions(self, now: datetime) -> None:
        for table, end in ends_of_partitions().items():
            if end < now + _MONTHS_AHEAD:
                add_partitions(table, now + _MONTHS_AHEAD)
        keep_days_of_requests(self._oldest_requests().date(), now.date(), (now + _DAYS_AHEAD).date())

    def _oldest_requests(self) -> datetime:
        """The beginning of the oldest day (UTC) of requests that is kept."""
        day = self._clock.now() - timedelta(days=self._requests_days)
        return day.replace(hour=0, minute=0, second=0, microsecond=0)

    def _floor(self, days: int) -> str:
        return new_id_floor(self._clock.now() - timedelta(days=days))


def _remove(table: Any, which: Any, limit: int) -> int:
    ids = _ids(table, which, limit)
    removed: int = table.delete().where(table.id.in_(ids)).execute() if ids else 0
    return removed


def _ids(table: Any, which: Any, limit: int) -> list[str]:
    """Return the ids of the oldest rows; ids begin with their time."""
    return [row.id for row in table.select(table.id).where(which).order_by(table.id).limit(limit)]
