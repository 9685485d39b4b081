"""The benchmark measures real programs that answer alike, and judges what it measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from benchmarks.agreement import DisagreementError, agree
from benchmarks.document import DOCUMENT, PLACES, with_tables
from benchmarks.figures import figures_of
from benchmarks.generator import Load
from benchmarks.measure import measure_in_turn, row_of
from benchmarks.profile import read_stacks
from benchmarks.report import spread
from benchmarks.requests import call_with, with_wrong_secret
from benchmarks.stage import Stage, start_stage
from benchmarks.targets import TARGETS

pytestmark = pytest.mark.slow

_CLIENTS = 100


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with start_stage((), clients=_CLIENTS) as started:
        yield started


def test_the_bare_answer_and_the_door_answer_alike(stage: Stage) -> None:
    agree(stage)


def test_a_program_that_answers_otherwise_is_not_measured(stage: Stage) -> None:
    keys = stage.tenants.keys["spent"]
    keys.append(with_wrong_secret(keys[0]))
    with pytest.raises(DisagreementError, match="the right pair"):
        agree(stage)


@pytest.mark.parametrize("name", [target.name for target in TARGETS if target.program in ("bare", "service")])
def test_every_call_of_the_service_can_be_measured(stage: Stage, name: str) -> None:
    (target,) = (target for target in TARGETS if target.name == name)
    measured = stage.servers.run(target.program, target.load(stage, 0.2))
    assert measured.outcome.answers > 0
    assert measured.outcome.p99_ms >= measured.outcome.p50_ms > 0


def test_a_row_shows_the_ratio_to_the_bare_answer_and_the_time_of_the_processors(stage: Stage) -> None:
    targets = [replace(target, warm_up_calls=0) for target in TARGETS if target.name in ("bare GET", "balance")]
    seen = measure_in_turn(stage, targets, rounds=1, seconds=0.5)
    bare, balance = (row_of(target, seen) for target in targets)
    assert bare["ratio"]["median"] == 1
    rates = {name: runs[0].outcome.per_second for name, runs in seen.items()}
    assert balance["ratio"]["median"] == pytest.approx(rates["balance"] / rates["bare GET"], rel=0.01)
    assert balance["web_us"] > 0


def test_a_load_ends_at_the_first_answer_that_is_not_as_it_must_be(stage: Stage) -> None:
    calls = call_with(stage.tenants.keys["door"], "/bench/nothing")
    with pytest.raises(RuntimeError, match=r"an unexpected answer.*404"):
        stage.servers.run("service", Load(stage.port("service"), [calls], 0.2, repeats=True))


def test_a_steady_load_sends_as_many_calls_as_were_asked_for(stage: Stage) -> None:
    calls = call_with(stage.tenants.keys["door"], "/")
    outcome = stage.servers.run("bare", Load(stage.port("bare"), [calls], 0.5, repeats=True, rate=100)).outcome
    assert outcome.answers == 50


def test_a_figure_is_met_by_its_median_and_not_by_its_best_round() -> None:
    met = figures_of({"calls": _calls(door=[90, 91, 20], bare=[100, 100, 100])})
    missed = figures_of({"calls": _calls(door=[89, 99, 20], bare=[100, 100, 100])})
    assert [figure.row()["verdict"] for figure in (*met, *missed)] == ["met", "NOT MET"]


def test_a_latency_is_met_when_it_is_small_enough() -> None:
    calls: dict[str, Any] = {"targets": [], "latencies": [{"target": "door", "ratio": spread([4.9])}]}
    assert [figure.is_met for figure in figures_of({"calls": calls})] == [True]
    calls["latencies"][0]["ratio"] = spread([5.1])
    assert [figure.is_met for figure in figures_of({"calls": calls})] == [False]


def test_a_profile_tells_whose_a_function_is() -> None:
    line = (
        "run (/usr/lib/python3.11/threading.py:975);handle (/x/site-packages/gunicorn/http/wsgi.py:300);"
        "admit_key (/x/ussd_server/services/auth.py:60) 7"
    )
    ((frames, count),) = read_stacks(line)
    assert [frame.owner for frame in frames] == ["Python", "gunicorn", "ussd_server/services"]
    assert count == 7


def test_tables_of_the_document_are_written_at_their_places() -> None:
    result: dict[str, Any] = {"processors": 2, "load_average": 0.5, "calls": _calls(door=[90], bare=[100])}
    text = with_tables("<!-- figures -->\nold\n<!-- end -->\nwords\n<!-- machine -->\n<!-- end -->\n", result)
    assert "| door / bare GET | >= 0.9 |" in text
    assert "old" not in text
    assert "words\n<!-- machine -->\nMeasured with 2 processors" in text


def test_every_table_of_the_document_has_its_place() -> None:
    places = set(re.findall(r"<!-- ([a-z]+) -->", DOCUMENT.read_text())) - {"end"}
    assert places == PLACES


def _calls(door: list[int], bare: list[int]) -> dict[str, Any]:
    used = {"web_us": 100, "postgres_us": 0, "redis_us": 10}
    rows = [{"target": name, "rounds": rounds, **used} for name, rounds in (("door", door), ("bare GET", bare))]
    return {"targets": rows, "latencies": []}
