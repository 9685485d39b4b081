"""The service as `pip install .` leaves it: in a virtual environment, without the checkout it came from."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

_REPOSITORY = Path(__file__).parents[3]
_SOURCES = ("README.md", "pyproject.toml", "schemas", "setup.cfg", "setup.py", "simulators", "ussd_server", "wsgi.py")


def install_into(environment: Path) -> None:
    """Install the service into a fresh virtual environment, with this one's libraries."""
    sources = environment.with_name("sources")
    sources.mkdir()
    for name in _SOURCES:
        found = _REPOSITORY / name
        copy = shutil.copytree if found.is_dir() else shutil.copy
        copy(found, sources / name)
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    site = next(environment.glob("lib/python*/site-packages"))
    # Named in such a file, a folder is searched, but its own such files, an editable checkout's too, are not read.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check"]
    # Compiled once, and not by each of its processes, whatever this environment's pip does.
    subprocess.run([*pip, "install", "--no-deps", "--compile", sources], check=True, cwd=environment.parent)
    shutil.rmtree(sources)


def copy_into(folder: Path, installation: Path) -> Path:
    """Copy a virtual environment into `folder`, for a test to run and to change; give its Python."""
    environment = folder / "environment"
    shutil.copytree(installation, environment, symlinks=True)
    # A program names its Python in the first line.
    program = environment / "bin" / "ussd-server"
    program.write_text(program.read_text().replace(str(installation), str(environment)))
    return environment / "bin" / "python"
