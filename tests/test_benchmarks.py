"""`scripts/bench` measures real applications, and judges the medians."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

_CHECKOUT = Path(__file__).resolve().parents[1]
_SCRIPTS = _CHECKOUT / "scripts"
_FIGURES, _DOCUMENT = _CHECKOUT / "docs" / "performance.json", _CHECKOUT / "docs" / "PERFORMANCE.md"


def run_briefly(file: Path, *parts: str) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    """Measure parts as `scripts/bench` does; give what was printed, and the rows. So many clients meet no limit."""
    size = ("--rounds", "1", "--seconds", "0.1", "--clients", "60", "--rows", "1500")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "run", *parts, *size, "--json", file],
        env=os.environ | {"PYTHONPATH": f"{_SCRIPTS}:{_CHECKOUT}"},
        cwd=_CHECKOUT,
        capture_output=True,
        text=True,
    )
    # 1 says that a floor was missed, as so short a run may.
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout, json.loads(file.read_text())


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Fills the tables of the document, as `scripts/bench document` does; gives the text."""
    monkeypatch.syspath_prepend(_SCRIPTS)
    command = import_module("benchmarks.__main__").bench

    def write(*figures: Path) -> str:
        target = tmp_path / "written.md"
        command(["document", *map(str, figures), "--to", str(target)], standalone_mode=False)
        return target.read_text()

    return write


@pytest.mark.nightly
def test_the_processor_time_of_a_call_is_measured_in_each_process(tmp_path: Path) -> None:
    printed, rows = run_briefly(tmp_path / "figures.json", "costs")
    found = {row["call"]: row for row in rows["costs"]}
    assert found["disbursement"]["postgres_us"] > 0
    for row in found.values():
        assert row["all_us"] > 0
        assert row["bare_to_all"] > 0
    assert "processor time, bare answer / disbursement" in printed


@pytest.mark.nightly
def test_steps_over_smpp_are_measured_beside_those_over_http(tmp_path: Path) -> None:
    printed, rows = run_briefly(tmp_path / "figures.json", "smpp")
    assert [row["per_second"]["median"] > 0 for row in rows["smpp"]] == [True, True]
    assert "USSD steps, SMPP / HTTP" in printed


@pytest.mark.nightly
def test_calls_postings_pages_and_payouts_are_measured_beside_others(tmp_path: Path) -> None:
    printed, rows = run_briefly(tmp_path / "figures.json", "calls", "postings", "pages", "payouts")
    found = {row["call"]: row for row in rows["calls"]}
    for name in ("authenticated call", "refused 401", "refused 429", "balance", "disbursement", "USSD step"):
        assert found[name]["per_second"]["median"] > 0
        assert found[name]["to_bare"]["median"] > 0
        assert f"{name} / bare" in printed
    for name in ("authenticated call", "disbursement", "USSD step"):
        assert f"{name}: p99 / p50 at 70 % load" in printed
    assert all(row["to_single"]["median"] > 0 for row in rows["payouts"])
    assert "payout, rows recorded and reserved" in printed
    for part, figure in (("postings", "postings / pgbench"), ("pages", "page newest")):
        assert figure in printed
        assert rows[part]
        assert all(row["ratio"]["median"] > 0 for row in rows[part])


def test_the_tables_of_the_document_are_those_of_the_figures(document: Callable[..., str]) -> None:
    assert document() == _DOCUMENT.read_text(), "run scripts/bench document"


@pytest.mark.parametrize(("median", "decision"), [(0.70, ""), (0.69, ": NOT MET")])
def test_a_floor_is_judged_by_the_median_and_not_by_the_best_round(
    tmp_path: Path, document: Callable[..., str], median: float, decision: str
) -> None:
    result = json.loads(_FIGURES.read_text())
    (row,) = (row for row in result["calls"] if row["call"] == "authenticated call")
    row["to_bare"] = {"median": median, "least": 0.1, "greatest": 1.2}
    (tmp_path / "figures.json").write_text(json.dumps(result))
    written = document(tmp_path / "figures.json")
    assert f"| authenticated call / bare{decision} | >= 0.7 | {median:.2f} |" in written


@pytest.mark.parametrize(("load", "most"), [(2, 1.3), (5, 1.3), (9, 2.0)])
def test_a_busy_machine_hides_no_call_that_costs_twice_as_much(
    monkeypatch: pytest.MonkeyPatch, load: float, most: float
) -> None:
    monkeypatch.syspath_prepend(_SCRIPTS)
    is_dearer = import_module("benchmarks.costs").is_dearer
    assert not is_dearer(now=3.6 * most * 0.99, recorded=3.6, load=load)
    assert is_dearer(now=3.6 * most * 1.01, recorded=3.6, load=load)
