"""The service as an installed package, far from its checkout."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.real_service.installation import copy_into
from tests.support.real_service.service import Service, descendants

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, installation: Path) -> Path:
    return copy_into(tmp_path_factory.mktemp("installed"), installation)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Iterator[Service]:
    program = [str(python.with_name("ussd-server"))]
    running = Service(tmp_path_factory.mktemp("service") / "data", program=program, USSD_WORKERS="1")
    yield running
    running.stop()


def code_of_a_refusal(service: Service) -> str:
    return str(service.call("GET", "/nowhere")[1]["error"])


def test_a_reload_serves_the_code_that_was_installed_since_the_start(service: Service, python: Path) -> None:
    assert code_of_a_refusal(service) == "NOT_FOUND"
    (wire,) = python.parents[1].glob("lib/python*/site-packages/ussd_server/wire.py")
    before = wire.read_text()
    after = before.replace('"error": error,', '"error": error.lower(),')
    assert after != before
    wire.write_text(after)
    # The master has this module itself, for the refusals of what is not HTTP.
    (master,) = (pid for pid, line in descendants(service.pid).items() if "gunicorn" in line and _children(pid))
    os.kill(master, signal.SIGHUP)
    eventually(lambda: {code_of_a_refusal(service) for _ in range(8)} == {"not_found"})


def _children(pid: int) -> str:
    return (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text()
