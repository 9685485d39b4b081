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
    """Print rows by the names that the first has; a spread shows its median and bounds, a list is left to programs."""
    table = Table(title=title)
    names, lines = _cells(rows)
    for name in names:
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(*line)
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH_OF_FILES
    console.print(table)


def markdown_table(rows: list[dict[str, Any]]) -> str:
    """The same table for a document."""
    names, lines = _cells(rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, ["---"] * len(names), *lines)) + "\n"


def write_json(file: Path | None, result: dict[str, Any]) -> None:
    """Keep a result for programs, where somebody asked for it."""
    if file is not None:
        file.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))


def _cells(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    names = [name for name, value in rows[0].items() if not isinstance(value, list)]
    return [name.replace("_", " ") for name in names], [[_written(row.get(name, "")) for name in names] for row in rows]


def _written(value: Any) -> str:
    if isinstance(value, dict):
        digits = 0 if value["median"] >= 100 else 2
        return "{median:,.{0}f} ({least:,.{0}f} to {greatest:,.{0}f})".format(digits, **value)
    return str(value)
