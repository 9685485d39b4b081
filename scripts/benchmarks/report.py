"""Medians with their spread, the floors that they have to reach, and the tables that show them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

_DOCS = Path(__file__).resolve().parents[2] / "docs"
FIGURES, DOCUMENT = _DOCS / "performance.json", _DOCS / "PERFORMANCE.md"
TABLES = ("calls", "costs")
_PLACE = re.compile(r"(<!-- (?P<name>[a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WIDTH_OF_FILES = 160

# Call, what it is compared with, and the least median of the ratio.
_RATIOS = (
    ("authenticated call", "bare", 0.70),
    ("refused 401", "bare", 0.55),
    ("refused 429", "bare", 0.55),
    ("balance", "bare", 0.50),
    ("disbursement", "bare", 0.20),
    ("USSD step", "bare", 0.24),
)
# Processor time of a bare answer under stock gunicorn, divided by that of the call: the least ratio.
_COSTS = {
    "authenticated call": 0.80,
    "refused 401": 0.75,
    "refused 429": 0.75,
    "balance": 0.60,
    "disbursement": 0.25,
    "USSD step": 0.40,
}
_POSTINGS = {"many": 0.85, "one": 1.5}
_MOST_P99_TO_P50 = 5
_MOST_P99_ABOVE_BARE_MS = 3
_MOST_GROWTH, _MOST_MEMORY_GROWTH = 1.3, 1.2
_MOST_OPENING_MS = 10
_PAYOUTS = {"rows judged and kept": 5, "rows recorded and reserved": 2.5}
_LEAST_SMPP_TO_HTTP = 0.3
_MOST_STATEMENT = {"seconds": 60, "megabytes": 200}


class Size(NamedTuple):
    """How much is measured: rounds, seconds of one measurement, API clients, and rows of the large table."""

    rounds: int
    seconds: float
    clients: int
    rows: int


class Floor(NamedTuple):
    """A measured ratio whose median must be at least, or at most, so much."""

    figure: str
    bound: str  # ">=" or "<="
    required: float
    measured: Mapping[str, float]

    @property
    def is_met(self) -> bool:
        """Whether the median keeps the bound."""
        median = self.measured["median"]
        return median >= self.required if self.bound == ">=" else median <= self.required

    def row(self) -> dict[str, Any]:
        """Return the line of the table."""
        name = self.figure if self.is_met else f"{self.figure}: NOT MET"
        return {"figure": name, "required": f"{self.bound} {self.required}", "measured": self.measured}


def floors_of(result: Mapping[str, Any]) -> list[Floor]:
    """Return every floor that a result holds the figure for."""
    return list(_floors(result))


def _floors(result: Mapping[str, Any]) -> Iterator[Floor]:
    calls = {row["call"]: row for row in result.get("calls", ())}
    for call, beside, least in _RATIOS:
        if call in calls and calls[call][f"to_{beside}"]:
            yield Floor(f"{call} / {beside}", ">=", least, calls[call][f"to_{beside}"])
    for row in result.get("costs", ()):
        if row["call"] in _COSTS:
            name = f"processor time, bare answer / {row['call']}"
            yield Floor(name, ">=", _COSTS[row["call"]], spread([row["bare_to_all"]]))
    for row in result.get("latencies", ()):
        if not row["call"].startswith("bare"):
            yield Floor(f"{row['call']}: p99 / p50 at 70 % load", "<=", _MOST_P99_TO_P50, row["p99_to_p50"])
        if row["call"] == "authenticated call" and "p99_above_bare_ms" in row:
            name = "authenticated call: p99 above that of a bare answer at 70 % load, milliseconds"
            yield Floor(name, "<=", _MOST_P99_ABOVE_BARE_MS, spread([row["p99_above_bare_ms"]]))
    for row in result.get("postings", ()):
        if row["threads"] == 8:
            name = f"postings / pgbench, 8 clients, accounts: {row['accounts']}"
            yield Floor(name, ">=", _POSTINGS[row["accounts"]], row["ratio"])
    for row in result.get("pages", ()):
        yield Floor(f"page {row['page']}: {row['rows']:,} rows / few rows", "<=", _MOST_GROWTH, row["ratio"])
    for row in result.get("payouts", ()):
        step = row["step"].partition(":")[0]
        if step in _PAYOUTS:
            yield Floor(f"payout, {step} / single disbursements", ">=", _PAYOUTS[step], row["to_single"])
    for row in result.get("smpp", ()):
        if row["step"].startswith("SMPP"):
            yield Floor("USSD steps, SMPP / HTTP, one process of each", ">=", _LEAST_SMPP_TO_HTTP, row["to_http"])
    for row in result.get("statements", ()):
        for figure, most in _MOST_STATEMENT.items():
            name = f"statement of {row['lines']:,} lines, {row['file']}, {row['database']}: {figure}"
            yield Floor(name, "<=", most, row[figure])
    for row in result.get("exports", ()):
        name = f"memory of an export, {row['database']}: many lines / few lines"
        yield Floor(name, "<=", _MOST_MEMORY_GROWTH, row["ratio"])
    for row in result.get("openings", ()):
        yield Floor(f"opening balance, {row['database']}: many / few movements", "<=", _MOST_GROWTH, row["ratio"])
        name = f"opening balance of many movements, {row['database']}: milliseconds"
        yield Floor(name, "<=", _MOST_OPENING_MS, row["ms_of_many"])


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return the median of several rounds with the least and the greatest of them."""
    seen = list(values)
    return {"median": round(median(seen), 3), "least": round(min(seen), 3), "greatest": round(max(seen), 3)}


