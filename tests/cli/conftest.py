"""Commands as an operator types them, and a service with one client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ussd_server.cli import main


def run(*words: Any, typed: str | None = None) -> Result:
    """Run `ussd-server` with these words; `typed` is its standard input."""
    return CliRunner().invoke(main, [str(word) for word in words], input=typed)


def output_of(*words: Any) -> Any:
    """The JSON that a command prints, after checking that it succeeded."""
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def client_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The client ACME of a new service without Redis, which commands find by the settings."""
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("USSD_REDIS_URL", f"unix://{tmp_path}/no.sock")
    output_of("migrate")
    created: str = output_of("clients", "create", "ACME")["client_id"]
    return created
