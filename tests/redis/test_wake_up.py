"""The bell: it wakes whoever waits, and forgets what nobody listened to."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from ussd_server.redis.client import RedisClient, connect
from ussd_server.redis.wake_up import WakeUpSignal

PATIENCE_SECONDS = 30


@pytest.fixture
def redis(redis_url: str) -> Iterator[RedisClient]:
    with connect(redis_url, timeout_seconds=5) as client:  # type: ignore[union-attr]
        client.flushdb()
        yield client


def test_a_ring_wakes_one_who_waits_long_before_its_time(redis: RedisClient, redis_url: str) -> None:
    wake_up = WakeUpSignal(redis_url, lambda: False)
    woken = threading.Thread(target=wake_up.wait, args=(PATIENCE_SECONDS, threading.Event()))
    began = time.monotonic()
    woken.start()
    wake_up.ring()
    woken.join()
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_rings_that_nobody_hears_do_not_pile_up(redis: RedisClient, redis_url: str) -> None:
    wake_up = WakeUpSignal(redis_url, lambda: False)
    for _ in range(200):
        wake_up.ring()
    assert redis.llen("worker:bell") == 64


def test_a_bell_without_redis_is_silent(redis: RedisClient) -> None:
    WakeUpSignal("redis://127.0.0.1:1", lambda: False).ring()
    WakeUpSignal("redis://127.0.0.1:1", lambda: True).ring()
