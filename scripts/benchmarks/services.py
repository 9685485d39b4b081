"""The service's classes on a database of the benchmark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ussd_server.bootstrap import Services, build_services
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections
from ussd_server.settings import read_settings


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
