"""The service as a package, installed once for all journeys."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tests.support.real_service.installation import install_into


@pytest.fixture(scope="session")
def installation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the service, to be copied; all processes of a run share it."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent
    with (folder / "installation.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = folder / "installation" / "environment"
        if not environment.exists():
            environment.parent.mkdir()
            install_into(environment)
    return environment
