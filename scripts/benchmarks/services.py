"""The service's classes on a database of the benchmark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

from ussd_server.bootstrap import Services, build_services
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, release_connection
from ussd_server.settings import read_settings

_WARM_UPS, _CALLS = 20, 200


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
