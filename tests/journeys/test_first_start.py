"""What a machine that lacks something reads from `scripts/serve`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.ports import free_port

REPOSITORY = Path(__file__).parents[2]


def serve(checkout: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Start the script in an environment that holds nothing but what is given."""
    command = [shutil.which("bash") or "bash", str(checkout / "scripts" / "serve")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_without_python_the_start_says_so(tmp_path: Path) -> None:
    (tmp_path / "dirname").symlink_to(shutil.which("dirname") or "/usr/bin/dirname")
    run = serve(REPOSITORY, {"PATH": str(tmp_path), "USSD_DATA_DIR": str(tmp_path)})
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == "Python 3.11 or newer was not found: install it and start this again.\n"


@pytest.mark.nightly
def test_without_a_network_the_start_says_so(tmp_path: Path) -> None:
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    home.mkdir()
    shutil.copytree(REPOSITORY / "scripts", checkout / "scripts")
    for name in ("pyproject.toml", "setup.cfg", "setup.py", "constraints.txt", "README.md"):
        shutil.copy(REPOSITORY / name, checkout / name)
    run = serve(
        checkout,
        {
            # pip runs every compiler that it finds, and one of them creates files in the home folder.
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(home),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"http://127.0.0.1:{free_port()}/simple",
            "PIP_RETRIES": "0",
        },
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.splitlines()[1:] == [
        "The libraries could not be fetched because there is no network: connect this machine, "
        "or name a mirror or a folder of wheels with pip's own settings."
    ]
    assert not list(home.iterdir())
