"""Writes what was simulated into `docs/RELIABILITY.md`, and a day into `docs/PERFORMANCE.md`, from kept results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.simulation.worlds.bugs import BUGS

_DOCS = Path(__file__).parents[2] / "docs"
BEGINS, ENDS = "<!-- written by scripts/simulate --report -->\n", "<!-- end -->\n"
_FAULTS = ("kill", "stall", "freeze", "broken connection", "lost commits", "clock jump")
_STEPS = ("collection", "disbursement", "refund", "payout", "phone", "callback", "settlement", "payouts", "deliveries")


def write(results: list[dict[str, Any]]) -> None:
    """Put the report of worlds and that of the last day into their pages, in the place of those before."""
    days = [result for result in results if "payments" in result]
    worlds = [result for result in results if "payments" not in result]
    if worlds:
        _replace(_DOCS / "RELIABILITY.md", written(worlds))
    if days:
        _replace(_DOCS / "PERFORMANCE.md", written_day(days[-1]))


def _replace(page: Path, text: str) -> None:
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    page.write_text(f"{before}{BEGINS}{text}{ENDS}{after}", encoding="utf-8")


def written_day(figures: dict[str, Any]) -> str:
    """The report of a day: its counts, the closed day's sums, and processor seconds."""
    counts = [(name, figure) for name, figure in figures.items() if isinstance(figure, int | float) and name != "seed"]
    sums = [(f"shillings of the closed day, {side}", figures["closed"][side] // 100) for side in ("ours", "theirs")]
    seconds = [(f"processor seconds, {name}", f"{each:,.1f}") for name, each in figures["processor seconds"].items()]
    rows = [*counts, *sums, *seconds, ("violations of a rule", len(figures["violations"]))]
    return "\n".join([*_table(("what", "number"), rows), ""])


def written(results: list[dict[str, Any]]) -> str:
    """The report: sums of what happened, and how many planted bugs were found."""
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
            f"Kills struck at {len(killed)} of the {len(known)} points between two transactions or around a call.",
            "",
            _planted(results),
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


def _planted(results: list[dict[str, Any]]) -> str:
    """Which planted bugs were found, and by which seed at the latest."""
    seeds = {result["bug"]: result["seed"] for result in results if result["bug"] and result["violations"]}
    missed = [BUGS[name][0] for name in BUGS if name not in seeds]
    latest = max(seeds.values(), default=0)
    found = f"Of {len(BUGS)} planted bugs {len(seeds)} were found, by seed {latest} at the latest."
    return f"{found} Not found: {'; '.join(missed)}." if missed else found


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    shown = [[f"{each:,}" if isinstance(each, int) else str(each) for each in row] for row in rows]
    heads = list(heads)
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *shown)]


def read(path: Path) -> list[dict[str, Any]]:
    """The results of a file that `--keep` wrote."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
