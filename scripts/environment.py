"""Runs a script in the virtual environment of `scripts/serve`, whichever Python started it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parent.parent
_PYTHON = _CHECKOUT / ".venv" / "bin" / "python"


def enter() -> None:
    """Restart the script with the environment's Python, if there is one; use the data of `serve`.

    Another Python may have some of the libraries, or other versions of them.
    """
    os.environ.setdefault("USSD_DATA_DIR", str(_CHECKOUT / "var"))
    if _PYTHON.exists() and Path(sys.prefix).resolve() != _PYTHON.parents[1].resolve():
        os.execv(_PYTHON, [str(_PYTHON), *sys.argv])
    if find_spec("peewee") is None:
        sys.exit("The libraries are not installed yet: start scripts/serve once.")
    sys.path.insert(0, str(_CHECKOUT))
