"""gunicorn with the settings of the service for every application."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.load.requests import ask, request
from testbed.ports import free_port

_REPOSITORY = Path(__file__).resolve().parents[3]
_TIMEOUT_SECONDS = 30.0


class Web(NamedTuple):
    """A web server: its port, its log and its main process."""

    port: int
    log: Path
    pid: int


def environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: these settings and no other of the service's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("USSD_")}
    path = f"{_REPOSITORY}:{_REPOSITORY / 'scripts'}"
    return inherited | {"USSD_DATA_DIR": str(folder), "PYTHONPATH": path, **settings}


@contextmanager
def serve(
    application: str,
    folder: Path,
    settings: Mapping[str, str],
    *,
    is_stock: bool = False,
    workers: int = 2,
) -> Iterator[Web]:
    """Serve an application with so many web processes until the block ends.

    A stock gunicorn has no other settings than its gevent worker and its parser in Python.
    """
    port = free_port()
    options = ["-c", "python:ussd_server.server.gunicorn_settings"]
    if is_stock:
        options = ["-c", "/dev/null", "-k", "gevent", "-w", "2", "-b", f"127.0.0.1:{port}", "--http-parser", "python"]
    variables = environment(folder, settings) | {"USSD_BIND": f"127.0.0.1:{port}", "USSD_WORKERS": str(workers)}
    with _running([sys.executable, "-m", "gunicorn", *options, application], port, folder, variables) as web:
        yield web


@contextmanager
def _running(command: list[str], port: int, folder: Path, variables: Mapping[str, str]) -> Iterator[Web]:
    path = folder / "web.log"
    with path.open("wb") as log:
        server = subprocess.Popen(command, env=variables, cwd=_REPOSITORY, stdout=log, stderr=log)
        try:
            _wait_for(port, server)
            yield Web(port, path, server.pid)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(_TIMEOUT_SECONDS)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait for a reply: gunicorn listens long before its workers have loaded the application."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            ask(port, request("GET", "/", {}))
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the web server did not start")
