"""Scripts and tests share `testbed` and import nothing of each other; every capability has its place in the order."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_CHECKOUT = Path(__file__).resolve().parents[1]


def imported(folder: str) -> Iterator[tuple[str, str]]:
    """Give every file of a folder with the first part of each name that it imports."""
    for path in (_CHECKOUT / folder).rglob("*.py"):
        for name in re.findall(r"^ *(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield str(path), name


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [("scripts", {"tests"}), ("tests", {"scripts", "benchmarks"}), ("testbed", {"tests", "scripts", "benchmarks"})],
)
def test_scripts_and_tests_do_not_import_each_other(folder: str, forbidden: set[str]) -> None:
    assert [found for found in imported(folder) if found[1] in forbidden] == []


def test_every_capability_stands_in_the_contract_of_their_order() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(_CHECKOUT / "setup.cfg")
    layers = contracts["importlinter:contract:capabilities"]["layers"]
    folders = {path.parent.name for path in (_CHECKOUT / "ussd_server/services").glob("*/__init__.py")}
    missing = {name for name in folders if f"ussd_server.services.{name}" not in layers}
    assert not missing, f"add {', '.join(sorted(missing))} to the contract `capabilities` of setup.cfg"
