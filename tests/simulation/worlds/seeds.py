"""Runs some seeds in this process, whose time is the virtual one, and prints one line of JSON for each."""

from __future__ import annotations

import gc
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.simulation.checker import RULES, Rule, judge
from tests.simulation.money_rules import MONEY_RULES
from tests.simulation.worlds import virtual_time
from tests.simulation.worlds.bugs import planted
from tests.simulation.worlds.money import Money
from tests.simulation.worlds.money_plan import money_plan_of
from tests.simulation.worlds.plan import Incident, plan_of
from tests.simulation.worlds.rows import Rows, rows_plan_of
from tests.simulation.worlds.shrinking import in_words, shrunk
from tests.simulation.worlds.world import Outcome, World, run

WORLDS: dict[str, tuple[type[World], Callable[[int, float], list[Incident]], tuple[Rule, ...]]] = {
    "calls": (World, plan_of, RULES),
    "money": (Money, money_plan_of, MONEY_RULES),
    "payouts": (Rows, rows_plan_of, RULES),
}
MEMORY = Path("/dev/shm")


def run_seeds(first: int, step: int, count: int, days: float, bug: str | None, shrinks: bool, kind: str) -> None:
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
            world, plan_of_world, rules = WORLDS[kind]
            plan = plan_of_world(seed, days)
            outcome = run(seed, plan, days, folder, world=world)
            violations = judge(outcome.history, rules)
            line: dict[str, Any] = {
                "seed": seed,
                "violations": violations,
                "lines": Counter(each["what"] for each in outcome.history),
                "faults": _listed(outcome.faults),
                "points": _listed(outcome.points),
                "digest": outcome.digest(),
            }
            if violations and shrinks:
                line["words"] = _shortest(seed, days, folder, violations[0][0], plan, kind)
            gc.collect()
            line["seconds"] = round(virtual_time.processor_seconds() - began_at, 3)
            print(json.dumps(line), flush=True)
            if violations:
                return


def _shortest(seed: int, days: float, folder: Path, rule: str, plan: list[Incident], kind: str) -> list[str]:
    world, _, rules = WORLDS[kind]

    def fails(tried: list[Incident]) -> Outcome | None:
        outcome = run(seed, tried, days, folder, world=world)
        return outcome if rule in {each for each, _ in judge(outcome.history, rules)} else None

    return in_words(shrunk(plan, fails))


def _listed(counter: Counter[tuple[str, str]]) -> list[tuple[str, str, int]]:
    return [(*pair, count) for pair, count in sorted(counter.items())]
