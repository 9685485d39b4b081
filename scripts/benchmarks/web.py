"""gunicorn as in service, on loopback: the same settings for whatever is measured."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rpc.redis_server import free_port

_REPOSITORY = Path(__file__).resolve().parents[2]
_PATIENCE_SECONDS = 30.0
BARE = "benchmarks.bare:app"
SERVICE = "wsgi:app"


@contextmanager
def serve(application: str, folder: Path, settings: dict[str, str]) -> Iterator[int]:
    """Serve an application under the service's own gunicorn settings until the block ends; gives its port."""
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("USSD_")}
    environment = inherited | {
        **settings,
        "USSD_DATA_DIR": str(folder),
        "USSD_BIND": f"127.0.0.1:{port}",
        "PYTHONPATH": f"{_REPOSITORY}:{_REPOSITORY / 'scripts'}",
    }
    with (folder / f"{application.partition(':')[0]}.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "-c", "python:ussd_server.gunicorn_settings", application],
            env=environment, cwd=_REPOSITORY, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            _wait_for(port, server)
            yield port
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(_PATIENCE_SECONDS)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("gunicorn did not start")
