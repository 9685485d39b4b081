"""Runs some seeds in this process, whose time is the virtual one, and prints one line of JSON for each."""

from __future__ import annotations

import gc
import json
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.simulation.checker import judge
from tests.simulation.worlds import virtual_time
from tests.simulation.worlds.bugs import planted
from tests.simulation.worlds.plan import plan_of
from tests.simulation.worlds.shrinking import in_words, shrunk
from tests.simulation.worlds.world import Outcome, run

MEMORY = Path("/dev/shm")


def run_seeds(first: int, step: int, count: int, days: float, bug: str | None, shrinks: bool) -> None:
    """Run the seeds, and stop after the first with a violation."""
    # Objects of a world are few and die together; those of the program live on, and are not looked through each time.
    gc.disable()
    gc.freeze()
    with ExitStack() as stack:
        place = str(MEMORY) if MEMORY.is_dir() else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simulated-", dir=place)))
        if bug:
            stack.enter_context(planted(bug))
        for seed in range(first, first + step * count, step):
            began_at = virtual_time.processor_seconds()
            plan = plan_of(seed, days)
            outcome = run(seed, plan, days, folder)
            violations = judge(outcome.history)
            line: dict[str, Any] = {
                "seed": seed,
                "violations": violations,
                "lines": Counter(each["what"] for each in outcome.history),
                "faults": _listed(outcome.faults),
                "points": _listed(outcome.points),
                "digest": outcome.digest(),
            }
            if violations and shrinks:
                line["words"] = _shortest(seed, days, folder, violations[0][0], plan)
            gc.collect()
            line["seconds"] = round(virtual_time.processor_seconds() - began_at, 3)
            print(json.dumps(line), flush=True)
            if violations:
                return


def _shortest(seed: int, days: float, folder: Path, rule: str, plan: list[Any]) -> list[str]:
    def fails(tried: list[Any]) -> Outcome | None:
        outcome = run(seed, tried, days, folder)
        return outcome if rule in {each for each, _ in judge(outcome.history)} else None

    return in_words(shrunk(plan, fails))


def _listed(counter: Counter[tuple[str, str]]) -> list[tuple[str, str, int]]:
    return [(*pair, count) for pair, count in sorted(counter.items())]
