"""Targets measured in turn: several rounds, medians, ratios within the round, and what the servers used."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from benchmarks.report import spread
from benchmarks.servers import Measured
from benchmarks.stage import Stage
from benchmarks.targets import Target

_WARM_UP_SECONDS = 1.5
_LONGEST_WARM_UP_SECONDS = 30.0
_SERVERS = ("web", "postgres", "redis", "generator")


def measure_in_turn(stage: Stage, targets: Sequence[Target], rounds: int, seconds: float) -> dict[str, list[Measured]]:
    """Every target once in each round, after all were warmed up."""
    for target in targets:
        warm_up(lambda target=target: _run(stage, target, _WARM_UP_SECONDS), target.warm_up_calls)
    seen: dict[str, list[Measured]] = defaultdict(list)
    for _ in range(rounds):
        for target in targets:
            seen[target.name].append(_run(stage, target, seconds))
    return seen


def warm_up(run: Callable[[], Measured], calls: int) -> None:
    """Run until so many calls were answered, at least once and for not much longer than 30 s."""
    ends_at = time.monotonic() + _LONGEST_WARM_UP_SECONDS
    answered = run().outcome.answers
    while answered < calls and time.monotonic() < ends_at:
        answered += run().outcome.answers


def _run(stage: Stage, target: Target, seconds: float) -> Measured:
    return stage.servers.run(target.program, target.load(stage, seconds))


def rates_of(runs: Sequence[Measured]) -> list[float]:
    """Answers a second, round by round."""
    return [run.outcome.per_second for run in runs]


def ratios(runs: Sequence[Measured], beside: Sequence[Measured]) -> list[float]:
    """How many times as many answers a second one target gave as another, round by round."""
    return [rate / other for rate, other in zip(rates_of(runs), rates_of(beside), strict=True)]


def server_us(runs: Sequence[Measured]) -> float:
    """Processor time of all servers for a request, in microseconds: the median of the rounds."""
    return median(sum(used for name, used in run.cpu_us.items() if name != "generator") for run in runs)


def row_of(target: Target, seen: dict[str, list[Measured]]) -> dict[str, Any]:
    """What the table says of a target."""
    runs = seen[target.name]
    found: dict[str, Any] = {
        "target": target.name, "per_second": spread(rates_of(runs)),
        "rounds": [round(rate, 1) for rate in rates_of(runs)],
    }  # fmt: skip
    if target.beside in seen:
        found["ratio"] = spread(ratios(runs, seen[target.beside]))
        found["cpu_ratio"] = round(server_us(seen[target.beside]) / server_us(runs), 3)
    for name in _SERVERS:
        found[f"{name}_us"] = round(median(run.cpu_us[name] for run in runs))
    for name in ("p50_ms", "p99_ms"):
        found[name] = round(median(getattr(run.outcome, name) for run in runs), 2)
    return found
