"""How often one may call: named policies of exact sliding windows, kept in Redis, and by each worker without it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from limits import RateLimitItem

from ussd_server.limits.decisions import MICROSECONDS, RateLimitDecision, frames_of, tightest
from ussd_server.limits.sliding_window import LocalLog, SlidingLogRateLimiter, SlidingLogStorage, windows_of
from ussd_server.logs import logger
from ussd_server.metrics import count_unshared_limit, note_redis
from ussd_server.redis.circuit import Circuit, RedisAwayError
from ussd_server.redis.client import REDIS_TROUBLE
from ussd_server.redis.generations import Generation, Generations

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """What one kind of caller may do: any number of windows, all of which must have room."""

    name: str
    items: tuple[RateLimitItem, ...]


def log_change(away: bool) -> None:
    """Say that Redis went away or came back."""
    note_redis(away)
    if away:
        log.warning("Redis is away: every worker limits its own share")
    else:
        log.warning("Redis is back: limits are shared again")


class Limiter:
    """Counts calls by policy and identity and never fails: without Redis each worker allows its share of the limits."""

    def __init__(
        self,
        storage: SlidingLogStorage,
        policies: Iterable[Policy],
        workers: int,
        on_change: Callable[[bool], None] = log_change,
        rest_seconds: float = 1.0,
    ) -> None:
        """`workers` is the number of processes that share the limits while Redis is away.

        `on_change(away)` is called once each time Redis goes away or comes back and must not raise; while Redis is
        away it is asked once every `rest_seconds`, by a thread of its own.
        """
        self._policies = {policy.name: policy for policy in policies}
        self._workers = workers
        self._strategy = SlidingLogRateLimiter(storage)
        self._circuit = Circuit(storage.check, on_change, rest_seconds)
        self.versions = Generations(storage.pipeline, self._circuit)
        # One log per policy, so that a flood of addresses cannot push the keys' accept times out of memory.
        self._local = {name: LocalLog() for name in self._policies}

    @property
    def away(self) -> bool:
        """Whether this process limits by itself now."""
        return self._circuit.away

    def hit(self, namespace: str, identity: str, cost: int = 1) -> RateLimitDecision:
        """Count `cost` calls of `identity` under the policy `namespace`, all or none; a refused call uses up nothing.

        Without Redis one call is counted, whatever the cost.
        """
        return self._decide(namespace, identity, lambda *asked: self._strategy.hit_all(*asked, cost=cost))

    def count_under(
        self, version: Generation, namespace: str, identity: str, *, consume: bool
    ) -> RateLimitDecision | None:
        """As `hit`, or `peek` unless `consume`, in the same round trip that proves `version` to be the present one.

        None, and nothing is counted, when it is not, and when Redis is away and cannot tell.
        """
        items, name = self._policies[namespace].items, _digest(identity)
        ask = self._strategy.count_all_under
        try:
            return self._circuit.call(lambda: ask(version, items, namespace, name, consume=consume))
        except RedisAwayError:
            return None

    def last_hits(self, namespace: str, identities: Sequence[str]) -> list[datetime | None]:
        """When each identity was last accepted, as far as Redis knows: None when it has forgotten, or is away."""
        names = [f"{namespace}/{_digest(identity)}" for identity in identities]
        try:
            times = [] if self.away else self._strategy.storage.last_accepted_at(names)
        except REDIS_TROUBLE:
            # Nothing was decided without Redis: that is for the next call that is counted to find out.
            times = []
        times = times or [0] * len(names)
        return [datetime.fromtimestamp(time / MICROSECONDS, UTC) if time else None for time in times]

    def peek(self, namespace: str, identity: str) -> RateLimitDecision:
        """Tell what `hit` would answer, and count nothing."""
        return self._decide(namespace, identity, self._strategy.test_all, consume=False)

    def clear(self, namespace: str, identity: str) -> None:
        """Forget what was counted for `identity`, here at once and in Redis if it can be reached."""
        name = _digest(identity)
        self._local[namespace].clear(name)
        try:
            self._circuit.call(lambda: self._strategy.clear_all(namespace, name))
        except RedisAwayError:
            return

    def close(self) -> None:
        """End the thread that looks for Redis."""
        self._circuit.close()

    def _decide(
        self, namespace: str, identity: str, ask: Callable[..., RateLimitDecision], *, consume: bool = True
    ) -> RateLimitDecision:
        items = self._policies[namespace].items
        name = _digest(identity)
        try:
            return self._circuit.call(lambda: ask(items, namespace, name))
        except RedisAwayError:
            count_unshared_limit()
            reading = self._local[namespace].acquire(name, windows_of(items, self._workers), consume)
            return RateLimitDecision(items, reading, fallback=True)


def _digest(identity: str) -> str:
    """Stand in for an identity in Redis: a stranger decides its length, and it may be a person's e-mail address."""
    return hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@cache
def _policy_header(items: tuple[RateLimitItem, ...]) -> str:
    return ", ".join([f'"{name}";q={limit};w={seconds}' for name, limit, seconds in frames_of(items)])


def rate_limit_headers(decision: RateLimitDecision) -> dict[str, str]:
    """The headers that tell a caller where it stands.

    `RateLimit-Policy` and `RateLimit` show every window, as structured fields (draft-ietf-httpapi-ratelimit-headers);
    `X-RateLimit-*` show the tighter one. All times are seconds from now, as in `Retry-After`.
    """
    windows = decision.windows
    tighter = tightest(windows)
    return {
        "RateLimit-Policy": _policy_header(decision.items),
        "RateLimit": ", ".join([f'"{each.name}";r={each.remaining};t={each.reset_seconds}' for each in windows]),
        "X-RateLimit-Limit": str(tighter.limit),
        "X-RateLimit-Remaining": str(tighter.remaining),
        "X-RateLimit-Reset": str(tighter.reset_seconds),
    }
