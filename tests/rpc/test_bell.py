"""The bell: it wakes whoever waits, and forgets what nobody listened to."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from ussd_server.rpc.bell import Bell
from ussd_server.rpc.redis_link import RedisClient, connect

PATIENCE_SECONDS = 30


@pytest.fixture
def redis(redis_url: str) -> Iterator[RedisClient]:
    with connect(redis_url, timeout_seconds=5) as client:  # type: ignore[union-attr]
        client.flushdb()
        yield client


def test_a_ring_wakes_one_who_waits_long_before_its_time(redis: RedisClient, redis_url: str) -> None:
    bell = Bell(redis_url, lambda: False)
    woken = threading.Thread(target=bell.wait, args=(PATIENCE_SECONDS, threading.Event()))
    began = time.monotonic()
    woken.start()
    bell.ring()
    woken.join()
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_rings_that_nobody_hears_do_not_pile_up(redis: RedisClient, redis_url: str) -> None:
    bell = Bell(redis_url, lambda: False)
    for _ in range(200):
        bell.ring()
    assert redis.llen("worker:bell") == 64


def test_a_bell_without_redis_is_silent(redis: RedisClient) -> None:
    Bell("redis://127.0.0.1:1", lambda: False).ring()
    Bell("redis://127.0.0.1:1", lambda: True).ring()
