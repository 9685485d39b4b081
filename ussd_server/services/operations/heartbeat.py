"""Heartbeats of the background workers: each writes a row with its counts every two seconds.

A lease names the worker that holds it. Other workers free the leases of a silent worker.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from ussd_server.clock import Clock
from ussd_server.database.unit_of_work import skip_locked, unit_of_work
from ussd_server.logs import Logger
from ussd_server.metrics import resident_bytes
from ussd_server.models.operations import WorkerHeartbeat
from ussd_server.providers.messages import ProviderAnswer
from ussd_server.services.leases import Leases
from ussd_server.services.menus.replays import DropOffs
from ussd_server.services.operations.messages import Measure, WorkerView
from ussd_server.services.providers.call_history import CallCounts
from ussd_server.services.providers.providers import Providers

log = Logger(__name__)

# After so long, a silent worker counts as removed on purpose. Until then an alert reports it.
_KEPT = timedelta(days=1)
# A worker that was silent for longer than this loses its leases. If it still runs, it finds them expired.
BEAT_SECONDS = 2.0
_SILENT = timedelta(seconds=7)
# Older counts of a worker do not describe the present.
_RECENT_SECONDS = 60


class Heartbeat:
    """Counts this worker's requests to providers, and keeps the heartbeats of all workers in the database."""

    def __init__(self, leases: Leases, providers: Providers, drop_offs: DropOffs, clock: Clock) -> None:
        self._providers = providers
        self._drop_offs = drop_offs
        self._clock = clock
        self._calls: Counter[tuple[str, str, str]] = Counter()
        self._counting = threading.Lock()
        self.recent_calls = CallCounts()
        self._started_at: datetime | None = None
        self._beat_at: datetime | None = None
        self._leases = leases

    def count_call(self, provider: str, kind: str, answer: ProviderAnswer, took_ms: int) -> None:
        """Count one request to a provider; `kind` is `ask` or `enquire`."""
        with self._counting:
            self._calls[provider, kind, answer.outcome.value] += 1
        self.recent_calls.count(provider, answer, took_ms, self._clock.now())

    def beat(self) -> datetime:
        """Write this worker's heartbeat, delete those older than a day, and return the time."""
        now = self._clock.now()
        with self._counting:
            calls = sorted(self._calls.items())
        measures = {
            "calls": [[*labels, count] for labels, count in calls],
            "drop_offs": [[*place, count] for place, count in self._drop_offs.counts()],
            "recent": self.recent_calls.measures(now),
            "resident_bytes": resident_bytes(),
            "available": {each.connection: each.available for each in self._providers.connections},
        }
        self._started_at = self._started_at or now
        heartbeat = {"started_at": self._started_at, "seen_at": now, "measures": measures, "is_taken_over": False}
        WorkerHeartbeat.put({"id": self._leases.worker_id}, heartbeat)
        WorkerHeartbeat.delete().where(WorkerHeartbeat.seen_at < now - _KEPT).execute()
        self._beat_at = now
        return now

    def take_over(self) -> int:
        """Free the leases of workers that were silent for seven seconds; return the number of those workers.

        Does nothing while this worker's own heartbeat is old: then the database was down for all of them.
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
                count = self._leases.end_all(worker_id)
                log.warning("a worker is silent: its leases are free", worker=worker_id, leases=count)
            WorkerHeartbeat.update(is_taken_over=True).where(WorkerHeartbeat.id.in_(silent)).execute()
        return len(silent)

    def end(self) -> None:
        """Delete this worker's heartbeat and free its leases."""
        with unit_of_work():
            self._leases.end_all(self._leases.worker_id)
            WorkerHeartbeat.delete().where(WorkerHeartbeat.id == self._leases.worker_id).execute()

    def workers(self) -> tuple[WorkerView, ...]:
        """Return the workers with a heartbeat of the last day, the one seen last first."""
        now = self._clock.now()
        rows = WorkerHeartbeat.select().order_by(WorkerHeartbeat.seen_at.desc())
        return tuple(WorkerView(row.id, row.started_at, row.seen_at, _state(row, now)) for row in rows)

    def measures(self) -> Iterator[Measure]:
        now = self._clock.now()
        for row in WorkerHeartbeat.select():
            of_worker = {"worker": row.id}
            silent_seconds = (now - row.seen_at).total_seconds()
            yield Measure("ussd_worker_silent_seconds", "Since a worker's last heartbeat.", silent_seconds, of_worker)
            if silent_seconds > _RECENT_SECONDS:
                continue
            memory = row.measures["resident_bytes"]
            yield Measure("ussd_worker_resident_bytes", "Memory of a worker.", memory, of_worker)
            for provider, is_available in row.measures["available"].items():
                yield Measure(
                    "ussd_provider_available",
                    "1 while a worker's breaker for a provider is closed, else 0.",
                    float(is_available),
                    of_worker | {"provider": provider},
                )
            for code, menu, node, reason, count in row.measures["drop_offs"]:
                yield Measure(
                    "ussd_sessions_timed_out_total",
                    "Sessions that a worker ended because they timed out.",
                    count,
                    of_worker | {"code": code, "menu": menu, "node": node, "end_reason": reason},
                )
            for provider, kind, outcome, count in row.measures["calls"]:
                yield Measure(
                    "ussd_provider_calls_total",
                    "Requests to a provider, by outcome.",
                    count,
                    of_worker | {"provider": provider, "kind": kind, "outcome": outcome},
                )


def _state(row: WorkerHeartbeat, now: datetime) -> str:
    if row.is_taken_over:
        return "taken_over"
    return "silent" if now - row.seen_at > _SILENT else "running"
