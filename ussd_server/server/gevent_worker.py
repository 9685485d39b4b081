"""gunicorn's gevent worker, which serves all web processes.

Beyond gunicorn's interface for workers it uses `PIPE` and `age` of gunicorn's worker and `http_date` of its `util`.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from socket import SHUT_RD
from types import SimpleNamespace
from typing import Any

import gevent
import orjson
from gevent.select import select
from gunicorn import glogging, util
from gunicorn.http.errors import (
    ConfigurationProblem,
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from gunicorn.workers.ggevent import GeventWorker

from ussd_server.context import new_request_id
from ussd_server.logs import Logger, trace_of
from ussd_server.server.caller_turns import CallerTurns
from ussd_server.server.connection import ClientConnection
from ussd_server.server.connection_shares import SHARES, ConnectionShare
from ussd_server.server.listener import Listener, caller_of
from ussd_server.settings import read_settings
from ussd_server.status import Code
from ussd_server.wire import error_envelope

# A client may be sending its next request already when the process stops. nginx closes idle connections sooner
# (`deploy/nginx.conf`).
LINGER_SECONDS = 2.0

# How long a worker that a reload replaces waits for its successors. They load the application, which takes seconds on
# a busy machine.
_SUCCESSOR_SECONDS = 20.0

_LOOK_AGAIN_SECONDS = 0.1

_BODY_BYTES = 64 * 1024

_OUR_MISTAKES = (ConfigurationProblem, InvalidResponseHeader, InvalidResponseHeaderName)
_REASONS = {400: "Bad Request", 413: "Content Too Large", 500: "Internal Server Error"}

# How long a native thread that computes may keep Python's interpreter from a request, which asks for it some ten times.
_SWITCH_SECONDS = 0.001

# A network has at most one of so many parts of a process's connections.
_PARTS = 4

_NO_TIMER = nullcontext()

log = Logger(__name__)


class WebLog(glogging.Logger):  # type: ignore[misc]
    """gunicorn's log without the line for each request, which it would build even when unused.

    The application logs its requests itself, without what must not be in a log.
    """

    access_log_enabled = False


class GeventWebWorker(GeventWorker):  # type: ignore[misc]
    """Serves each connection in a greenlet. A stop closes the listener first and waits for no idle connection."""

    def run(self) -> None:
        """Serve until gunicorn's main process stops this one."""
        # gunicorn reads some thirty settings for each request. As attributes they take 30 us less.
        self.cfg.__dict__.update({name: setting.get() for name, setting in self.cfg.settings.items()})
        _prepare_process()
        self._connections: set[ClientConnection] = set()
        self._turns = CallerTurns(gevent.get_hub().loop)
        self._share = ConnectionShare(SHARES, self.age)
        # A proxy has the connections of all clients, and limits theirs.
        self._is_proxied = bool(read_settings().trusted_proxies)
        parts = 1 if self._is_proxied else _PARTS
        listeners = [
            Listener(
                each,
                self._handler(each),
                self._turns,
                self._share,
                self.worker_connections,
                self.worker_connections // parts,
            )
            for each in self.sockets
        ]
        for listener in listeners:
            listener.start()
        while self.alive:
            self._wait(1.0)
            self._close_idle(self.cfg.keepalive)
        ends_at = time.monotonic() + _SUCCESSOR_SECONDS
        while SHARES.is_needed(self.age) and time.monotonic() < ends_at:
            self._wait(_LOOK_AGAIN_SECONDS)
        self._share.leave()
        for listener in listeners:
            listener.end()
        self._end(listeners)

    def timeout_ctx(self) -> AbstractContextManager[None]:
        """No timer for each request (12 us): `run` closes idle connections, and a connection limits its requests."""
        return _NO_TIMER

    def _close_idle(self, seconds: float) -> None:
        """Close connections that have been idle for so long."""
        idle_since = time.monotonic() - seconds
        for connection in [each for each in self._connections if each.is_idle and each.idle_since <= idle_since]:
            with suppress(OSError):
                connection.shutdown(SHUT_RD)

    def _wait(self, seconds: float) -> None:
        self.notify()
        # gunicorn writes into this pipe when a signal arrives.
        if select([self.PIPE[0]], [], [], seconds)[0]:
            os.read(self.PIPE[0], 4096)

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serve the requests of a connection."""
        connection = ClientConnection(client, self._turns, caller_of(addr), is_proxied=self._is_proxied)
        self._connections.add(connection)
        try:
            super().handle(listener, connection, addr)
        finally:
            self._connections.discard(connection)

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> None:
        # gunicorn refuses a length that is no number, is there twice, or comes with chunks.
        sock.begin_request(next((int(value) for name, value in req.headers if name == "CONTENT-LENGTH"), 0))
        try:
            super().handle_request(listener_name, req, sock, addr)
        finally:
            sock.send_response()
        # gunicorn would read the rest of a body that was refused as part of the next request, which has its own limits.
        while req.body.read(_BODY_BYTES):
            continue
        sock.end_request()

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that could not be read (400 or 413) or that the application failed to answer (500).

        The reply is the API's JSON envelope, and the log repeats nothing that a caller sent.
        """
        request_id = new_request_id()
        code, message = _refusal(exc)
        if code is Code.INTERNAL_ERROR:
            log.error("a request failed outside the application", request_id=request_id, error=type(exc).__name__)
        else:
            log.info("a request could not be read", request_id=request_id, error=type(exc).__name__)
        try:
            client.sendall(_reply(code, message, request_id))
        except OSError:
            log.info("a request was given up by its caller", request_id=request_id)

    def _handler(self, listener: Any) -> Any:
        # gunicorn asks the listener for its name even after a stop closed it.
        name = listener.getsockname()
        return partial(self.handle, SimpleNamespace(getsockname=lambda: name))

    def _end(self, listeners: list[Listener]) -> None:
        stopped_at = time.monotonic()
        while any(each.connections for each in listeners):
            waited = time.monotonic() - stopped_at
            if waited >= self.cfg.graceful_timeout:
                break
            self.notify()
            if waited >= LINGER_SECONDS:
                self._close_idle(0)
            gevent.sleep(_LOOK_AGAIN_SECONDS)


