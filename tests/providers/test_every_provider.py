"""Which place a provider lacks, in a sentence (docs/recipes.md); and how a folder that is not whole is refused."""

from __future__ import annotations

import csv
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
from environs import Env

import ussd_server.providers
from simulators.standin import Scenario
from ussd_server.providers import registry

_REPOSITORY = Path(__file__).parents[2]
# The providers with settings; the sandbox needs none of these places.
NAMES = [package.name for package in registry.PACKAGES if package.read_settings]
_INIT = "from ussd_server.providers.http.replies import Reasons\n_REASONS = Reasons(__name__)\n"
_PACKAGE = "from ussd_server.providers.sandbox import PACKAGE\n"
_STATEMENT = (
    "from ussd_server.providers.statement_format import read_statement_format\nread_statement_format(__name__)\n"
)


def test_every_folder_is_whole() -> None:
    assert registry.FOLDER_PROBLEMS == []


@pytest.mark.parametrize("name", NAMES)
def test_every_provider_has_its_files(name: str) -> None:
    wanted = {
        f"ussd_server/providers/{name}/failure_reasons.csv": "what each of its codes means",
        f"tests/providers/test_{name}.py": "its replies, from its documentation",
        f"tests/providers/test_{name}_stand_in.py": "its simulator answers what the adapter expects",
        f"simulators/{name}/__main__.py": "a program that answers as its documentation says",
        f"simulators/{name}/scenarios.py": "the numbers that select an outcome",
        f"docs/guides/{name}.md": "how an operator connects it",
    }
    missing = [f"{path}: {what}" for path, what in wanted.items() if not (_REPOSITORY / path).exists()]
    assert not missing, "add " + "; ".join(missing)


@pytest.mark.parametrize("name", [name for name in NAMES if (_REPOSITORY / f"simulators/{name}/scenarios.py").exists()])
def test_every_reason_of_a_simulator_has_a_meaning(name: str) -> None:
    tables = [
        table for table in vars(import_module(f"simulators.{name}.scenarios")).values() if isinstance(table, dict)
    ]
    scenarios = [each for table in tables for each in table.values() if isinstance(each, Scenario)]
    assert scenarios, f"simulators/{name}/scenarios.py lacks a table of scenarios"
    known = (_REPOSITORY / f"ussd_server/providers/{name}/failure_reasons.csv").read_text().splitlines()
    unknown = {each.reason for each in scenarios if each.reason} - {row["reason"] for row in csv.DictReader(known)}
    assert not unknown, f"add {', '.join(sorted(unknown))} to failure_reasons.csv of {name}: its simulator answers so"


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"adapter.py": ""}, "lacks an __init__.py with its ProviderPackage as PACKAGE"),
        ({"__init__.py": ""}, "lacks an __init__.py with its ProviderPackage as PACKAGE"),
        ({"__init__.py": _PACKAGE}, "__init__.py has the name 'sandbox', and its folder another"),
        ({"__init__.py": _INIT}, "lacks the file failure_reasons.csv"),
        ({"__init__.py": _STATEMENT}, "lacks the file statement.csv"),
        (
            {"__init__.py": _INIT, "failure_reasons.csv": "reason,collection,source\nX,CANCELLED,1\n"},
            "failure_reasons.csv lacks the column 'payout'",
        ),
        (
            {"__init__.py": _INIT, "failure_reasons.csv": "reason,collection,payout,source\nX,ODD,CANCELLED,1\n"},
            "failure_reasons.csv has the meaning 'ODD', which is none of",
        ),
        (
            {"__init__.py": _STATEMENT, "statement.csv": "part,text,meaning\nheading,Id,odd\n"},
            "statement.csv gives a heading the meaning 'odd', which is none of",
        ),
    ],
)
def test_a_folder_that_is_not_whole_is_refused_in_a_sentence(
    files: dict[str, str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lacking").mkdir()
    for name, text in files.items():
        (tmp_path / "lacking" / name).write_text(text)
    monkeypatch.setattr(ussd_server.providers, "__path__", [*ussd_server.providers.__path__, str(tmp_path)])
    try:
        with pytest.raises(ValueError, match=re.escape(f"ussd_server/providers/lacking: {sentence}")):
            registry.read_folder("lacking")
    finally:
        sys.modules.pop("ussd_server.providers.lacking", None)


def test_settings_say_what_a_folder_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "ussd_server/providers/lacking: lacks the file statement.csv"
    monkeypatch.setattr(registry, "FOLDER_PROBLEMS", [sentence])
    assert registry.read_provider_settings(Env(prefix="USSD_"), set(), in_production=False) == ({}, [sentence])
