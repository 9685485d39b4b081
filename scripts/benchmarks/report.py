"""What a benchmark prints: a table for people and, on request, a file for programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

_WIDTH_OF_FILES = 200


def spread(values: Iterable[float]) -> dict[str, float]:
    """The median of several rounds with the least and the greatest of them."""
    seen = list(values)
    return {"median": round(median(seen), 3), "least": round(min(seen), 3), "greatest": round(max(seen), 3)}


def print_table(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows that have the same names; a spread shows its median and bounds."""
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(_written(value) for value in row.values()))
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH_OF_FILES
    console.print(table)


def write_json(file: Path | None, result: dict[str, Any]) -> None:
    """Keep a result for programs, where somebody asked for it."""
    if file is not None:
        file.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))


def _written(value: Any) -> str:
    if isinstance(value, dict):
        digits = 0 if value["median"] >= 100 else 2
        return "{median:,.{0}f} ({least:,.{0}f} to {greatest:,.{0}f})".format(digits, **value)
    return str(value)
