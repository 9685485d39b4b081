"""`calls`: the service's calls beside a bare Flask answer and beside what a team would otherwise build."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.agreement import agree
from benchmarks.measure import measure_in_turn, row_of
from benchmarks.report import print_table, write_json
from benchmarks.stage import PEERS, start_stage
from benchmarks.targets import TARGETS


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
    rows = [row_of(target, seen) for target in targets]
    print_table(f"{rounds} rounds of {seconds} s: median (least to greatest)", rows)
    write_json(file, {"rounds": rounds, "seconds": seconds, "targets": rows})
