"""Retention: what nobody needs any more is removed, little by little, and what grows gets room for months to come.

Money, its story and the audit trail stay.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ussd_server.clock import Clock
from ussd_server.database.ids import new_id_floor
from ussd_server.database.partitions import add_partitions, ends_of_partitions
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.messages.webhooks import DeliveryStatus
from ussd_server.models.events import Event
from ussd_server.models.ussd import UssdSession
from ussd_server.models.webhooks import Delivery

# Enough for this month and three whole ones after it.
_ROOM_AHEAD = timedelta(days=120)
_LOOK_AGAIN = timedelta(hours=1)


class Retention:
    """Removes old sessions and deliveries, and adds months to tables that an operator divided.

    Events of transactions stay with their transactions: the next event of one counts on from the last, and the
    invariant check holds them against its story. Events of a session go with it.
    """

    def __init__(self, clock: Clock, sessions_days: int, deliveries_days: int) -> None:
        self._clock = clock
        self._sessions_days = sessions_days
        self._deliveries_days = deliveries_days
        self._next_look = datetime.min.replace(tzinfo=UTC)

    def clean(self, limit: int = 500) -> int:
        """Remove up to `limit` deliveries and `limit` sessions that are over and old enough; give how many went.

        Before that, once an hour, divided tables that end within 120 days get further months. OperationalError when
        somebody holds one for long.
        """
        if self._clock.now() >= self._next_look:
            # Whoever is in the way is left alone for as long.
            self._next_look = self._clock.now() + _LOOK_AGAIN
            self._make_room()
        return self._clean_deliveries(limit) + self._clean_sessions(limit)

    def _make_room(self) -> None:
        until = self._clock.now() + _ROOM_AHEAD
        for table, end in ends_of_partitions().items():
            if end < until:
                add_partitions(table, until)

    def _clean_deliveries(self, limit: int) -> int:
        is_old = Delivery.id < self._floor(self._deliveries_days)
        ids = _ids(Delivery, is_old & (Delivery.status != DeliveryStatus.WAITING), limit)
        removed: int = Delivery.delete().where(Delivery.id.in_(ids)).execute() if ids else 0
        return removed

    def _clean_sessions(self, limit: int) -> int:
        is_old = UssdSession.id < self._floor(self._sessions_days)
        ids = _ids(UssdSession, is_old & (UssdSession.status != "active"), limit)
        if not ids:
            return 0
        told = Event.select(Event.id).where(Event.object_id.in_(ids))
        with unit_of_work():
            Delivery.delete().where(Delivery.event_id.in_(told)).execute()
            Event.delete().where(Event.object_id.in_(ids)).execute()
            removed: int = UssdSession.delete().where(UssdSession.id.in_(ids)).execute()
        return removed

    def _floor(self, days: int) -> str:
        return new_id_floor(self._clock.now() - timedelta(days=days))


def _ids(table: Any, which: Any, limit: int) -> list[str]:
    """The oldest rows: ids carry their time, so the search begins at the end that is old."""
    return [row.id for row in table.select(table.id).where(which).order_by(table.id).limit(limit)]
