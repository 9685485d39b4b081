"""The pulse of the background workers: each says often that it works and what it has counted.

A lease names the worker that holds it. What a silent worker holds is taken over by the next that notices.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from peewee import fn

from ussd_server.clock import Clock
from ussd_server.database.unit_of_work import skip_locked, unit_of_work
from ussd_server.logs import logger
from ussd_server.messages.health import Measure
from ussd_server.messages.providers import Outcome
from ussd_server.models.transactions import Transaction
from ussd_server.models.webhooks import Delivery
from ussd_server.models.workers import WorkerHeartbeat
from ussd_server.services.transactions.providers import Providers
from ussd_server.services.ussd.drop_offs import DropOffs

log = logger(__name__)

# A worker that was silent for this long was taken away on purpose; until then its silence is to be noticed.
_REMEMBERED = timedelta(days=1)
# A worker shows its pulse every two seconds. One that was silent for longer than this holds nothing any more: should it
# still live, it finds its leases gone, as if they had run out.
BEAT_SECONDS = 2.0
_SILENT = timedelta(seconds=7)
# What a worker said about companies longer ago tells nothing about now.
_BELIEVED_SECONDS = 60


class Heartbeat:
    """Counts what this worker asks companies, and keeps the pulses of all workers in the database."""

    def __init__(self, providers: Providers, drop_offs: DropOffs, clock: Clock) -> None:
        self._providers = providers
        self._drop_offs = drop_offs
        self._clock = clock
        self._calls: Counter[tuple[str, str, str]] = Counter()
        self._counting = threading.Lock()
        self._started_at: datetime | None = None
        self._beat_at: datetime | None = None
        # Unique, because a container's next worker may have the same host name and process id.
        self.worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"

    def new_lease_token(self) -> str:
        """A token for a lease of this worker."""
        return f"{self.worker_id}/{secrets.token_hex(8)}"

    def count_call(self, company: str, kind: str, outcome: Outcome) -> None:
        """Count one call to a company; `kind` is `ask` or `enquire`."""
        with self._counting:
            self._calls[company, kind, outcome.value] += 1

    def beat(self) -> datetime:
        """Say that this worker works, and forget workers that have been silent for a day; give the moment."""
        now = self._clock.now()
        with self._counting:
            calls = sorted(self._calls.items())
        said = {
            "calls": [[*labels, count] for labels, count in calls],
            "drop_offs": [[*place, count] for place, count in self._drop_offs.counts()],
            "available": {company.name: company.available for company in self._providers},
        }
        self._started_at = self._started_at or now
        heartbeat = {"started_at": self._started_at, "seen_at": now, "measures": said, "is_taken_over": False}
        shown = WorkerHeartbeat.insert(id=self.worker_id, **heartbeat)
        shown.on_conflict(conflict_target=[WorkerHeartbeat.id], update=heartbeat).execute()
        WorkerHeartbeat.delete().where(WorkerHeartbeat.seen_at < now - _REMEMBERED).execute()
        self._beat_at = now
        return now

    def take_over(self) -> int:
        """Free the leases of workers that have been silent for seven seconds; give the number of those workers.

        Nothing is freed while this worker's own pulse is old: then the database was away, for the others as well.
        """
        now = self._clock.now()
        if self._beat_at is None or now - self._beat_at > _SILENT:
            return 0
        is_silent = (WorkerHeartbeat.seen_at < now - _SILENT) & ~WorkerHeartbeat.is_taken_over
        if not WorkerHeartbeat.select(WorkerHeartbeat.id).where(is_silent).exists():
            return 0
        with unit_of_work():
            silent = [row.id for row in skip_locked(WorkerHeartbeat.select(WorkerHeartbeat.id).where(is_silent))]
            for worker_id in silent:
                count = _free_leases(worker_id, now)
                log.warning("a worker is silent: its leases are free", worker=worker_id, leases=count)
            WorkerHeartbeat.update(is_taken_over=True).where(WorkerHeartbeat.id.in_(silent)).execute()
        return len(silent)

    def end(self) -> None:
        """Say that this worker stops, so that nobody misses it, and free what it could not finish."""
        with unit_of_work():
            _free_leases(self.worker_id, self._clock.now())
            WorkerHeartbeat.delete().where(WorkerHeartbeat.id == self.worker_id).execute()

    def measures(self) -> Iterator[Measure]:
        """What all workers have said lately."""
        now = self._clock.now()
        for row in WorkerHeartbeat.select():
            of_worker = {"worker": row.id}
            silent_seconds = (now - row.seen_at).total_seconds()
            yield Measure("ussd_worker_silent_seconds", "Since a worker was last heard of.", silent_seconds, of_worker)
            if silent_seconds > _BELIEVED_SECONDS:
                continue
            for company, is_available in row.measures["available"].items():
                yield Measure(
                    "ussd_company_available", "1 while a worker's breaker for a company is closed, 0 while it rests.",
                    float(is_available), of_worker | {"company": company},
                )  # fmt: skip
            # A worker of an older version says nothing of them.
            for code, menu, node, reason, count in row.measures.get("drop_offs", ()):
                yield Measure(
                    "ussd_sessions_timed_out_total", "Conversations that a worker ended because their time was up.",
                    count, of_worker | {"code": code, "menu": menu, "node": node, "end_reason": reason},
                )  # fmt: skip
            for company, kind, outcome, count in row.measures["calls"]:
                yield Measure(
                    "ussd_company_calls_total", "Calls to a company by what they proved.",
                    count, of_worker | {"company": company, "kind": kind, "outcome": outcome},
                )  # fmt: skip


def _free_leases(worker_id: str, now: datetime) -> int:
    """Let other workers claim what a worker holds; give the number of leases."""
    prefix = f"{worker_id}/"
    payments = Transaction.update(leased_until=None, lease_token=None).where(
        Transaction.due_at <= now, fn.SUBSTR(Transaction.lease_token, 1, len(prefix)) == prefix
    )
    deliveries = Delivery.update(due_at=now, lease_token=None).where(
        Delivery.lease_token.is_null(False), fn.SUBSTR(Delivery.lease_token, 1, len(prefix)) == prefix
    )
    return int(payments.execute() + deliveries.execute())
