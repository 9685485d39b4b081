"""Leases: a worker claims rows that are due for a time, and writes them only while the lease is its own.

A claimed row has a `lease_token`, which names its worker, and `leased_until`; `due_at` stays, and with it the order.
After a crash another worker ends the lease because the heartbeat stopped (`operations/heartbeat.py`), or it expires.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from peewee import ModelSelect, fn

from ussd_server.clock import Clock
from ussd_server.database.tables import CompiledQuery, param
from ussd_server.database.unit_of_work import for_update, skip_locked, unit_of_work
from ussd_server.models.payouts import Payout
from ussd_server.models.sending import Delivery, Mail, Sms
from ussd_server.models.transactions import Transaction
from ussd_server.wire import columns_of

_LEASED = (Transaction, Payout, Delivery, Mail, Sms)


class Leases:
    """The leases of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Unique, because a container's next worker may have the same host name and process id.
        self.worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"

    def new_token(self) -> str:
        return f"{self.worker_id}/{secrets.token_hex(8)}"

    def claim(self, query: ModelSelect[Any], seconds: float) -> list[Any]:
        """Lease the rows of a query with `is_due` to the caller, except rows that another worker is claiming."""
        if not query.clone().limit(1).exists():
            # Look without a lock first: an idle worker does so often, and each time it would lock SQLite for writing.
            return []
        return self.lease(query, seconds)

    def lease(self, query: ModelSelect[Any], seconds: float) -> list[Any]:
        """As `claim`, for a caller that has looked already."""
        with unit_of_work():
            claimed = list(skip_locked(query))
            if not claimed:
                return []
            lease = {"leased_until": self._clock.now() + timedelta(seconds=seconds), "lease_token": self.new_token()}
            query.model.update(lease).where(query.model.id.in_([row.id for row in claimed])).execute()
        for row in claimed:
            columns_of(row).update(lease)
        return claimed

    def end_all(self, worker_id: str) -> int:
        """End all leases of a worker; return their number."""
        prefix = f"{worker_id}/"
        return sum(
            table.update(leased_until=None, lease_token=None)
            .where(table.due_at <= self._clock.now(), table.lease_token.is_null(False))
            .where(fn.SUBSTR(table.lease_token, 1, len(prefix)) == prefix)
            .execute()
            for table in _LEASED
        )


def is_due(table: Any, now: datetime) -> Any:
    """Return the condition that a row is due and no worker has it."""
    return (table.due_at <= now) & (table.leased_until.is_null() | (table.leased_until < now))


def still_leased(claimed: Any) -> Any:
    """Return the row, locked until the unit of work ends; None when the lease has ended or the row is gone."""
    table: Any = type(claimed)
    return _of_lease(table).first(table, id=claimed.id, lease_token=claimed.lease_token)


@cache
def _of_lease(table: Any) -> CompiledQuery:
    of_lease = (table.id == param(table.id)) & (table.lease_token == param(table.lease_token))
    return CompiledQuery(lambda: for_update(table.select().where(of_lease)))


def next_attempt(row: Any, delays_seconds: Sequence[int], now: datetime) -> datetime:
    """When a row is tried again after `row.attempts` tries, at least one. The last delay counts for all later tries."""
    return now + timedelta(seconds=delays_seconds[min(row.attempts, len(delays_seconds)) - 1])


def end_lease(row: Any) -> None:
    """End the lease of a row that the caller writes."""
    row.leased_until = row.lease_token = None


def release(claimed: Any) -> None:
    """End the lease of a row that stays due, unless it has ended."""
    table: Any = type(claimed)
    of_lease = (table.id == claimed.id) & (table.lease_token == claimed.lease_token)
    table.update(leased_until=None, lease_token=None).where(of_lease).execute()
