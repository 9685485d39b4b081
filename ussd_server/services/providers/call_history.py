"""Calls to providers over time: each worker writes its counts of a quarter of an hour, operators see them as charts."""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.models.providers import ProviderCalls
from ussd_server.providers.failures import FAILURES, Fault
from ussd_server.providers.http.replies import is_cause, is_refusal
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.providers.messages import CALLS_KEPT_DAYS, QuarterOfCalls
from ussd_server.services.runtime import Runtime
from ussd_server.values import iso_milliseconds

WINDOW = timedelta(minutes=15)
_THEIRS = (Fault.PROVIDER, Fault.SERVICE)
# Steps of ten percent: exact enough for a median, and few numbers to keep.
_STEPS = 10
_QUARTERS = 96


@dataclass(slots=True)
class CallSums:
    """Calls to one provider. `answered` includes `failed`; `took` counts them by the logarithm of their duration."""

    answered: int = 0
    failed: int = 0
    unanswered: int = 0
    took: Counter[int] = field(default_factory=Counter)
    trouble_since: datetime | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the last error is what the provider said, and not silence."""
        return is_refusal(self.last_error or "")

    @property
    def total(self) -> int:
        return self.answered + self.unanswered

    def add(self, answered: int, failed: int, unanswered: int, took: Mapping[str, int]) -> None:
        """Add the counts of a minute or a quarter of an hour; the keys of `took` are steps as text."""
        self.answered += answered
        self.failed += failed
        self.unanswered += unanswered
        self.took.update({int(step): count for step, count in took.items()})

    @property
    def good_share(self) -> float | None:
        """The share of all calls that were answered and at which the provider did not fail; None without any."""
        return (self.answered - self.failed) / self.total if self.total else None

    @property
    def success_rate(self) -> float | None:
        """The share of answered calls at which the provider did not fail, 0 to 1; None without any."""
        return round(1 - self.failed / self.answered, 4) if self.answered else None

    @property
    def median_seconds(self) -> float | None:
        """The median duration of answered calls, within ten percent; None without any."""
        middle = (sum(self.took.values()) + 1) // 2
        for step in sorted(self.took):
            middle -= self.took[step]
            if middle <= 0:
                return round(math.expm1(step / _STEPS) / 1000, 3)
        return None


class CallCounts:
    def __init__(self) -> None:
        self._minutes: dict[str, dict[str, list[Any]]] = {}
        self._errors: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()

    def count(self, provider: str, answer: ProviderAnswer, took_ms: int, now: datetime) -> None:
        """Count one call that took `took_ms` milliseconds. An unclear answer is one: the provider is not away."""
        is_answered = answer.is_unclear or answer.outcome not in (Outcome.UNKNOWN, Outcome.NOT_SENT)
        has_failed = is_answered and answer.failure is not None and FAILURES[answer.failure].fault in _THEIRS
        with self._lock:
            minutes = self._minutes.setdefault(provider, {})
            counts = minutes.setdefault(iso_milliseconds(now.replace(second=0, microsecond=0)), [0, 0, 0, {}])
            if is_answered:
                counts[0] += 1
                step = str(round(math.log1p(took_ms) * _STEPS))
                counts[3][step] = counts[3].get(step, 0) + 1
            else:
                counts[2] += 1
            if has_failed:
                counts[1] += 1
            if has_failed or answer.is_unclear or not is_answered:
                self._errors[provider] = (_error_of(answer, is_answered), iso_milliseconds(now))

    def measures(self, now: datetime) -> dict[str, Any]:
        """The counts of the window as plain JSON values; drops those older than the present and the last quarter."""
        oldest, oldest_kept = iso_milliseconds(now - WINDOW), iso_milliseconds(quarter_of(now) - WINDOW)
        with self._lock:
            for provider, minutes in self._minutes.items():
                self._minutes[provider] = {
                    minute: counts for minute, counts in minutes.items() if minute >= oldest_kept
                }
            return {
                "minutes": {
                    provider: {
                        minute: [*counts[:3], dict(counts[3])] for minute, counts in minutes.items() if minute >= oldest
                    }
                    for provider, minutes in self._minutes.items()
                },
                "errors": {provider: list(error) for provider, error in self._errors.items()},
            }

    def quarters(self) -> dict[tuple[str, datetime], CallSums]:
        """The whole counts of each quarter of an hour that is in memory, by provider and its beginning."""
        sums: dict[tuple[str, datetime], CallSums] = defaultdict(CallSums)
        with self._lock:
            for provider, minutes in self._minutes.items():
                for minute, counts in minutes.items():
                    sums[provider, quarter_of(datetime.fromisoformat(minute))].add(*counts)
        return sums


def _error_of(answer: ProviderAnswer, is_answered: bool) -> str:
    """What went wrong with a call: what the provider said or why it was not reached, else silence."""
    if is_cause(answer.reason):
        return answer.reason
    what = "it did not answer" if not is_answered else f"{answer.failure or 'its answer is unclear'}"
    return f"{what} ({answer.reason})" if answer.reason else what


def quarter_of(moment: datetime) -> datetime:
    """The beginning of the quarter of an hour in which `moment` lies."""
    return moment.replace(minute=moment.minute - moment.minute % 15, second=0, microsecond=0)


def sums_of(provider: str, workers: Iterable[Mapping[str, Any]], now: datetime) -> CallSums:
    """The calls of all workers to a provider in the window, from what `CallCounts.measures` made."""
    sums, oldest = CallSums(), iso_milliseconds(now - WINDOW)
    for recent in workers:
        for minute, (answered, failed, unanswered, took) in recent.get("minutes", {}).get(provider, {}).items():
            if minute < oldest:
                continue
            sums.add(answered, failed, unanswered, took)
            began_at = datetime.fromisoformat(minute)
            if (failed or unanswered) and (sums.trouble_since is None or began_at < sums.trouble_since):
                sums.trouble_since = began_at
        error, at = recent.get("errors", {}).get(provider, (None, None))
        if at is not None and (sums.last_error_at is None or datetime.fromisoformat(at) > sums.last_error_at):
            sums.last_error, sums.last_error_at = error, datetime.fromisoformat(at)
    return sums


class CallHistory:
    """Keeps what workers counted for eight days. A killed worker loses the counts of its last minute."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._providers = runtime.clock, runtime.providers
        self._recent_calls = runtime.heartbeat.recent_calls
        self._worker_id = runtime.leases.worker_id

    def write(self) -> None:
        """Write this worker's counts of the present and the last quarter of an hour, and remove old counts."""
        for (provider, began_at), sums in self._recent_calls.quarters().items():
            counts = {
                "answered_count": sums.answered,
                "failed_count": sums.failed,
                "unanswered_count": sums.unanswered,
                "took": {str(step): count for step, count in sums.took.items()},
            }
            key = {"began_at": began_at, "provider": provider, "worker_id": self._worker_id}
            ProviderCalls.put(key, counts)
        ProviderCalls.delete().where(
            ProviderCalls.began_at < self._clock.now() - timedelta(days=CALLS_KEPT_DAYS)
        ).execute()

    def get(self, until: datetime | None, context: RequestContext) -> Mapping[str, tuple[QuarterOfCalls, ...]]:
        """The 96 quarters of an hour of each connection that is set up here, up to that of `until`; None: up to now."""
        context.require_operator()
        last = quarter_of(until or self._clock.now())
        quarters = [last - WINDOW * before for before in reversed(range(_QUARTERS))]
        sums: dict[tuple[str, datetime], CallSums] = defaultdict(CallSums)
        for row in ProviderCalls.select().where(ProviderCalls.began_at.between(quarters[0], last)):
            sums[row.provider, row.began_at].add(row.answered_count, row.failed_count, row.unanswered_count, row.took)
        return {
            each.connection: tuple(_figures(began_at, sums[each.connection, began_at]) for began_at in quarters)
            for each in self._providers.connections
        }


def _figures(began_at: datetime, sums: CallSums) -> QuarterOfCalls:
    return QuarterOfCalls(began_at, sums.failed + sums.unanswered, sums.good_share, sums.median_seconds)
