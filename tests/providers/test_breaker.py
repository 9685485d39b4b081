"""The breaker stops calls to a provider after trouble, and lets one probe through after a rest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.providers.provider_server import Hours
from ussd_server.providers.http.connection import Breaker


def test_it_opens_after_several_troubles_in_a_row() -> None:
    breaker = Breaker(failures_to_open=3, monotonic=Hours())
    for _ in range(2):
        breaker.note(well=False)
    assert breaker.admit()
    assert not breaker.rests
    breaker.note(well=False)
    assert breaker.rests
    assert not breaker.admit()


def test_a_good_answer_between_troubles_starts_the_count_again() -> None:
    breaker = Breaker(failures_to_open=2, monotonic=Hours())
    for well in (False, True, False, True, False):
        breaker.note(well=well)
    assert breaker.admit()


def test_of_simultaneous_calls_after_the_rest_one_goes_through_as_a_probe() -> None:
    hours = Hours()
    breaker = Breaker(failures_to_open=1, rest_seconds=15, monotonic=hours)
    breaker.note(well=False)
    hours.now += 15
    assert not breaker.rests
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: breaker.admit(), range(40))) == 1


def test_a_good_probe_closes_it() -> None:
    hours = Hours()
    breaker = Breaker(failures_to_open=1, rest_seconds=15, monotonic=hours)
    breaker.note(well=False)
    hours.now += 15
    assert breaker.admit()
    breaker.note(well=True)
    assert breaker.admit()
    assert breaker.admit()


def test_a_bad_probe_and_one_that_never_ends_both_mean_another_rest() -> None:
    hours = Hours()
    breaker = Breaker(failures_to_open=1, rest_seconds=15, monotonic=hours)
    breaker.note(well=False)
    for _ in range(2):
        hours.now += 15
        assert breaker.admit()
        assert breaker.rests
        assert not breaker.admit()
