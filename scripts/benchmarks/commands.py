"""Runs commands of `ussd-server` and measures what they take."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_MEASURED = """
import resource, sys
from pathlib import Path
from ussd_server.cli import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Not ru_maxrss, which includes the process that started this one.
    (peak,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    print(used.ru_utime + used.ru_stime, peak, file=sys.stderr)
"""


class Run(NamedTuple):
    """A command that has ended: its exit status, seconds, processor seconds and greatest memory in megabytes."""

    status: int
    seconds: float
    processor_seconds: float
    megabytes: float


def run_command(arguments: Sequence[str], settings: Mapping[str, str], output: Path) -> Run:
    """Run `ussd-server` with these arguments and settings; what it prints is written to `output`."""
    began = time.perf_counter()
    with output.open("wb") as printed:
        ended = subprocess.run(
            [sys.executable, "-c", _MEASURED, *arguments],
            env=os.environ | settings,
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    seconds = time.perf_counter() - began
    assert ended.returncode in (0, 1), ended.stderr
    processor_seconds, kilobytes = ended.stderr.splitlines()[-1].split()
    return Run(ended.returncode, seconds, float(processor_seconds), int(kilobytes) / 1024)
