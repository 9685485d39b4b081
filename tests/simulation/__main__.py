"""`scripts/simulate`: runs many seeds on all processors, shows their progress, and shows the first violation."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, TextIO

from rich.progress import Progress

_SEEDS_OF_A_PROCESS = 40
_REPOSITORY = Path(__file__).parents[2]
_ENVIRONMENT = {**os.environ, "PYTHONHASHSEED": "0"}


def results(
    seeds: range, days: float, bug: str | None, jobs: int, shrinks: bool = True, world: str = "calls"
) -> Iterator[dict[str, Any]]:
    """Run seeds in processes of their own and yield the result of each as it comes; stop after a violation."""
    found: Queue[dict[str, Any] | None] = Queue()
    parts = [seeds[start : start + _SEEDS_OF_A_PROCESS] for start in range(0, len(seeds), _SEEDS_OF_A_PROCESS)]
    if len(parts) <= jobs:
        parts = [part for start in range(jobs) if (part := seeds[start::jobs])]
    failed = []

    def run(part: range) -> None:
        if failed:
            return
        share = json.dumps([part.start, part.step, len(part), days, bug, shrinks, world])
        command = [sys.executable, "-m", "tests.simulation.share", share]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_REPOSITORY, env=_ENVIRONMENT) as process:
            assert process.stdout is not None
            for line in process.stdout:
                result = json.loads(line)
                failed.extend(result["violations"])
                found.put(result)
        if process.returncode:
            failed.append(part)
            found.put({"seed": part.start, "violations": [["simulation", "the process failed"]], "lines": {}})

    with ThreadPoolExecutor(jobs) as pool:
        for work in [pool.submit(run, part) for part in parts]:
            work.add_done_callback(lambda _: found.put(None))
        left = len(parts)
        while left:
            result = found.get()
            if result is None:
                left -= 1
            else:
                yield result


def main() -> int:
    """Run what the command line says; return 1 when a violation was found."""
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=50, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--days", type=float, default=1.0, help="simulated days with faults; three quiet ones follow")
    parser.add_argument(
        "--day", type=int, metavar="PAYMENTS", help="a day of so many payments of the first seed, instead"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    parser.add_argument("--bug", help="plant a bug (tests/simulation/bugs.py)")
    parser.add_argument(
        "--world", choices=("calls", "money", "payouts"), default="calls", help="what the days are about"
    )
    parser.add_argument("--no-shrinking", action="store_true", help="do not shorten the plan of a violation")
    parser.add_argument("--report", type=Path, help="write the results that were kept into docs, and end")
    parser.add_argument("--keep", type=argparse.FileType("a"), help="append each result to a file")
    given = parser.parse_args()
    if given.report:
        # It reads the program, which the seeds do in processes of their own.
        from tests.simulation.report import read, write

        write(read(given.report))
        return 0
    if given.day:
        return _run_day(given.first, given.day, given.keep)
    seeds = range(given.first, given.first + given.seeds)
    sums: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    seconds = 0.0
    with Progress(disable=not sys.stderr.isatty()) as progress:
        shown = progress.add_task("simulated days", total=len(seeds))
        for result in results(seeds, given.days, given.bug, given.jobs, not given.no_shrinking, given.world):
            if given.keep:
                print(
                    json.dumps(result | {"bug": given.bug, "days": given.days, "world": given.world}),
                    file=given.keep,
                    flush=True,
                )
            if result["violations"]:
                progress.stop()
                _show(result)
                return 1
            progress.advance(shown)
            sums.update(result["lines"])
            pairs.update({(fault, step): count for fault, step, count in result["faults"]})
            seconds += result["seconds"]
    print(
        f"{len(seeds)} seeds, {len(seeds) * given.days:g} days with faults: {sums['invoked']} calls, "
        f"{sums['called']} calls of the provider, {sums['received']} webhooks, {sum(pairs.values())} faults and moods "
        f"in {len(pairs)} pairs. No violation. {seconds:.0f} s of processor time."
    )
    return 0


def day(seed: int, payments: int, show: Callable[[int], object] = lambda _: None) -> dict[str, Any]:
    """Run a day in a process of its own and return its figures; `show` gets how many payments have begun."""
    command = [sys.executable, "-m", "tests.simulation.day", str(seed), str(payments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_REPOSITORY, env=_ENVIRONMENT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                show(int(line))
                continue
            figures: dict[str, Any] = json.loads(line)
            return figures
    raise SystemExit("the process failed")


def _run_day(seed: int, payments: int, keep: TextIO | None) -> int:
    with Progress(disable=not sys.stderr.isatty()) as progress:
        shown = progress.add_task("payments", total=payments)
        figures = day(seed, payments, lambda begun: progress.update(shown, completed=begun))
    if keep:
        print(json.dumps(figures), file=keep, flush=True)
    print(json.dumps(figures, indent=2))
    return 1 if figures["violations"] else 0


def _show(result: dict[str, Any]) -> None:
    print(f"Seed {result['seed']}:")
    for rule, sentence in result["violations"]:
        print(f"  {rule}: {sentence}")
    for sentence in result.get("words", ()):
        print(sentence)


if __name__ == "__main__":
    sys.exit(main())
