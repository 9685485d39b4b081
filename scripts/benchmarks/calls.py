"""`calls`: the service's calls beside a bare Flask answer and beside what a team would otherwise build."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks.agreement import agree
from benchmarks.measure import measure_in_turn, rates_of, row_of
from benchmarks.report import print_table, spread, write_json
from benchmarks.servers import Measured
from benchmarks.stage import PEERS, Stage, start_stage
from benchmarks.targets import TARGETS, Target

LOAD_SHARE = 0.7
_LATENCY_RUNS, _LATENCY_SECONDS = 3, 3.0


@click.command()
@click.option("--only", multiple=True, type=click.Choice([target.name for target in TARGETS]), help="Measure these.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=1.5, show_default=True, help="How long each run takes.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file as well.")
def calls(only: tuple[str, ...], rounds: int, seconds: float, file: Path | None) -> None:
    """Measure every kind of call in turn, each authenticated and limited, beside the bare answer and the peers."""
    targets = [target for target in TARGETS if not only or target.name in only]
    with start_stage([peer for peer in PEERS if any(target.program == peer for target in targets)]) as stage:
        agree(stage)
        seen = measure_in_turn(stage, targets, rounds, seconds)
        steady = [_measure_latency(stage, target, seen[target.name]) for target in targets if target.is_promised]
    rows = [row_of(target, seen) for target in targets]
    print_table(f"{rounds} rounds of {seconds} s: median (least to greatest)", rows)
    if steady:
        print_table(f"Latencies at {LOAD_SHARE:.0%} of the highest load, evenly spaced calls", steady)
    write_json(file, {"rounds": rounds, "seconds": seconds, "targets": rows, "latencies": steady})


def _measure_latency(stage: Stage, target: Target, runs: list[Measured]) -> dict[str, Any]:
    rate = LOAD_SHARE * median(rates_of(runs))
    outcomes = [
        stage.servers.run(target.program, target.load(stage, _LATENCY_SECONDS, rate)).outcome
        for _ in range(_LATENCY_RUNS)
    ]
    return {
        "target": target.name, "calls_per_second": round(rate),
        "p50_ms": spread(outcome.p50_ms for outcome in outcomes),
        "p99_ms": spread(outcome.p99_ms for outcome in outcomes),
        "ratio": spread(outcome.p99_ms / outcome.p50_ms for outcome in outcomes),
    }  # fmt: skip
