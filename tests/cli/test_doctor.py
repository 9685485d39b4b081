"""The doctor finds what is wrong and says how to mend it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.service import environment
from ussd_server.rpc.keyring import Keyring


def diagnose(folder: Path, **settings: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Call the doctor; give its exit code and its findings by part."""
    command = [sys.executable, "-m", "ussd_server.cli", "doctor", "--json"]
    told = subprocess.run(command, env=environment(folder, **settings), capture_output=True, text=True, check=False)
    return told.returncode, {finding["part"]: finding for finding in json.loads(told.stdout)["findings"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    Keyring.create(tmp_path / "secrets.json")
    return tmp_path


def test_a_healthy_installation_has_nothing_to_mend(folder: Path, database_url: str, redis_url: str) -> None:
    status, findings = diagnose(folder, USSD_DATABASE_URL=database_url, USSD_REDIS_URL=redis_url)
    assert status == 0
    assert set(findings) == {"settings", "data folder", "secrets", "database", "clock", "Redis", "sandbox"}
    assert all(finding["mend"] is None for finding in findings.values())


def test_an_installation_with_nothing_running_has_each_part_named(folder: Path) -> None:
    (folder / "secrets.json").chmod(0o644)
    status, findings = diagnose(folder, USSD_DATABASE_URL="postgresql://nobody:hush@127.0.0.1:1/none")
    assert status == 1
    assert findings["secrets"]["mend"] == f"Take them away: chmod go= {folder / 'secrets.json'}"
    assert findings["database"]["found"] == "the postgresql database does not answer"
    assert "USSD_DATABASE_URL" in findings["database"]["mend"]
    assert "ussd-server run" in findings["Redis"]["mend"]
    assert "hush" not in json.dumps(findings)


def test_a_database_that_was_never_migrated_is_named(folder: Path) -> None:
    assert "migrate" in diagnose(folder)[1]["database"]["mend"]
    (folder / "ussd.db").touch()
    assert diagnose(folder)[1]["database"]["mend"] == "Run `ussd-server migrate`."


def test_a_money_company_that_does_not_answer_is_named(folder: Path) -> None:
    product = {f"USSD_MTN_COLLECTION_{name}": "x" for name in ("SUBSCRIPTION_KEY", "API_USER", "API_KEY")}
    findings = diagnose(folder, USSD_MTN_BASE_URL="http://127.0.0.1:1", **product)[1]
    assert findings["sandbox"]["mend"] is None
    assert "USSD_MTN_" in findings["mtn"]["mend"]


def test_settings_that_cannot_be_used_are_all_named(folder: Path) -> None:
    status, findings = diagnose(folder, USSD_WORKERS="many", USSD_ENV="moon")
    assert status == 1
    assert set(findings) == {"USSD_WORKERS", "USSD_ENV"}
