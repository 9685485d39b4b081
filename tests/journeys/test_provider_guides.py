"""docs/guides: the recipes that connect providers work against their simulators."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stand_ins import StandInProcess
from ussd_server.providers.registry import PACKAGES

_FOLDER = Path(__file__).parents[2] / "docs/guides"


@pytest.mark.nightly
@pytest.mark.parametrize("provider", [package.name for package in PACKAGES if package.read_settings])
def test_the_recipe_for_a_provider_connects_its_stand_in(provider: str, tmp_path: Path) -> None:
    page = (_FOLDER / f"{provider}.md").read_text()
    (recipe,) = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (printed,) = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    stand_in = StandInProcess(provider)
    try:
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", recipe],
            cwd=tmp_path,
            env={
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "USSD_DATA_DIR": str(tmp_path / "data"),
                provider.upper(): stand_in.base_url,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        stand_in.stop()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert printed.strip() in ran.stdout, ran.stdout + ran.stderr
    assert f"/callbacks/{provider}/" in ran.stdout
