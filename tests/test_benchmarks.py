"""`scripts/bench` measures real applications that give the same replies, and judges the medians."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_CHECKOUT = Path(__file__).resolve().parents[1]
_FIGURES, _DOCUMENT = _CHECKOUT / "docs" / "performance.json", _CHECKOUT / "docs" / "PERFORMANCE.md"


def bench(*arguments: str | Path) -> str:
    """Run the command as `scripts/bench` does; give what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        env=os.environ | {"PYTHONPATH": f"{_CHECKOUT / 'scripts'}:{_CHECKOUT}"},
        cwd=_CHECKOUT,
        capture_output=True,
        text=True,
    )
    # 1 says that a floor was missed, as so short a run may.
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def run(part: str, file: Path) -> tuple[str, list[dict[str, Any]]]:
    """Measure a part briefly; give what was printed, and the rows of the part. So many clients meet no limit."""
    size = ("--rounds", "1", "--seconds", "0.1", "--clients", "60", "--rows", "1500")
    printed = bench("run", part, *size, "--json", file)
    return printed, json.loads(file.read_text())[part]


@pytest.mark.slow
def test_every_call_is_measured_beside_the_bare_and_the_usual_application(tmp_path: Path) -> None:
    printed, rows = run("calls", tmp_path / "calls.json")
    found = {row["call"]: row for row in rows}
    for name in ("authenticated call", "refused 401", "refused 429", "balance", "disbursement", "USSD step"):
        assert found[name]["per_second"]["median"] > 0
        assert found[name]["to_bare"]["median"] > 0
        assert f"{name} / bare" in printed
    for name in ("authenticated call", "disbursement", "USSD step"):
        ratio = found[name]["per_second"]["median"] / found[f"peer: {name}"]["per_second"]["median"]
        assert found[name]["to_peer"]["median"] == pytest.approx(ratio, rel=0.01)
        assert f"{name}: p99 / p50 at 70 % load" in printed


@pytest.mark.slow
@pytest.mark.parametrize(("part", "figure"), [("postings", "postings / pgbench"), ("pages", "page newest")])
def test_postings_and_pages_are_measured(tmp_path: Path, part: str, figure: str) -> None:
    printed, rows = run(part, tmp_path / "rows.json")
    assert figure in printed
    assert all(row["ratio"]["median"] > 0 for row in rows)


def test_the_tables_of_the_document_are_those_of_the_figures(tmp_path: Path) -> None:
    bench("document", "--to", tmp_path / "written.md")
    assert (tmp_path / "written.md").read_text() == _DOCUMENT.read_text(), "run scripts/bench document"


@pytest.mark.parametrize(("median", "decision"), [(0.70, "met"), (0.69, "NOT MET")])
def test_a_floor_is_judged_by_the_median_and_not_by_the_best_round(
    tmp_path: Path, median: float, decision: str
) -> None:
    result = json.loads(_FIGURES.read_text())
    (row,) = (row for row in result["calls"] if row["call"] == "authenticated call")
    row["to_bare"] = {"median": median, "least": 0.1, "greatest": 1.2}
    (tmp_path / "figures.json").write_text(json.dumps(result))
    bench("document", tmp_path / "figures.json", "--to", tmp_path / "written.md")
    written = (tmp_path / "written.md").read_text()
    assert f"| authenticated call / bare | >= 0.7 | {median:.2f} (0.10 to 1.20) | {decision} |" in written
