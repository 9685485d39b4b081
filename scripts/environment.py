"""Runs a script in the virtual environment of `scripts/serve`, whichever Python started it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parent.parent
_PYTHON = _CHECKOUT / ".venv" / "bin" / "python"


def enter() -> None:
    """Restart the script with the environment's Python if libraries are missing; use the data of `serve`."""
    os.environ.setdefault("USSD_DATA_DIR", str(_CHECKOUT / "var"))
    if find_spec("click") is None:
        if not _PYTHON.exists():
            sys.exit("The libraries are not installed yet: start scripts/serve once.")
        os.execv(_PYTHON, [str(_PYTHON), *sys.argv])
    sys.path.insert(0, str(_CHECKOUT))
