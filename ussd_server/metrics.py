"""One log line and one count for each request."""

from __future__ import annotations

from functools import cache

from prometheus_client import Counter, Gauge, Histogram

from ussd_server.logs import Logger

_log = Logger(__name__)
_calls = Counter("ussd_calls", "Calls that were answered.", ["endpoint", "status", "code"])
_seconds = Histogram("ussd_call_seconds", "How long the answers took.", ["endpoint"])
# Labelled counters are cached, because the library looks them up under a lock and converts every label to text.
call_counter, call_seconds = cache(_calls.labels), cache(_seconds.labels)
_unshared_limits = Counter("ussd_limits_unshared", "Decisions on limits that a process took without Redis.")
_drop_offs = Counter(
    "ussd_sessions_dropped", "Conversations that phones broke off.", ["code", "menu", "node", "end_reason"]
)
_dropped_requests = Counter("ussd_request_log_dropped", "Requests that are missing in the request log.")
_replica_away = Gauge("ussd_replica_away", "Processes that read lists from the primary.", multiprocess_mode="livesum")
_redis_away = Gauge("ussd_redis_away", "Processes that limit by themselves.", multiprocess_mode="livesum")


def count_unshared_limit() -> None:
    """Count a rate limit decision that this process made by its own share."""
    _unshared_limits.inc()


def count_dropped_requests(number: int = 1) -> None:
    """Count requests that the request log had no room for."""
    _dropped_requests.inc(number)


def count_drop_off(code: str, menu: str, node: str, end_reason: str) -> None:
    """Count a drop-off at a node."""
    _drop_offs.labels(code, menu, node, end_reason).inc()


def note_redis(away: bool) -> None:
    """Set the gauge of whether this process is without Redis."""
    _redis_away.set(away)


def note_replica(away: bool) -> None:
    """Log whether this process is without its read replica, and set the gauge."""
    _replica_away.set(away)
    if away:
        _log.warning("the replica is away or too far behind: lists are read from the primary")
    else:
        _log.warning("the replica is back: lists are read from it again")
