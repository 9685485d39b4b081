"""The service's classes and commands on a database of the benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from ussd_server.bootstrap import Services, build_services
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, release_connection
from ussd_server.settings import read_settings

_WARM_UPS, _CALLS = 20, 200
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


@contextmanager
def opened_services(folder: Path, settings: Mapping[str, str]) -> Iterator[Services]:
    """Open every service with these settings and make the tables; the environment is left as it was."""
    before = dict(os.environ)
    os.environ.update({**settings, "USSD_DATA_DIR": str(folder)})
    services = build_services(read_settings())
    try:
        migrate()
        yield services
    finally:
        services.close()
        close_connections()
        os.environ.clear()
        os.environ.update(before)


def quick_ms(call: Callable[[], object]) -> float:
    """Return the milliseconds within which a tenth of the calls ends: other work of the machine slows most calls."""
    costs = []
    for number in range(_WARM_UPS + _CALLS):
        began = time.perf_counter()
        call()
        release_connection()
        if number >= _WARM_UPS:
            costs.append(1000 * (time.perf_counter() - began))
    return quantiles(costs, n=10)[0]


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
