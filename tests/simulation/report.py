"""Writes the part of `docs/RELIABILITY.md` that says what was simulated, from the results that `--keep` kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.simulation.worlds.bugs import BUGS

PAGE = Path(__file__).parents[2] / "docs" / "RELIABILITY.md"
BEGINS, ENDS = "<!-- written by scripts/simulate --report -->\n", "<!-- end -->\n"
_FAULTS = ("kill", "stall", "freeze", "broken connection", "lost commits", "clock jump")
_STEPS = ("collection", "disbursement", "refund", "payout", "phone", "callback", "settlement", "payouts", "deliveries")


def write(results: list[dict[str, Any]]) -> None:
    """Put the report of some results into the page, in the place of the one before."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    PAGE.write_text(f"{before}{BEGINS}{written(results)}{ENDS}{after}", encoding="utf-8")


def written(results: list[dict[str, Any]]) -> str:
    """The report: sums, a table of faults by step, the moods of provider and receivers, and the planted bugs."""
    of_bugs = {result["bug"]: result for result in results if result["bug"]}
    worlds = [result for result in results if not result["bug"]]
    lines, pairs, moments = Counter[str](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    struck = set()
    for result in worlds:
        lines.update(result["lines"])
        for fault, step, count in result["faults"]:
            pairs[fault, step.partition(",")[0]] += count
            if fault in _FAULTS:
                struck.add((fault, step))
        moments.update({(step, moment): count for step, moment, count in result["points"]})
    days = sum(result["days"] for result in worlds)
    violations = sum(bool(result["violations"]) for result in worlds)
    known = {f"{step}, {moment}" for step, moment in moments if step in _STEPS}
    killed = {step for fault, step in struck if fault == "kill"} & known
    return "\n".join(
        [
            "",
            f"{len(worlds):,} seeds, {days:,.0f} days with faults and {3 * len(worlds):,} quiet days after them: "
            f"**{violations} violations**.",
            "",
            *_table(("what happened", "times"), _sums(lines, pairs, moments)),
            "",
            "Faults by the step that was under way. "
            f"Kills struck at {len(killed)} of the {len(known)} points between two transactions or around a call.",
            "",
            *_table(
                ("fault", *_STEPS), [(fault, *(_shown(pairs[fault, step]) for step in _STEPS)) for fault in _FAULTS]
            ),
            "",
            "Moods of the provider, of the network on the way to it, and of webhook receivers.",
            "",
            *_table(("mood", "times"), _moods(pairs)),
            "",
            "Planted bugs, and the first seed that finds each.",
            "",
            *_table(("bug", "seed", "rules that it breaks"), [_of_bug(name, of_bugs.get(name)) for name in BUGS]),
            "",
            "",
        ]
    )


def _sums(lines: Counter[str], pairs: Counter[tuple[str, str]], moments: Counter[tuple[str, str]]) -> list[Any]:
    return [
        ("calls of clients and phones", lines["invoked"]),
        ("calls without an answer", lines["unknown"]),
        ("calls of the provider", lines["called"]),
        ("payments in the provider's book", lines["book"]),
        ("webhooks received", lines["received"]),
        ("faults", sum(count for (fault, _), count in pairs.items() if fault in _FAULTS)),
        ("databases that went back", lines["lost"]),
        ("payments that only reconciliation found", lines["difference"]),
        ("points passed at which a fault can strike", sum(moments.values())),
    ]


def _moods(pairs: Counter[tuple[str, str]]) -> list[tuple[str, int]]:
    moods = Counter[str]()
    for (fault, _), count in pairs.items():
        if ":" in fault:
            moods[fault] += count
    return sorted(moods.items())


def _of_bug(name: str, result: dict[str, Any] | None) -> tuple[str, str, str]:
    found = result is not None and bool(result["violations"])
    rules = sorted({rule for rule, _ in result["violations"]}) if result else []
    seed = f"{result['seed']:,}" if result is not None and found else "not found"
    return BUGS[name][0], seed, ", ".join(f"`{rule}`" for rule in rules)


def _shown(count: int) -> str:
    return f"{count:,}" if count else "-"


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    shown = [[f"{each:,}" if isinstance(each, int) else str(each) for each in row] for row in rows]
    heads = list(heads)
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *shown)]


def read(path: Path) -> list[dict[str, Any]]:
    """The results of a file that `--keep` wrote."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
