"""The command line of `scripts/bench`."""

from __future__ import annotations

import os
import platform
import signal
import sys
import sysconfig
from pathlib import Path
from typing import Any

import click
import orjson

from benchmarks.calls import measure_calls
from benchmarks.costs import DearerCallError, check_costs, measure_costs
from benchmarks.exports import measure_exports
from benchmarks.pages import measure_pages
from benchmarks.payouts import measure_payouts
from benchmarks.postings import measure_postings
from benchmarks.report import DOCUMENT, FIGURES, Size, fill_tables, floors_of, print_table
from benchmarks.smpp import measure_smpp
from benchmarks.statements import measure_statements

_PARTS = {
    "calls": measure_calls,
    "costs": measure_costs,
    "postings": measure_postings,
    "pages": measure_pages,
    "payouts": measure_payouts,
    "statements": measure_statements,
    "exports": measure_exports,
    "smpp": measure_smpp,
}


@click.group()
def bench() -> None:
    """Measure how fast the service is.

    Every rate is compared with a plain Flask application that returns a constant, or with pgbench. All servers are
    started for the run and listen on loopback.
    """


@bench.command()
@click.argument("parts", nargs=-1, type=click.Choice(list(_PARTS)))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=1), help="Repetitions.")
@click.option("--seconds", default=1.5, show_default=True, type=click.FloatRange(0.1), help="Length of a measurement.")
@click.option("--clients", default=1250, show_default=True, type=click.IntRange(50), help="API clients that call.")
@click.option("--rows", default=1_000_000, show_default=True, type=click.IntRange(1000), help="Rows of the big table.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Keep medians and spreads in this file.")
def run(parts: tuple[str, ...], rounds: int, seconds: float, clients: int, rows: int, file: Path | None) -> None:
    """Measure PARTS (default: all, about twenty minutes).

    \b
    calls     requests per second and latencies of the API, beside the bare application
    costs     processor time of a call in web process, PostgreSQL, Valkey and generator, beside a bare answer
    postings  transfers per second, beside pgbench calling the same database function
    pages     the time of a page of transactions in a small and in a large table
    payouts   rows of a payout recorded per second, beside single disbursements by the API
    statements  200,000 lines of a provider's statement: seconds and memory on both databases
    smpp      USSD steps over SMPP beside those over HTTP, one process of each
    exports   a statement of a million lines as CSV, and the opening balance of a long account

    Prints the medians with the least and the greatest value, then the floors. Exit status 1: a median misses its floor.
    """
    result: dict[str, Any] = {
        "processors": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "python": _interpreter(),
    }
    for name in parts or _PARTS:
        result |= _PARTS[name](Size(rounds, seconds, clients, rows))
    if file is not None:
        kept = orjson.loads(file.read_bytes()) if file.exists() else {}
        file.write_bytes(orjson.dumps(kept | result, option=orjson.OPT_INDENT_2))
    floors = floors_of(result)
    print_table("Floors", [floor.row() for floor in floors])
    sys.exit(int(not all(floor.is_met for floor in floors)))


def _interpreter() -> str:
    """Return version and build of Python: one that was built without profiles is a tenth slower."""
    is_profiled = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    return f"Python {platform.python_version()}, built {'with' if is_profiled else 'without'} profiles"


@bench.command()
def check() -> None:
    """Compare the processor time of hot calls with docs/performance.json, in half a minute.

    Exit status 1: a call costs 30 % more than recorded, as a multiple of a bare answer's cost, in each of three tries.
    With more than five programs for each processor it must cost twice as much, because waits alone make calls dearer.
    """
    try:
        check_costs(orjson.loads(FIGURES.read_bytes())["costs"])
    except DearerCallError as error:
        raise click.ClickException(str(error)) from None


@bench.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path), default=FIGURES)
@click.option("--to", "target", type=click.Path(path_type=Path), default=DOCUMENT, help="Write to this file instead.")
def document(file: Path, target: Path) -> None:
    """Fill the tables of docs/PERFORMANCE.md.

    FILE is what `run --json` wrote (default: docs/performance.json).
    """
    target.write_text(fill_tables(DOCUMENT.read_text(), orjson.loads(file.read_bytes())))


if __name__ == "__main__":
    # SIGTERM ends the servers that were started as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    bench(prog_name="scripts/bench")
