"""What the service must reach, beside what was measured; the measurement is the judge and is not bent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.report import spread

_AT_LEAST, _AT_MOST = ">=", "<="
_MANY, _FEW = "1000000 keys", "1000 keys"


class Figure(NamedTuple):
    """One requirement: a measured spread whose median must be at least, or at most, so much."""

    name: str
    bound: str
    required: float
    measured: dict[str, float]
    by_cpu: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether the median keeps the bound."""
        found = self.measured["median"]
        return found >= self.required if self.bound == _AT_LEAST else found <= self.required

    def row(self) -> dict[str, Any]:
        """The line of the table; `by_cpu` is the same ratio of processor times, where it stands for a rate."""
        return {
            "figure": self.name, "required": f"{self.bound} {self.required}", "measured": self.measured,
            "by_cpu": "" if self.by_cpu is None else self.by_cpu, "verdict": "met" if self.is_met else "NOT MET",
        }  # fmt: skip


# A target beside another one: how many times as many answers a second.
_RATIOS = (
    ("door", "bare GET", 0.90),
    ("door", "flask door", 5),
    ("door", "fastapi door", 6),
    ("door", "django door", 9),
    ("refused 401", "bare GET", 1.1),
    ("refused 429", "bare GET", 1.1),
    ("balance", "bare GET", 0.55),
    ("disbursement", "bare POST", 0.60),
    ("disbursement", "flask disbursement", 7),
    ("ussd step", "flask ussd step", 4),
    ("1000 keys", "flask 1000 keys", 4),
)


def figures_of(result: dict[str, Any]) -> list[Figure]:
    """Every requirement that the parts of a result can tell: `calls`, `growth`, `ledger` and `pages`, by name."""
    parts: dict[str, Callable[[dict[str, Any]], Iterator[Figure]]] = {
        "calls": _of_calls, "ledger": _of_ledger, "growth": _of_growth, "pages": _of_pages,
    }  # fmt: skip
    return [figure for name, read in parts.items() if name in result for figure in read(result[name])]


def _of_calls(calls: dict[str, Any]) -> Iterator[Figure]:
    rows = {row["target"]: row for row in calls["targets"]}
    for name, beside, required in _RATIOS:
        if name in rows and beside in rows:
            pairs = zip(rows[name]["rounds"], rows[beside]["rounds"], strict=True)
            by_cpu = round(_server_us(rows[beside]) / _server_us(rows[name]), 2)
            measured = spread(rate / other for rate, other in pairs)
            yield Figure(f"{name} / {beside}", _AT_LEAST, required, measured, by_cpu)
    for row in calls["latencies"]:
        yield Figure(f"{row['target']}: p99 / p50 at 70 % of the load", _AT_MOST, 5, row["ratio"])


def _server_us(row: dict[str, Any]) -> float:
    return max(1, row["web_us"] + row["postgres_us"] + row["redis_us"])


def _of_ledger(ledger: dict[str, Any]) -> Iterator[Figure]:
    rows = {(row["begins with"], row["accounts"], row["threads"], row["processes"]): row for row in ledger["runs"]}
    for begins, threads in (("batch", 1), ("draft", 4), ("draft", 8)):
        name = f"posting from the {begins} / pgbench, many, threads of one process: {threads}"
        yield Figure(name, _AT_LEAST, 0.8, rows[begins, "many", threads, 1]["ratio"])
    for accounts, required in (("many", 0.85), ("one hot", 1.5)):
        # Two processes are what the service starts when nobody says otherwise.
        yield Figure(
            f"posting / pgbench, {accounts}, 8 clients", _AT_LEAST, required, rows["draft", accounts, 8, 2]["ratio"]
        )


def _of_growth(growth: dict[str, Any]) -> Iterator[Figure]:
    rows = {row["keys"]: row for row in growth["keys"]}
    by_cpu = round(rows[_FEW]["server_us"] / rows[_MANY]["server_us"], 2)
    yield Figure(f"door at {_MANY} / at {_FEW}", _AT_LEAST, 0.95, rows[_MANY]["ratio"], by_cpu)


def _of_pages(pages: dict[str, Any]) -> Iterator[Figure]:
    for row in pages["pages"]:
        name = f"page {row['page']} at {pages['many']} rows / at {pages['few']}"
        yield Figure(name, _AT_MOST, 1.2, row["ratio"])
