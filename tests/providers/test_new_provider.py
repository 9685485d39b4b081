"""A provider is added by adding a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from environs import Env

from ussd_server.providers import registry
from ussd_server.providers.names import PROVIDER_NAMES

pytestmark = pytest.mark.slow

_CHECKS = Path(__file__).parent / "with_boda" / "checks.py"


def test_a_provider_that_is_a_folder_moves_money_and_is_known_everywhere() -> None:
    """`with_boda/checks.py` says what that is. A process of its own, because names are read when modules are loaded."""
    checks = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.providers.with_boda.plugin", "-p", "no:xdist", _CHECKS],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert checks.returncode == 0, checks.stdout


def test_a_folder_has_the_name_of_its_provider() -> None:
    assert tuple(package.name for package in registry.PACKAGES) == PROVIDER_NAMES


def test_a_provider_without_its_address_is_refused_by_name() -> None:
    _, problems = registry.read_provider_settings(Env(prefix="USSD_"), {"MTN_ENQUIRY_SECONDS"}, in_production=True)
    assert "USSD_MTN_BASE_URL" in {problem.partition(":")[0] for problem in problems}
