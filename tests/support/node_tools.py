"""Programs of others that a test installs and runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """Run a tool to its good end; give what it printed."""
    ran = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def install(folder: Path, *packages: str | Path) -> Path:
    """Install packages of Node.js into a folder, and return the folder of their programs."""
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *packages, folder=folder)
    return folder / "node_modules/.bin"