def ratios(ours: Sequence[float], others: Sequence[float]) -> dict[str, float]:
    """Return the spread of the ratios, each taken within its round: a slow moment slows both sides."""
    return spread(one / other for one, other in zip(ours, others, strict=True))


def compared(few: Sequence[float], many: Sequence[float]) -> dict[str, dict[str, float]]:
    """Return the milliseconds with few rows and with many, and their ratio."""
    return {"ms_of_few": spread(few), "ms_of_many": spread(many), "ratio": ratios(many, few)}


def print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows; a spread shows its median and its bounds."""
    names, lines = _cells(rows, with_bounds=True)
    table = Table(*names, title=title)
    for line in lines:
        table.add_row(*line)
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH_OF_FILES
    console.print(table)


def fill_tables(text: str, result: Mapping[str, Any]) -> str:
    """Return the document with the tables that the result has figures for."""
    tables = {name: _markdown(result[name]) for name in TABLES if result.get(name)}
    tables["floors"] = _markdown([floor.row() for floor in floors_of(result)])
    python = f"{result['python']}, " if "python" in result else ""
    machine = f"{python}{result['processors']} processors, load average before the run: {result['load_average']}.\n"
    return _PLACE.sub(lambda place: place[1] + {"machine": machine, **tables}.get(place["name"], "") + place[3], text)


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    names, lines = _cells(rows, with_bounds=False)
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, ["---"] * len(names), *lines)) + "\n"


def _cells(rows: Sequence[Mapping[str, Any]], *, with_bounds: bool) -> tuple[list[str], list[list[str]]]:
    names = list(rows[0]) if rows else ["nothing"]
    heads = [name.replace("_", " ") for name in names]
    return heads, [[_written(row[name], with_bounds) for name in names] for row in rows]


def _written(value: Any, with_bounds: bool) -> str:
    if isinstance(value, Mapping):
        digits = 0 if value["median"] >= 100 else 2
        if not with_bounds:
            return "{median:,.{0}f}".format(digits, **value)
        return "{median:,.{0}f} ({least:,.{0}f} to {greatest:,.{0}f})".format(digits, **value)
    return "" if value is None else str(value)
