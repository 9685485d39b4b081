"""`costs`: processor time of one call in each process, beside a bare answer under gunicorn as it comes.

Processor time repeats within a few per cent on a machine where rates differ by a third.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from statistics import quantiles
from typing import Any

import psutil

from benchmarks.agreement import agree
from benchmarks.calls import TARGETS, Target, warm_up
from benchmarks.report import Size, print_table
from benchmarks.stage import Stage, start_stage

# The calls that are measured, with the bare answer of the same method.
_CALLS = {
    "bare GET": "bare GET, stock gunicorn",
    "bare POST": "bare POST, stock gunicorn",
    "authenticated call": "bare GET, stock gunicorn",
    "refused 401": "bare GET, stock gunicorn",
    "refused 429": "bare GET, stock gunicorn",
    "balance": "bare GET, stock gunicorn",
    "disbursement": "bare POST, stock gunicorn",
    "USSD step": "bare POST, stock gunicorn",
}
_LEAST_SLICES = 4
_US = 1_000_000


def measure_costs(size: Size) -> dict[str, Any]:
    """Measure the processor time of each call in alternating slices; print the table and return its rows.

    The lower quartile of the slices counts: other work on the machine only ever adds.
    """
    targets = [each for each in TARGETS if each.name in {*_CALLS, *_CALLS.values()}]
    with start_stage(size.clients) as stage:
        agree(stage)
        for target in targets:
            warm_up(stage, target, size)
        slices: dict[str, list[dict[str, float]]] = {target.name: [] for target in targets}
        for _ in range(max(size.rounds, _LEAST_SLICES)):
            for target in targets:
                slices[target.name].append(_slice(stage, target, size.seconds))
    costs = {name: _lower_quartile(each) for name, each in slices.items()}
    rows = [_row(name, costs) for name in costs]
    print_table("Microseconds of processor time of one call (lower quartile)", rows)
    return {"costs": rows}


def _slice(stage: Stage, target: Target, seconds: float) -> dict[str, float]:
    """Processor time of one call of a target, in microseconds, by kind of process."""
    pids = stage.processes(target.application)
    before = {name: _processor_seconds(pid) for name, pid in pids.items()}
    answers = target.run(stage, seconds).answers
    return {name: _US * (_processor_seconds(pid) - before[name]) / answers for name, pid in pids.items()}


def _processor_seconds(pid: int) -> float:
    """Processor time that a process and its children have used, in seconds."""
    process = psutil.Process(pid)
    times = [process.cpu_times()]
    for child in process.children(recursive=True):
        # One of the database's processes may have ended since it was listed.
        with suppress(psutil.NoSuchProcess):
            times.append(child.cpu_times())
    return sum(each.user + each.system for each in times)


def _lower_quartile(slices: list[dict[str, float]]) -> dict[str, float]:
    found = {name: quantiles([each[name] for each in slices], n=4)[0] for name in slices[0]}
    return found | {"all": quantiles([sum(each.values()) for each in slices], n=4)[0]}


def _row(name: str, costs: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    microseconds = {f"{process}_us": round(cost) for process, cost in costs[name].items()}
    bare = _CALLS.get(name)
    return {
        "call": name,
        **microseconds,
        "bare_to_all": round(costs[bare]["all"] / costs[name]["all"], 2) if bare else 1,
    }
