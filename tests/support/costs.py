"""Measures what a request costs: processor time, and the longest stretch of it without a pause for other requests."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

import pytest

from ussd_server import threads

LIMIT = 4.0
_RUNS, _MORE_RUNS = 3, 15


@dataclass
class Endpoint:
    """An endpoint of an application. Requests reach it without a test client, whose own work would count too."""

    app: Any
    path: str
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "POST"
    query: str = ""
    status: int = 0
    """The status of the last response."""
    length: int = 0
    """The octets of its body."""

    def call(self, body: bytes = b"", query: str | None = None, headers: dict[str, str] | None = None) -> float:
        """Send a request; returns its processor time in milliseconds."""
        environ = self._environ(body, self.query if query is None else query)
        for name, value in {**self.headers, **(headers or {})}.items():
            environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
        began = time.thread_time()
        response = self.app(environ, self._start)
        self.length = sum(map(len, response))
        took = (time.thread_time() - began) * 1000
        if hasattr(response, "close"):
            response.close()
        return took

    def _environ(self, body: bytes, query: str) -> dict[str, Any]:
        return {
            "REQUEST_METHOD": self.method, "PATH_INFO": self.path, "SCRIPT_NAME": "", "QUERY_STRING": query,
            "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
            "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr, "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False,
            "CONTENT_TYPE": self.content_type, "CONTENT_LENGTH": str(len(body)),
        }  # fmt: skip

    def _start(self, status: str, _headers: Any, _error: Any = None) -> None:
        self.status = int(status.partition(" ")[0])


def worst_ratio(plain: Callable[[], float], inputs: Iterable[tuple[str, Callable[[], float]]]) -> tuple[float, str]:
    """Return the largest ratio of an input's cost to that of a plain one, and the name of that input.

    The plain one's is the least of several runs. What is over the limit is measured again beside it, because other
    programs run on the machine too.
    """
    least_plain = min(plain() for _ in range(_RUNS))
    worst = (0.0, "")
    for name, call in inputs:
        least = call()
        for _ in range(_MORE_RUNS):
            if least <= LIMIT * least_plain:
                break
            least_plain, least = min(least_plain, plain()), min(least, call())
        worst = max(worst, (least / least_plain, name))
    return worst


class Stretches:
    """Measures the stretches of processor time between the pauses of this thread.

    What web processes run in native threads, such as statements of SQLite, counts as a pause. Pauses take no time
    here, and processor time does not grow with what other programs do.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._since = self._longest = 0.0
        self._thread = 0
        patch.setattr(time, "sleep", self._pause)
        patch.setattr(threads, "_pool", lambda _: self)

    def of(self, call: Callable[[], object]) -> float:
        """Return the longest stretch of a call, in milliseconds."""
        self._longest, self._since, self._thread = 0.0, time.thread_time(), get_ident()
        call()
        self._begin_next()
        return self._longest * 1000

    def _pause(self, _seconds: float) -> None:
        self._begin_next()

    def apply(self, work: Callable[..., Any], given: Sequence[Any]) -> Any:
        """Run work of a native thread, as gevent's pool does."""
        self._begin_next()
        try:
            return work(*given)
        finally:
            if get_ident() == self._thread:
                self._since = time.thread_time()

    def _begin_next(self) -> None:
        # Threads that write the request log have pauses too.
        if get_ident() == self._thread:
            now = time.thread_time()
            self._longest, self._since = max(self._longest, now - self._since), now