def _prepare_process() -> None:
    hub = gevent.get_hub()
    hub.print_exception = _log_exception
    sys.setswitchinterval(_SWITCH_SECONDS)
    if gevent.config.monitor_thread:
        hub.start_periodic_monitoring_thread()
    # A request makes hundreds of objects, and what exists now stays: the garbage collector runs less often. It passes
    # over 10,000 objects in 4 to 9 ms; in stretches of 2,000 it cost a call 5 % more.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    write_each_date_once()


def write_each_date_once() -> None:
    """Let gunicorn write the date of its responses once a second: 2 to 7 us less for each other response."""
    written = lru_cache(maxsize=1)(util.http_date)
    util.http_date = lambda: written(int(time.time()))


def _log_exception(_context: Any, _kind: Any, error: Any, _trace: Any) -> None:
    log.error("a greenlet ended with an exception", error=trace_of(error))


def _refusal(error: BaseException) -> tuple[Code, str]:
    if isinstance(error, LimitRequestLine | LimitRequestHeaders):
        return Code.REQUEST_TOO_LARGE, "The request line or the headers are too large"
    if isinstance(error, ParseException) and not isinstance(error, _OUR_MISTAKES):
        return Code.INVALID_REQUEST, "The request is not valid HTTP"
    return Code.INTERNAL_ERROR, "Internal error"


def _reply(code: Code, message: str, request_id: str) -> bytes:
    body = orjson.dumps(error_envelope(code.error, message, datetime.now(UTC)))
    head = (
        f"HTTP/1.1 {code.http_status} {_REASONS[code.http_status]}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        f"X-Request-Id: {request_id}\r\n\r\n"
    )
    return head.encode("ascii") + body
