"""Programs in a process of their own that gevent patched, as the web processes with PostgreSQL are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

_REPOSITORY = Path(__file__).parents[2]
_PATIENCE_SECONDS = 60


def run_cooperatively(program: str, *given: object, **environment: str) -> Any:
    """Run a program, which finds `given` in `sys.argv[1:]` as text; gives the JSON that it prints, and nothing else."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            "import ussd_server.server.patched\n" + dedent(program),
            *map(str, given),
        ],
        cwd=_REPOSITORY,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    assert not done.stderr, done.stderr
    assert done.returncode == 0
    return json.loads(done.stdout)
