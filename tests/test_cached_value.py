"""A cached value is read by one thread at a time, and no other thread waits for it."""

from __future__ import annotations

import pytest

from ussd_server.threads import CachedValue


def test_a_value_is_read_again_only_after_its_time() -> None:
    now, values = [0.0], iter(range(10))
    cached = CachedValue(lambda: next(values), 2, -1, monotonic=lambda: now[0])
    read = []
    for now[0] in (0, 1.9, 2, 3.9, 4):
        read.append(cached.refresh())
    assert read == [0, 0, 1, 1, 2]


def test_while_a_value_is_being_read_the_last_one_is_returned() -> None:
    now, seen = [5.0], []

    def read() -> int:
        seen.append(cached.refresh())
        now[0] += 3
        return 7

    cached = CachedValue(read, 1, -1, monotonic=lambda: now[0])
    assert cached.refresh() == 7
    assert seen == [-1]
    assert cached.age_seconds == 3, "its age counts from before it was read"


def test_after_a_failed_reading_the_next_caller_reads_and_the_value_stays_old() -> None:
    results = iter([RuntimeError(), 7])

    def read() -> int:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    cached = CachedValue(read, 1, -1)
    with pytest.raises(RuntimeError):
        cached.refresh()
    assert cached.age_seconds == float("inf")
    assert cached.refresh() == 7


def test_a_value_that_is_set_is_reported_when_it_differs_and_delays_the_next_reading() -> None:
    now, changes = [0.0], list[int]()
    cached = CachedValue(lambda: 1, 2, 1, changes.append, monotonic=lambda: now[0])
    cached.set(1)
    cached.set(2)
    now[0] = 1
    assert cached.refresh() == 2
    now[0] = 2
    assert cached.refresh() == 1
    assert changes == [2, 1]
