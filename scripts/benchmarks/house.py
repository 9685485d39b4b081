"""The service's own classes, opened on a database of the benchmark's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ussd_server.house import Services, build_services
from ussd_server.models.base import close_connections
from ussd_server.models.schema import migrate
from ussd_server.settings import read_settings


@contextmanager
def opened_house(folder: Path, settings: Mapping[str, str]) -> Iterator[Services]:
    """Every service, made from these settings, with the tables made; the environment is left as it was."""
    before = dict(os.environ)
    os.environ.update({**settings, "USSD_DATA_DIR": str(folder)})
    house = build_services(read_settings())
    try:
        migrate()
        yield house
    finally:
        house.limiter.close()
        close_connections()
        os.environ.clear()
        os.environ.update(before)
