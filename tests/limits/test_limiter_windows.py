"""The script and the process's own log answer exactly as the plain definition of a sliding window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ussd_server.limits.limiter import LocalWindows
from ussd_server.limits.sliding_window import Reading, SlidingWindowStorage, Windows

LetPass = Callable[[SlidingWindowStorage, float], None]

seconds = st.integers(1, 10).map(lambda number: number * 1_000_000)
windows_lists = st.lists(st.tuples(st.integers(1, 6), seconds), min_size=1, max_size=3)
# None is a call, 0 a peek, and any other number a pause in microseconds. With whole seconds among them, windows end at
# the very moment of a call.
happenings = st.lists(st.one_of(st.none(), st.just(0), seconds, st.integers(1, 12_000_000)), max_size=40)


class Log(Protocol):
    """What both logs can."""

    def acquire(self, name: str, windows: Windows, *, consume: bool) -> Reading: ...


def plain_answer(accepts: Sequence[int], windows: Windows, now: int, consume: bool) -> list[int]:
    """What a log must read, by definition: in no window of any length more accepts than its limit."""

    def fits(moment: int) -> bool:
        return all(sum(moment - at < length for at in accepts) < limit for limit, length in windows)

    moments = sorted({now, *(at + length for at in accepts for _, length in windows if at + length > now)})
    retry = next(moment for moment in moments if fits(moment)) - now
    after = [*accepts, now] if consume and retry == 0 else list(accepts)
    answer = [int(retry == 0), retry]
    for limit, length in windows:
        held = [at for at in after if now - at < length]
        answer += [max(0, limit - len(held)), min(held) + length - now if held else 0]
    return answer


def compare(log: Log, name: str, windows: Windows, steps: Sequence[int | None], wait: Callable[[int], int]) -> None:
    """Walk through `steps` with the log and the definition side by side.

    `wait` lets microseconds pass and gives how many of them the log's own clock does not show.
    """
    accepts: list[int] = []
    unseen = 0
    for step in steps:
        if step:
            unseen += wait(step)
            continue
        consume = step is None
        accepted, retry, clock, *left = log.acquire(name, windows, consume=consume)
        now = clock + unseen
        assert [accepted, retry, *left] == plain_answer(accepts, windows, now, consume)
        if accepted and consume:
            accepts.append(now)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(windows=windows_lists, steps=happenings)
def test_the_script_answers_as_the_definition(
    storage: SlidingWindowStorage, let_pass: LetPass, windows: Windows, steps: list[int | None]
) -> None:
    def wait(microseconds: int) -> int:
        let_pass(storage, microseconds / 1_000_000)
        return microseconds

    storage.clear("example")
    compare(storage, "example", windows, steps, wait)


@settings(deadline=None)
@given(windows=windows_lists, steps=happenings)
def test_the_log_in_memory_answers_as_the_definition(windows: Windows, steps: list[int | None]) -> None:
    clock_nanoseconds = 0

    def wait(microseconds: int) -> int:
        nonlocal clock_nanoseconds
        clock_nanoseconds += microseconds * 1000
        return 0

    compare(LocalWindows(clock=lambda: clock_nanoseconds), "example", windows, steps, wait)


def test_the_log_in_memory_drops_the_longest_silent_when_it_is_full() -> None:
    log = LocalWindows(most_entries=4)
    hour = [(2, 3_600_000_000)]
    for name in ("first", "second", "first", "third"):
        log.acquire(name, hour)
    assert log.acquire("second", hour)[3] == 0
    log.acquire("fourth", hour)
    assert log.acquire("first", hour)[3] == 1


def test_the_log_in_memory_counts_in_the_hour_what_left_the_minute() -> None:
    clock_nanoseconds = 0
    log = LocalWindows(clock=lambda: clock_nanoseconds)
    for is_accepted in (1, 1, 1, 0):
        assert log.acquire("busy", [(1, 60_000_000), (3, 3_600_000_000)])[0] == is_accepted
        clock_nanoseconds += 61_000_000_000


def test_the_log_in_memory_forgets_what_left_the_longest_window() -> None:
    clock_nanoseconds = 0
    log = LocalWindows(most_entries=10, clock=lambda: clock_nanoseconds)
    log.acquire("silent", [(1, 3_600_000_000)])
    for _ in range(100):
        log.acquire("busy", [(5, 1_000_000), (5, 2_000_000)])
        clock_nanoseconds += 1_000_000_000
    assert log.acquire("silent", [(1, 3_600_000_000)])[0] == 0


@pytest.mark.parametrize(("remaining", "processes", "left"), [(20, 2, 10), (7, 2, 3), (1, 2, 0), (0, 1, 0), (5, 1, 5)])
def test_windows_begin_with_what_redis_said(remaining: int, processes: int, left: int) -> None:
    now = 0
    log = LocalWindows(clock=lambda: now, processes=processes)
    windows = [(20 // processes, 60_000_000)]
    # The oldest call leaves the window in 40 seconds.
    log.note("known", [1, 0, 0, remaining, 40_000_000])
    assert sum(log.acquire("known", windows)[0] for _ in range(20)) == left
    assert sum(log.acquire("unknown", windows)[0] for _ in range(20)) == 20 // processes
    now = 61 * 10**9
    assert sum(log.acquire("known", windows)[0] for _ in range(20)) == 20 // processes


def test_windows_begin_with_the_last_thing_that_redis_said() -> None:
    log, windows = LocalWindows(clock=lambda: 0), [(2, 60_000_000), (3, 3_600_000_000)]
    log.note("known", [1, 0, 0, 2, 0, 1, 3_000_000_000])
    assert [log.acquire("known", windows)[0] for _ in range(3)] == [1, 0, 0]
    log.note("known", [1, 0, 0, 2, 0, 3, 0])
    assert [log.acquire("known", windows)[0] for _ in range(3)] == [1, 1, 0]
    log.note("known", [0, 1, 0, 0, 60_000_000, 0, 60_000_000])
    log.clear("known")
    assert [log.acquire("known", windows)[0] for _ in range(3)] == [1, 1, 0]
