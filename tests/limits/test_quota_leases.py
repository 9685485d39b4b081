"""Quota leases: few trips to Redis, and never more than the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from limits import RateLimitItemPerSecond

from ussd_server.limits.limiter import Limiter, Policy
from ussd_server.limits.quota_leases import KEPT_SECONDS, QuotaLeases
from ussd_server.limits.sliding_window import SlidingWindowStorage
from ussd_server.redis.client import connect

LIMIT = 1000


class Trips(SlidingWindowStorage):
    """A storage that counts its requests."""

    count = 0

    def acquire(self, *args: object, **options: object) -> object:  # type: ignore[override]
        self.count += 1
        return super().acquire(*args, **options)  # type: ignore[arg-type]


@pytest.fixture
def storage(redis_url: str) -> Trips:
    with connect(redis_url, timeout_seconds=5) as redis:
        redis.flushdb()
    return Trips(redis_url, timeout_seconds=5)


@pytest.fixture
def limiter(storage: Trips) -> Iterator[Limiter]:
    made = Limiter(storage, [Policy("channel", (RateLimitItemPerSecond(LIMIT, 60 + KEPT_SECONDS),))], workers=1)
    yield made
    made.close()


def standing_still() -> float:
    return 0.0


def test_a_busy_caller_needs_ever_fewer_round_trips(limiter: Limiter, storage: Trips) -> None:
    leases = QuotaLeases(limiter, "channel", most=32, monotonic=standing_still)
    assert all(leases.take("c") for _ in range(1 + 2 + 4 + 8 + 16 + 32 + 32))
    assert storage.count == 7


def test_two_processes_with_many_threads_never_take_more_than_the_limit(limiter: Limiter) -> None:
    processes = [QuotaLeases(limiter, "channel", most=10, monotonic=standing_still) for _ in range(2)]
    takes: list[Callable[[str], bool]] = [process.take for process in processes]
    with ThreadPoolExecutor(16) as pool:
        accepted = sum(pool.map(lambda number: takes[number % 2]("c"), range(2 * LIMIT)))
    assert LIMIT - 16 * 10 <= accepted <= LIMIT, "what threads have in hand at the end may lapse"


def test_the_last_calls_of_a_limit_are_taken_one_by_one(limiter: Limiter) -> None:
    leases = QuotaLeases(limiter, "channel", most=64, monotonic=standing_still)
    assert sum(leases.take("c") for _ in range(LIMIT + 100)) == LIMIT


def test_a_lease_expires(limiter: Limiter, storage: Trips) -> None:
    now = [0.0]
    leases = QuotaLeases(limiter, "channel", most=32, monotonic=lambda: now[0])
    assert leases.take("c")
    assert leases.take("c")
    asked = storage.count
    now[0] = KEPT_SECONDS
    assert leases.take("c")
    assert storage.count == asked + 1


def test_only_so_many_callers_are_remembered(limiter: Limiter, storage: Trips, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ussd_server.limits.quota_leases._MOST_IDENTITIES", 3)
    leases = QuotaLeases(limiter, "channel", most=32, monotonic=standing_still)
    for caller in "abcd":
        assert [leases.take(caller) for _ in range(2)] == [True, True]
    asked = storage.count
    assert leases.take("a")
    assert storage.count == asked + 1, "what it had in hand was forgotten"


def test_every_caller_has_its_own_lease(limiter: Limiter) -> None:
    leases = QuotaLeases(limiter, "channel", most=64, monotonic=standing_still)
    while leases.take("c"):
        pass
    assert leases.take("d")


def test_without_redis_nothing_is_taken_in_advance() -> None:
    away = SlidingWindowStorage("redis://127.0.0.1:1", timeout_seconds=0.1)
    limiter = Limiter(away, [Policy("channel", (RateLimitItemPerSecond(5, 60),))], workers=1)
    leases = QuotaLeases(limiter, "channel", most=4)
    assert [leases.take("c") for _ in range(6)] == [True] * 5 + [False]
    limiter.close()
