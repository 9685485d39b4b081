"""Wake-up signals wake waiting workers, and unread ones do not pile up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from ussd_server.redis.client import RedisClient, connect
from ussd_server.redis.pipeline import RedisPipeline
from ussd_server.redis.signals import WakeUpSignal

PATIENCE_SECONDS = 60


@pytest.fixture
def redis(redis_url: str) -> Iterator[RedisClient]:
    with connect(redis_url, timeout_seconds=5) as client:  # type: ignore[union-attr]
        client.flushdb()
        yield client


@pytest.fixture
def wake_up(redis: RedisClient, redis_url: str) -> Iterator[WakeUpSignal]:
    """A signal that no worker waits for yet."""
    pipeline = RedisPipeline(lambda: redis)
    with closing(WakeUpSignal(redis_url, pipeline, lambda: False)) as signal, closing(pipeline):
        yield signal


def test_a_signal_wakes_a_waiting_worker_before_its_time_is_up(wake_up: WakeUpSignal) -> None:
    woken = threading.Thread(target=wake_up.wait, args=(PATIENCE_SECONDS, threading.Event()))
    began = time.monotonic()
    woken.start()
    wake_up.send()
    woken.join()
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_unread_signals_do_not_pile_up(redis: RedisClient, wake_up: WakeUpSignal) -> None:
    for _ in range(65):
        wake_up.send()
    assert redis.llen("worker:wake-up") == 1


def test_sending_a_signal_without_redis_does_not_raise() -> None:
    pipeline = RedisPipeline(lambda: connect("redis://127.0.0.1:1"))
    for is_away in (False, True):
        WakeUpSignal("redis://127.0.0.1:1", pipeline, partial(bool, is_away)).send()
