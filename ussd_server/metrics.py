"""One log line and one count for each request."""

from __future__ import annotations

import resource
from bisect import bisect_left
from collections import Counter as Numbers
from collections import defaultdict, deque
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from prometheus_client import Counter, Gauge, Histogram

from ussd_server.logs import Logger, trace_of
from ussd_server.threads import RepeatedWork

_COUNT_SECONDS = 1.0

_log = Logger(__name__)


class _Durations(Histogram):
    """A histogram that takes many values at once; `_sum`, `_buckets` and `_upper_bounds` are the library's own."""

    def observe_all(self, values: Sequence[float]) -> None:
        self._sum.inc(sum(values))
        for bucket, number in Numbers(bisect_left(self._upper_bounds, value) for value in values).items():
            self._buckets[bucket].inc(number)


_calls = Counter("ussd_calls", "Calls that were answered.", ["endpoint", "status", "code"])
_seconds = _Durations("ussd_call_seconds", "How long the answers took.", ["endpoint"])
# Labelled counters are cached, because the library looks them up under a lock and converts every label to text.
_counter, _histogram = cache(_calls.labels), cache(_seconds.labels)
_unshared_limits = Counter("ussd_limits_unshared", "Decisions on limits that a process took without Redis.")
_drop_offs = Counter(
    "ussd_sessions_dropped", "Conversations that phones broke off.", ["code", "menu", "node", "end_reason"]
)
_dropped_requests = Counter("ussd_request_log_dropped", "Requests that are missing in the request log.")
_replica_away = Gauge("ussd_replica_away", "Processes that read lists from the primary.", multiprocess_mode="livesum")
# Endpoint, status and code of each request that is not counted yet, and the seconds that it took.
ended_requests: deque[tuple[tuple[str, int, str], float]] = deque()
_resident = Gauge("ussd_process_resident_bytes", "Memory of a web process.", multiprocess_mode="liveall")
_redis_away = Gauge("ussd_redis_away", "Processes that limit by themselves.", multiprocess_mode="livesum")


def resident_bytes() -> int:
    """Return the memory that this process uses; 0 on a system without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def count_requests() -> None:
    """Count the requests that have ended since the last time, and measure the memory.

    Once a second, and before the metrics are read: the library writes each change into a file, which takes 7 us.
    """
    numbers, durations = Numbers[tuple[str, int, str]](), defaultdict[str, list[float]](list)
    for _ in range(len(ended_requests)):
        labels, seconds = ended_requests.popleft()
        numbers[labels] += 1
        durations[labels[0]].append(seconds)
    _resident.set(resident_bytes())
    for labels, number in numbers.items():
        _counter(*labels).inc(number)
    for endpoint, values in durations.items():
        _histogram(endpoint).observe_all(values)


def _log_lost_counts(error: Exception) -> None:
    _log.error("requests were not counted by a mistake of ours", error=trace_of(error))


counting = RepeatedWork("request-metrics", _COUNT_SECONDS, count_requests, _log_lost_counts)


def count_unshared_limit() -> None:
    """Count a rate limit decision that this process made by its own share."""
    _unshared_limits.inc()


def count_dropped_requests(number: int = 1) -> None:
    """Count requests that the request log had no room for."""
    _dropped_requests.inc(number)


def count_drop_off(code: str, menu: str, node: str, end_reason: str) -> None:
    _drop_offs.labels(code, menu, node, end_reason).inc()


def note_redis(away: bool) -> None:
    _redis_away.set(away)


def note_replica(away: bool) -> None:
    """Log whether this process is without its read replica, and set the gauge."""
    _replica_away.set(away)
    if away:
        _log.warning("the replica is away or too far behind: lists are read from the primary")
    else:
        _log.warning("the replica is back: lists are read from it again")
