"""The supervisor of `ussd-server run`: one data folder, one address, and every process the service needs."""

from __future__ import annotations

import errno
import fcntl
import http.client
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from ussd_server.server.embedded_redis import StartError
from ussd_server.server.processes import Child, Family
from ussd_server.settings import Settings

_LISTEN_BACKLOG = 4096
# A service that listens on every address is reached locally by this one.
_WITHIN = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104
# A request may take 25 s, and gunicorn gives it 30 s to end.
_WEB_GRACE_SECONDS = 35.0
_WORKER_GRACE_SECONDS = 35.0
_READINESS_TIMEOUT_SECONDS = 2.0


def claim_data_folder(folder: Path) -> IO[str]:
    """Make the data folder, readable by its owner only, and lock it until the returned file is closed.

    Raises StartError when it cannot be written to, or another run holds it.
    """
    # Files of this process and its children are readable by their owner only.
    os.umask(0o077)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "run.lock").open("a+")
    except OSError:
        raise StartError(
            f"The data folder {folder} cannot be written to: set USSD_DATA_DIR to a folder that can."
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StartError(
            f"The data folder {folder} is in use by another run: stop that one, or set USSD_DATA_DIR to another folder."
        ) from None
    return lock


def listen(bind: str) -> socket.socket:
    """Listen on `bind`, an address and a port. Raises StartError when that cannot be done."""
    host, _, port = bind.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=_LISTEN_BACKLOG)
    except OSError as error:
        reason = {
            errno.EADDRINUSE: f"Port {port} on {host} is in use",
            errno.EACCES: f"Port {port} needs rights that this user does not have",
        }.get(error.errno or 0, f"There is no address {host} on this machine")
    raise StartError(f"{reason}: set USSD_BIND to another address and port, such as 127.0.0.1:8001.")


def base_url(bind: str) -> str:
    """Return the address at which this machine reaches a service that listens on `bind`."""
    host, _, port = bind.rpartition(":")
    return f"http://{_WITHIN.get(host, host)}:{port}"


def serve(settings: Settings, listener: socket.socket, redis: list[Child], on_ready: Callable[[], None]) -> None:
    """Run `redis`, the worker and the web processes until a signal says stop."""
    Family([*redis, _worker(), _web(listener)]).run(lambda: _is_ready(settings.bind), on_ready)


def _web(listener: socket.socket) -> Child:
    # The supervisor owns the listener: while gunicorn restarts, callers wait instead of being refused.
    address = ["--bind", f"fd://{listener.fileno()}"]
    command = [sys.executable, "-m", "gunicorn", "--config", "python:ussd_server.server.gunicorn_settings", *address]
    return Child("web", command, _WEB_GRACE_SECONDS, keeps=[listener.fileno()])


def _worker() -> Child:
    return Child("worker", [sys.executable, "-m", "ussd_server.cli", "worker"], _WORKER_GRACE_SECONDS)


def _is_ready(bind: str) -> bool:
    address = urlsplit(base_url(bind))
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_READINESS_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
