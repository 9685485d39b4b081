"""`calls`: requests per second of our API beside a bare application, and latencies under load."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.load.generator import Call, Load, Outcome
from benchmarks.load.requests import ask, calls_with, payment, sessions
from benchmarks.report import Size, print_table, ratios, spread
from benchmarks.stage import Stage, start_stage

CONNECTIONS = 32
MOST_A_MINUTE = 100
WRONG_SECRET = "ussdsk_" + "0" * 49
LOAD_SHARE = 0.7
_LATENCY_RUNS = 3
_DONE = b'"Done"'
_CREATED = b'"created"'
# More than any application answers in a second: payments and steps are sent once only.
_ONCE_PER_SECOND = 8000
_SPENT_AT_ONCE = 4
# A web process answers from memory once it has seen a key. So many calls of each key reach both processes.
_WARM_UP_CALLS = 8
# Then no more is waited for keys that were not seen by all.
_WARM_UP_RUNS = 20
_numbers = itertools.count()

Scripts = Sequence[Sequence[Call]]


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of call of one application. `scripts` makes the calls of a run of so many seconds."""

    name: str
    application: str
    scripts: Callable[[Stage, float], Scripts]
    status: int = 200
    repeats: bool = True
    bare: str = "bare GET, stock gunicorn"
    has_latencies: bool = False
    warms_up: bool = True

    def run(self, stage: Stage, seconds: float, rate: float = 0) -> Outcome:
        """Send the calls for so many seconds; `rate` is in calls per second, 0 sends as fast as replies come."""
        return stage.run(self.application, self.load(stage, seconds, rate))

    def load(self, stage: Stage, seconds: float, rate: float = 0) -> Load:
        """Make what `run` sends; some calls are made ready by others."""
        port = stage.webs[self.application].port
        return Load(port, self.scripts(stage, seconds), seconds, CONNECTIONS, self.status, self.repeats, rate)


def measure_calls(size: Size) -> dict[str, Any]:
    """Measure every target once in each round, then the latencies; print both tables and return their rows."""
    with start_stage(size.clients) as stage:
        for target in TARGETS:
            warm_up(stage, target, size)
        seen: dict[str, list[Outcome]] = {target.name: [] for target in TARGETS}
        for _ in range(size.rounds):
            for target in TARGETS:
                seen[target.name].append(target.run(stage, size.seconds))
        steady = [_latencies(stage, target, seen[target.name], size) for target in TARGETS if target.has_latencies]
    (bare,) = [row for row in steady if row["call"] == "bare GET"]
    for row in steady:
        row["p99_above_bare_ms"] = round(row["p99_ms"]["median"] - bare["p99_ms"]["median"], 2)
    calls = [_row(target, seen) for target in TARGETS]
    print_table(f"{size.rounds} rounds of {size.seconds} s: median (least to greatest)", calls)
    print_table(f"Latencies at {LOAD_SHARE:.0%} of the highest load", steady)
    return {"calls": calls, "latencies": steady}


def warm_up(stage: Stage, target: Target, size: Size) -> None:
    """Call a target until both processes know every key."""
    wanted = _WARM_UP_CALLS * size.clients if target.application == "service" and target.warms_up else 1
    for _ in range(_WARM_UP_RUNS):
        if wanted <= 0:
            return
        wanted -= target.run(stage, min(1.0, size.seconds)).answers


def _row(target: Target, seen: dict[str, list[Outcome]]) -> dict[str, Any]:
    rates = {name: [outcome.per_second for outcome in outcomes] for name, outcomes in seen.items()}
    own = rates[target.name]
    return {
        "call": target.name,
        "per_second": spread(own),
        "to_bare": ratios(own, rates[target.bare]),
        **{name: round(median(getattr(each, name) for each in seen[target.name]), 2) for name in ("p50_ms", "p99_ms")},
    }


def _latencies(stage: Stage, target: Target, outcomes: list[Outcome], size: Size) -> dict[str, Any]:
    rate = LOAD_SHARE * median(outcome.per_second for outcome in outcomes)
    runs = [target.run(stage, 2 * size.seconds, rate) for _ in range(min(_LATENCY_RUNS, size.rounds))]
    return {
        "call": target.name,
        "calls_per_second": round(rate),
        "p50_ms": spread(run.p50_ms for run in runs),
        "p99_ms": spread(run.p99_ms for run in runs),
        "p99_to_p50": spread(run.p99_ms / run.p50_ms for run in runs),
    }


def _get(purpose: str, path: str, mark: bytes) -> Callable[[Stage, float], Scripts]:
    return lambda stage, _: [calls_with(stage.keys[purpose], path, mark)]


def _with_wrong_secrets(stage: Stage, _: float) -> Scripts:
    keys = [key._replace(secret=WRONG_SECRET) for key in stage.keys["refused"]]
    return [calls_with(keys, "/bench/answer", b"INVALID_CREDENTIALS")]


def _above_the_limit(stage: Stage, _: float) -> Scripts:
    """Return calls with keys that have just made all the calls of their minute."""
    keys = [stage.keys["spent"].pop(0) for _ in range(_SPENT_AT_ONCE)]
    for call in calls_with(keys, "/bench/answer", _DONE) * MOST_A_MINUTE:
        ask(stage.webs["service"].port, call.request)
    return [calls_with(keys, "/bench/answer", b"RATE_LIMIT_EXCEEDED")]


def _payments(mark: bytes, path: bytes = b"") -> Callable[[Stage, float], Scripts]:
    def make(stage: Stage, seconds: float) -> Scripts:
        pairs = zip(range(int(seconds * _ONCE_PER_SECOND)), itertools.cycle(stage.keys["disbursement"]))
        made = [payment(key, f"order-{next(_numbers)}", place=place) for place, key in pairs]
        if path:
            made = [each.replace(b"/api/transactions", path, 1) for each in made]
        return [[Call(each, mark) for each in made]]

    return make


def _steps(stage: Stage, seconds: float) -> Scripts:
    each = int(2 * seconds * _ONCE_PER_SECOND / CONNECTIONS)
    paths = itertools.islice(itertools.cycle(stage.gateway_paths), CONNECTIONS)
    return [list(itertools.islice(sessions(path), each)) for path in paths]


TARGETS = (
    Target("bare GET, stock gunicorn", "stock", _get("authenticated", "/", _DONE)),
    Target("bare POST, stock gunicorn", "stock", _payments(_DONE, b"/"), bare="bare POST, stock gunicorn"),
    Target("bare GET", "bare", _get("authenticated", "/", _DONE), has_latencies=True),
    Target("bare POST", "bare", _payments(_DONE, b"/"), bare="bare POST, stock gunicorn"),
    Target("authenticated call", "service", _get("authenticated", "/bench/answer", _DONE), has_latencies=True),
    Target("refused 401", "service", _with_wrong_secrets, 401),
    Target("refused 429", "service", _above_the_limit, 429, warms_up=False),
    Target("balance", "service", _get("balance", "/api/balance", b'"available"'), has_latencies=True),
    Target(
        "disbursement",
        "service",
        _payments(_CREATED),
        201,
        repeats=False,
        bare="bare POST, stock gunicorn",
        has_latencies=True,
    ),
    Target(
        "USSD step",
        "service",
        _steps,
        repeats=False,
        bare="bare POST, stock gunicorn",
        has_latencies=True,
        warms_up=False,
    ),
)
"""Every target, in the order in which a round measures them."""
