"""`costs`: processor time of one call in each process, beside a bare answer under gunicorn as it comes.

Processor time repeats within a few per cent on a machine where rates differ by a third.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from statistics import quantiles
from typing import Any

import psutil

from benchmarks.calls import TARGETS, Target, warm_up
from benchmarks.report import Size, print_table
from benchmarks.stage import Stage, start_stage

# The calls that are compared, with the bare answer of the same method.
_CALLS = {each.name: each.bare for each in TARGETS if each.application != "stock"}
_LEAST_SLICES = 4
_US = 1_000_000
# The short form, and what it measures: our calls, and the bare answers that these are compared with.
_SHORT = Size(rounds=5, seconds=0.3, clients=300, rows=0)
_CHECKED = [each for each in TARGETS if each.application != "bare"]
_TRIES = 3
# How many times what was recorded a call may cost, also where more than so many programs want each processor: waits
# make batches smaller, and a payment cost half as much again with nine. The check itself makes about two.
_MOST_DEARER, _MOST_DEARER_WHEN_BUSY, _BUSY = 1.3, 2.0, 5


class DearerCallError(Exception):
    """A call costs more processor time than was recorded, in several tries."""


def measure_costs(size: Size) -> dict[str, Any]:
    """Measure the processor time of each call in alternating slices; print the table and return its rows.

    The lower quartile of the slices counts: other work on the machine only ever adds.
    """
    with start_stage(size.clients) as stage:
        costs = measure(stage, TARGETS, size)
    rows = [_row(name, costs) for name in costs]
    print_table("Microseconds of processor time of one call (lower quartile)", rows)
    return {"costs": rows}


def check_costs(recorded: Iterable[Mapping[str, Any]]) -> None:
    """Compare what each call costs, in bare answers, with the rows of an earlier `measure_costs`: half a minute.

    A further try measures only the calls that were dearer. Raises DearerCallError for a call that is dearer in each of
    three tries.
    """
    earlier = {row["call"]: 1 / row["bare_to_all"] for row in recorded}
    dearer = [each.name for each in _CHECKED if each.application == "service"]
    with start_stage(_SHORT.clients, ("stock", "service")) as stage:
        _warm_up_all(stage, _CHECKED, _SHORT)
        for _ in range(_TRIES):
            now = _in_bare_answers(stage, dearer)
            rows = [{"call": name, "now": round(now[name], 2), "recorded": round(earlier[name], 2)} for name in dearer]
            print_table("Processor time of a call, in bare answers", rows)
            load = os.getloadavg()[0] / (os.cpu_count() or 1)
            dearer = [name for name in dearer if is_dearer(now[name], earlier[name], load)]
            if not dearer:
                return
    raise DearerCallError(f"dearer than recorded in each of {_TRIES} tries: {', '.join(sorted(dearer))}")


def _in_bare_answers(stage: Stage, calls: Collection[str]) -> dict[str, float]:
    """Return the processor time of calls as multiples of that of their bare answers."""
    wanted = {*calls, *(_CALLS[name] for name in calls)}
    costs = _measure_warm(stage, [target for target in _CHECKED if target.name in wanted], _SHORT)
    return {name: costs[name]["all"] / costs[_CALLS[name]]["all"] for name in calls}


def is_dearer(now: float, recorded: float, load: float) -> bool:
    """Return whether a call costs 30 % more than recorded; `load` is the load average for each processor.

    On a busy machine, where waits alone make a call dearer, it must cost twice as much.
    """
    return now > recorded * (_MOST_DEARER if load <= _BUSY else _MOST_DEARER_WHEN_BUSY)


def measure(stage: Stage, targets: Sequence[Target], size: Size) -> dict[str, dict[str, float]]:
    """Return the processor time of a call of each target by kind of process, measured in alternating slices."""
    _warm_up_all(stage, targets, size)
    return _measure_warm(stage, targets, size)


def _warm_up_all(stage: Stage, targets: Sequence[Target], size: Size) -> None:
    for target in targets:
        warm_up(stage, target, size)


def _measure_warm(stage: Stage, targets: Sequence[Target], size: Size) -> dict[str, dict[str, float]]:
    slices: dict[str, list[dict[str, float]]] = {target.name: [] for target in targets}
    for _ in range(max(size.rounds, _LEAST_SLICES)):
        for target in targets:
            slices[target.name].append(_slice(stage, target, size.seconds))
    return {name: _lower_quartile(each) for name, each in slices.items()}


def _slice(stage: Stage, target: Target, seconds: float) -> dict[str, float]:
    """Processor time of one call of a target, in microseconds, by kind of process."""
    # The calls that use up the limit of a key are not those that are refused.
    load = target.load(stage, seconds)
    pids = stage.processes(target.application)
    before = {name: _processor_seconds(pid) for name, pid in pids.items()}
    # Those after the end of the slice cost as much.
    answers = stage.run(target.application, load).all_answers
    # A process of the database that ended takes its earlier time with it.
    return {name: _US * max(_processor_seconds(pid) - before[name], 0) / answers for name, pid in pids.items()}


def _processor_seconds(pid: int) -> float:
    """Processor time that a process and its children have used, in seconds."""
    used = time.clock_gettime(_processor_clock(pid))
    for child in psutil.Process(pid).children(recursive=True):
        # One of the database's processes may have ended since it was listed.
        with suppress(OSError):
            used += time.clock_gettime(_processor_clock(child.pid))
    return used


def _processor_clock(pid: int) -> int:
    """Linux's clock of a process, as `clock_getcpuclockid` makes it. Other counts have steps of ten milliseconds."""
    return (~pid << 3) | 2


def _lower_quartile(slices: list[dict[str, float]]) -> dict[str, float]:
    quartiles = {name: quantiles([each[name] for each in slices], n=4)[0] for name in slices[0]}
    return quartiles | {"all": quantiles([sum(each.values()) for each in slices], n=4)[0]}


def _row(name: str, costs: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    microseconds = {f"{process}_us": round(cost) for process, cost in costs[name].items()}
    bare = _CALLS.get(name)
    return {
        "call": name,
        **microseconds,
        "bare_to_all": round(costs[bare]["all"] / costs[name]["all"], 2) if bare else 1,
    }
