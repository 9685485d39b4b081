"""`all`: six benchmarks, one after the other, and what the service must reach beside what it reached."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import orjson

from benchmarks.calls import calls
from benchmarks.document import FIGURES
from benchmarks.figures import figures_of
from benchmarks.growth import growth
from benchmarks.ledger import ledger
from benchmarks.pages import pages
from benchmarks.profile import profile
from benchmarks.report import print_table, write_json
from benchmarks.ussd import ussd

_PARTS = {"calls": calls, "profile": profile, "ledger": ledger, "pages": pages, "growth": growth, "ussd": ussd}


@click.command("all")
@click.option("--only", multiple=True, type=click.Choice(list(_PARTS)), help="Run these parts.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds of each part, instead of its own number.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file, part by part.")
def everything(only: tuple[str, ...], rounds: int | None, file: Path | None) -> None:
    """Run calls, profile, ledger, pages, growth and ussd, about 20 minutes, and end with 1 when a figure is not met."""
    result: dict[str, Any] = {"processors": os.cpu_count(), "load_average": os.getloadavg()[0]}
    with TemporaryDirectory(prefix="bench-") as folder:
        for name in only or _PARTS:
            part = Path(folder) / name
            counted = [] if rounds is None or name == "profile" else ["--rounds", str(rounds)]
            _PARTS[name].main(["--json", str(part), *counted], standalone_mode=False)
            result[name] = orjson.loads(part.read_bytes())
            write_json(file, result)
    sys.exit(judge(result))


@click.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path), default=FIGURES)
def verdict(file: Path) -> None:
    """Judge the figures of an earlier run of `all` again."""
    sys.exit(judge(orjson.loads(file.read_bytes())))


def judge(result: Mapping[str, Any]) -> int:
    """Print every figure that a result holds beside what it must be; gives 1 when one is not met, else 0."""
    figures = figures_of(dict(result))
    if figures:
        print_table("Required and measured", [figure.row() for figure in figures])
    return int(not all(figure.is_met for figure in figures))
