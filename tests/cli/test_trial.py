"""`providers try` asks before money moves, writes its report, and exits by what came."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulators.replay import Replay
from simulators.server import serving
from tests.cli.conftest import run
from tests.support.stand_ins import mtn_settings
from ussd_server.models.providers import TrialPayment

REPORT = Path(__file__).parents[1] / "providers" / "reports" / "mtn_simulator.json"
TRY = ("providers", "try", "mtn", "--phone", "0772123456")


def test_a_trial_is_typed_once_reported_and_judged(
    client_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    with serving(Replay(report).application()) as address:
        for name, value in (mtn_settings(address) | {"USSD_MTN_ENQUIRY_SECONDS": "0.01"}).items():
            monkeypatch.setenv(name, value)
        assert run(*TRY, typed="5000\n").exit_code == 2
        assert not TrialPayment.select().exists()
        result = run(*TRY, "--report", tmp_path / "report.json", typed="500\n")
        assert result.exit_code == 0, result.output
        assert "ok     collection: expected succeeded; came succeeded" in result.output
        written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
        assert [step["came"] for step in written["steps"]] == [step["came"] for step in report["steps"]]
    with serving(Replay(report | {"calls": []}).application()) as address:
        monkeypatch.setenv("USSD_MTN_BASE_URL", address)
        result = run(*TRY, "--yes")
        assert result.exit_code == 1
        assert "docs/guides/mtn.md" in result.output
