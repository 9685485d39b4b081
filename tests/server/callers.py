"""A web process for tests, and connections of its callers, byte by byte."""

from __future__ import annotations

import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.ports import free_port
from tests.support.eventually import eventually
from tests.support.real_service.service import answers, environment
from ussd_server.security.credentials import new_apikey

_REPOSITORY = Path(__file__).parents[2]
# Few enough to be taken up by a handful of callers.
THREADS = 2
PATIENCE_SECONDS = 60.0
LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
ORDER = b"POST /api/transactions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@contextmanager
def serving(
    folder: Path,
    database_url: str,
    redis_url: str,
    *,
    is_quiet: bool = True,
    before: Callable[[], None] | None = None,
    complaints: list[bytes] | None = None,
    **more: str,
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """One web process, until the block ends: its port and its server. Unless `is_quiet` it may complain.

    `before` runs in its process before its program begins; what it says goes into `complaints`.
    """
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "-c", "python:ussd_server.server.gunicorn_settings"],
        cwd=_REPOSITORY,
        env=environment(
            folder,
            USSD_BIND=f"127.0.0.1:{port}",
            USSD_DATABASE_URL=database_url,
            USSD_REDIS_URL=redis_url,
            **{"USSD_WORKERS": "1", "USSD_THREADS": str(THREADS), "USSD_LOG_LEVEL": "ERROR"} | more,
        ),
        stderr=subprocess.PIPE,
        preexec_fn=before,
    )
    try:
        eventually(lambda: answers(port, "/health/live"))
        yield port, process
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        if complaints is not None:
            complaints.append(said)
    assert said == b"" or not is_quiet, f"whatever callers do is no trouble of ours: {said!r}"


class Caller:
    """One connection to the service."""

    def __init__(self, port: int, receive_bytes: int | None = None) -> None:
        """`receive_bytes` is how much the system buffers before the caller reads."""
        self._socket = socket.socket()
        if receive_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self._socket.settimeout(PATIENCE_SECONDS)
        self._socket.connect(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._taken = b""

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, raw: bytes, *, ends: bool = False) -> None:
        """Send bytes, the last ones when it `ends`."""
        self._socket.sendall(raw)
        if ends:
            self._socket.shutdown(socket.SHUT_WR)

    def answer(self) -> tuple[int, bytes]:
        """The status and the body of the next answer."""
        head = self._until(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head.lower())
        size = int(length[1]) if length else 0
        while len(self._taken) < size:
            self._take()
        body, self._taken = self._taken[:size], self._taken[size:]
        return int(head.split()[1]), body

    def has_answer(self) -> bool:
        """Whether there is something to be read."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def is_left(self) -> bool:
        """Whether the service has closed the connection."""
        try:
            return self._taken == b"" and self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _until(self, end: bytes) -> bytes:
        while end not in self._taken:
            self._take()
        head, _, self._taken = self._taken.partition(end)
        return head + end

    def _take(self) -> None:
        more = self._socket.recv(65_536)
        assert more, f"the connection ended after {self._taken!r}"
        self._taken += more


def calls_are_answered(port: int) -> None:
    """Fail unless others are served: with and without the database."""
    for path in ("/health/live", "/docs", "/nowhere"):
        with Caller(port) as caller:
            caller.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert caller.answer()[0] == (404 if path == "/nowhere" else 200)
    with Caller(port) as caller:
        # Not whether the service is ready: without Redis for a moment, which a busy machine may cause, it is not.
        assert ask_balance(caller, new_apikey()).answer()[0] == 401


def ask_balance(caller: Caller, apikey: str) -> Caller:
    caller.send(f"GET /api/balance HTTP/1.1\r\nHost: x\r\nx-api-key: {apikey}\r\nx-api-secret: s\r\n\r\n".encode())
    return caller
