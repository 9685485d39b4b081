"""The minute and the hour of a key are exact, for calls in any order and from any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import fakeredis
import pytest
import time_machine
from limits import parse_many
from redis.crc import key_slot

from testbed.valkey import Server
from ussd_server.limits.limiter import Limiter, Policy, rate_limit_headers
from ussd_server.limits.sliding_window import RateLimitDecision, SlidingWindowStorage, WindowState, tightest

KEYS = Policy("data-key", tuple(parse_many("100/minute;1000/hour")))
LOGINS = Policy("login", tuple(parse_many("5/15 minute")))

LetPass = Callable[[SlidingWindowStorage, float], None]
MakeStorage = Callable[[], SlidingWindowStorage]


def limiter_on(storage: SlidingWindowStorage) -> Limiter:
    """A limiter as each worker has one."""
    return Limiter(storage, [KEYS, LOGINS], workers=2)


def hits(limiter: Limiter, number: int, identity: str = "key-1") -> list[RateLimitDecision]:
    """So many calls, one after the other."""
    return [limiter.hit("data-key", identity) for _ in range(number)]


def accepted(verdicts: list[RateLimitDecision]) -> int:
    """How many were accepted; all must have been decided by the shared log."""
    assert not any(decision.fallback for decision in verdicts)
    return sum(decision.accepted for decision in verdicts)


@pytest.mark.parametrize(("calls", "threads"), [(480, 16), (640, 32)])
def test_concurrent_calls_on_two_workers_accept_exactly_one_hundred(
    make_storage: MakeStorage, calls: int, threads: int
) -> None:
    workers = [limiter_on(make_storage()), limiter_on(make_storage())]
    for round_number in range(3):
        together = threading.Barrier(threads)

        def burst(thread: int, identity: str = f"key-{round_number}", together: threading.Barrier = together) -> int:
            together.wait()
            return accepted(hits(workers[thread % 2], calls // threads, identity))

        with ThreadPoolExecutor(threads) as pool:
            assert sum(pool.map(burst, range(threads))) == 100


def test_bursts_every_minute_stop_at_one_thousand_in_any_hour(storage: SlidingWindowStorage, let_pass: LetPass) -> None:
    limiter = limiter_on(storage)
    for _ in range(10):
        assert accepted(hits(limiter, 101)) == 100
        let_pass(storage, 60)
    refused = limiter.hit("data-key", "key-1")
    assert not refused.accepted
    assert [window.remaining for window in refused.windows] == [100, 0]
    assert tightest(refused.windows).name == "hour"
    let_pass(storage, refused.retry_after_seconds)
    assert limiter.hit("data-key", "key-1").accepted
    let_pass(storage, 30)
    assert accepted(hits(limiter, 101)) == 99


def test_a_window_is_free_again_the_very_microsecond_it_ends() -> None:
    client: Any = fakeredis.FakeRedis()
    limiter = limiter_on(SlidingWindowStorage("redis://fake", client=client))
    with time_machine.travel(datetime(2026, 11, 20, 8, tzinfo=UTC), tick=False) as clock:
        assert accepted(hits(limiter, 101)) == 100
        clock.shift(timedelta(microseconds=59_999_999))
        assert limiter.hit("data-key", "key-1").retry_after_seconds == 1
        clock.shift(timedelta(microseconds=1))
        assert [window.remaining for window in limiter.hit("data-key", "key-1").windows] == [99, 899]
        assert accepted(hits(limiter, 100)) == 99


def test_a_refused_call_uses_up_nothing(storage: SlidingWindowStorage) -> None:
    limiter = limiter_on(storage)
    hits(limiter, 100)
    client: Any = storage.client
    (key,) = client.keys(f"{storage.key_prefix}:*")
    before = client.lrange(key, 0, -1)
    assert accepted(hits(limiter, 300)) == 0
    assert client.lrange(key, 0, -1) == before


def test_peeking_returns_the_next_decision_and_counts_nothing(storage: SlidingWindowStorage) -> None:
    limiter = limiter_on(storage)
    for _ in range(10):
        assert tightest(limiter.peek("login", "someone@example.com").windows).remaining == 5
    for _ in range(5):
        assert limiter.peek("login", "someone@example.com").accepted
        limiter.hit("login", "someone@example.com")
    refused = limiter.peek("login", "someone@example.com")
    assert (refused.accepted, tightest(refused.windows).name) == (False, "15-minute")
    assert 890 <= refused.retry_after_seconds <= 900


def test_clearing_forgets_one_identity_only(storage: SlidingWindowStorage) -> None:
    limiter = limiter_on(storage)
    limiter.hit("login", "one@example.com")
    limiter.hit("login", "two@example.com")
    limiter.clear("login", "one@example.com")
    assert tightest(limiter.peek("login", "one@example.com").windows).remaining == 5
    assert tightest(limiter.peek("login", "two@example.com").windows).remaining == 4


@pytest.mark.parametrize("identity", ["", "}", "{}", "a/b", "*", "\x00\r\n", "\ud800", "ü" * 100_000])
def test_any_identity_has_one_short_key_of_its_own(storage: SlidingWindowStorage, identity: str) -> None:
    limiter = limiter_on(storage)
    hits(limiter, 3, identity)
    client: Any = storage.client
    (key,) = client.keys(f"{storage.key_prefix}:*")
    assert len(key) < len(storage.key_prefix) + 50
    assert tightest(limiter.hit("data-key", identity).windows).remaining == 96
    assert tightest(limiter.hit("data-key", identity + "x").windows).remaining == 99


def test_what_belongs_to_an_identity_shares_its_cluster_slot(storage: SlidingWindowStorage) -> None:
    assert key_slot(storage.key("data-key/1").encode()) == key_slot(b"version:{data-key/1}")


def test_a_log_is_no_longer_than_the_largest_limit_and_ends_with_the_longest_window(
    storage: SlidingWindowStorage, let_pass: LetPass
) -> None:
    limiter = limiter_on(storage)
    client: Any = storage.client
    for _ in range(12):
        hits(limiter, 101)
        let_pass(storage, 360)
    hits(limiter, 100)
    (key,) = client.keys(f"{storage.key_prefix}:*")
    assert client.llen(key) == 1000
    assert 3_590_000 < client.pttl(key) <= 3_600_000


def test_a_lowered_limit_holds_at_once_and_shortens_the_log(storage: SlidingWindowStorage, let_pass: LetPass) -> None:
    hits(limiter_on(storage), 100)
    lowered = Limiter(storage, [Policy("data-key", tuple(parse_many("3/minute")))], workers=1)
    refused = lowered.hit("data-key", "key-1")
    assert (refused.accepted, tightest(refused.windows).remaining) == (False, 0)
    let_pass(storage, 60)
    assert accepted([lowered.hit("data-key", "key-1") for _ in range(4)]) == 3
    client: Any = storage.client
    assert client.llen(*client.keys(f"{storage.key_prefix}:*")) == 3


@pytest.mark.parametrize("hours", [0.0001, 1, 24 * 365])
def test_a_clock_set_back_neither_forgets_calls_nor_locks_a_caller_out(
    storage: SlidingWindowStorage, let_pass: LetPass, hours: float
) -> None:
    limiter = limiter_on(storage)
    hits(limiter, 60)
    let_pass(storage, 30)
    hits(limiter, 30)
    let_pass(storage, -3600 * hours)
    assert accepted(hits(limiter, 20)) == 10
    refused = limiter.hit("data-key", "key-1")
    assert 20 <= refused.retry_after_seconds <= 30
    let_pass(storage, 30)
    assert accepted(hits(limiter, 100)) == 60


def test_who_was_refused_after_a_clock_was_set_back_waits_for_no_more_than_the_window(
    storage: SlidingWindowStorage, let_pass: LetPass
) -> None:
    limiter = limiter_on(storage)
    hits(limiter, 100)
    let_pass(storage, -3600)
    assert 50 <= limiter.hit("data-key", "key-1").retry_after_seconds <= 60
    let_pass(storage, 30)
    assert 20 <= limiter.hit("data-key", "key-1").retry_after_seconds <= 30
    let_pass(storage, -3600)
    assert 50 <= limiter.hit("data-key", "key-1").retry_after_seconds <= 60
    let_pass(storage, 60)
    assert accepted(hits(limiter, 101)) == 100
    (last,) = limiter.last_hits("data-key", ["key-1"])
    assert last is not None
    assert abs(last.timestamp() - storage.client.time()[0]) < 30


def test_a_clock_set_back_costs_a_long_log_no_walk(server: Server) -> None:
    storage, window = SlidingWindowStorage(server.url, timeout_seconds=10), [(100_000, 60_000_000)]
    ahead = (server.client.time()[0] + 600) * 1_000_000
    for _ in range(10):
        server.client.lpush(storage.key("key-1"), *[ahead] * 10_000)
    server.client.config_resetstat()
    assert storage.acquire("key-1", window)[0] == 0
    storage.close()
    calls = {name: shown["calls"] for name, shown in server.client.info("commandstats").items()}
    assert sum(calls.values()) < 100
    assert calls["cmdstat_lset"] == 1


def test_a_key_of_another_type_or_with_garbage_heals_itself(storage: SlidingWindowStorage) -> None:
    limiter = limiter_on(storage)
    limiter.hit("data-key", "key-1")
    client: Any = storage.client
    (key,) = client.keys(f"{storage.key_prefix}:*")
    client.set(key, "not a list")
    assert accepted(hits(limiter, 101)) == 100
    client.delete(key)
    client.rpush(key, *["garbage"] * 200)
    assert accepted(hits(limiter, 101)) == 100


def test_the_last_accepted_call_of_each_is_known_and_no_refused_one(storage: SlidingWindowStorage) -> None:
    limiter = limiter_on(storage)
    before = datetime.now(UTC)
    for _ in range(5):
        limiter.hit("login", "someone")
    last, never = limiter.last_hits("login", ["someone", "somebody else"])
    assert never is None
    assert last is not None
    assert before - timedelta(seconds=1) < last <= datetime.now(UTC) + timedelta(seconds=1)
    assert not limiter.hit("login", "someone").accepted
    assert limiter.last_hits("login", ["someone"]) == [last]


def test_the_headers_show_both_windows_and_the_tighter_one(storage: SlidingWindowStorage) -> None:
    assert rate_limit_headers(limiter_on(storage).hit("data-key", "key-1")) == {
        "RateLimit-Policy": '"minute";q=100;w=60, "hour";q=1000;w=3600',
        "RateLimit": '"minute";r=99;t=60, "hour";r=999;t=3600',
        "X-RateLimit-Limit": "100",
        "X-RateLimit-Remaining": "99",
        "X-RateLimit-Reset": "60",
    }


def test_of_two_empty_windows_the_one_that_takes_longer_is_the_tighter() -> None:
    minute, hour = WindowState("minute", 100, 0, 20), WindowState("hour", 1000, 0, 1800)
    assert tightest((minute, hour)) is hour
