"""The pulse of the background workers: each says now and then that it works and what it has counted."""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from ussd_server.messages.health import Measure
from ussd_server.messages.providers import Outcome
from ussd_server.models.workers import WorkerPulse
from ussd_server.rpc.clock import Clock
from ussd_server.services.drop_offs import DropOffs
from ussd_server.services.providers import Providers

# A worker that was silent for this long was taken away on purpose; until then its silence is to be noticed.
_REMEMBERED = timedelta(days=1)
# What a worker said about companies longer ago tells nothing about now.
_BELIEVED_SECONDS = 60


class Pulse:
    """Counts what this worker asks companies, and keeps the pulses of all workers in the database."""

    def __init__(self, providers: Providers, drop_offs: DropOffs, clock: Clock) -> None:
        self._providers = providers
        self._drop_offs = drop_offs
        self._clock = clock
        self._calls: Counter[tuple[str, str, str]] = Counter()
        self._counting = threading.Lock()
        self._started_at = clock.now()

    def count_call(self, company: str, kind: str, outcome: Outcome) -> None:
        """Count one call to a company; `kind` is `ask` or `enquire`."""
        with self._counting:
            self._calls[company, kind, outcome.value] += 1

    def beat(self) -> None:
        """Say that this worker works, and forget workers that have been silent for a day."""
        now = self._clock.now()
        with self._counting:
            calls = sorted(self._calls.items())
        said = {
            "calls": [[*labels, count] for labels, count in calls],
            "drop_offs": [[*place, count] for place, count in self._drop_offs.counts()],
            "available": {company.name: company.available for company in self._providers},
        }
        pulse = {"started_at": self._started_at, "seen_at": now, "measures": said}
        WorkerPulse.insert(id=_name(), **pulse).on_conflict(conflict_target=[WorkerPulse.id], update=pulse).execute()
        WorkerPulse.delete().where(WorkerPulse.seen_at < now - _REMEMBERED).execute()

    def end(self) -> None:
        """Say that this worker stops, so that nobody misses it."""
        WorkerPulse.delete().where(WorkerPulse.id == _name()).execute()

    def measures(self) -> Iterator[Measure]:
        """What all workers have said lately."""
        now = self._clock.now()
        for row in WorkerPulse.select():
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


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
