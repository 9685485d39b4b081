"""gunicorn's gevent worker, which serves all web processes.

What it does otherwise than gunicorn's prevents faults that were measured. A reload ended all processes while their
successors loaded the application, for longer than the 8 s that a phone waits. A stop reset clients that waited to be
accepted, and waited 30 s for idle ones. A request that could not be read got HTML instead of the API's envelope, and a
line in the log with what its caller had sent. Each request took some 45 us more, a tenth of a cheap call.
"""

from __future__ import annotations

import gc
import mmap
import sys
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from socket import SHUT_RD
from typing import Any

import gevent
import orjson
from gevent.pool import Pool
from gevent.server import StreamServer
from gunicorn import glogging, util
from gunicorn.config import Config
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
from ussd_server.server.connection import ClientConnection
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

_NO_TIMER = nullcontext()

log = Logger(__name__)


class WebLog(glogging.Logger):  # type: ignore[misc]
    """gunicorn's log without the line for each request, which it would build even when unused.

    The application logs its requests itself, without what must not be in a log.
    """

    access_log_enabled = False


class Replacement:
    """Lets the processes that a reload replaces serve until one of their successors accepts connections.

    A main process and all that it forks share it. A process is known by its number, which gunicorn calls its age.
    """

    def __init__(self) -> None:
        self._numbers = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")

    def begin(self, last: int) -> None:
        """Store that all processes up to number `last` are being replaced."""
        self._numbers[0] = last

    def accept(self, number: int) -> None:
        """Store that process `number` accepts connections."""
        self._numbers[1] = number

    def is_awaited(self, number: int) -> bool:
        """Return whether process `number` is being replaced and no successor accepts connections yet."""
        return number <= self._numbers[0] and self._numbers[1] <= self._numbers[0]


REPLACEMENT = Replacement()
"""That of gunicorn's main process, which imports this module before it forks."""


class GeventWebWorker(GeventWorker):  # type: ignore[misc]
    """Serves each connection in a greenlet."""

    def run(self) -> None:
        """Serve until gunicorn's main process stops this one."""
        _prepare_process()
        _quicken_gunicorn(self.cfg)
        self._connections: set[ClientConnection] = set()
        pool = Pool(self.worker_connections)
        servers = [StreamServer(each, partial(self.handle, each), spawn=pool) for each in self.sockets]
        for server in servers:
            # One at a time, so that other processes get some too.
            server.max_accept = 1
            server.start()
        REPLACEMENT.accept(self.age)
        while self.alive:
            self._wait()
            self._close_idle(self.cfg.keepalive)
        ends_at = time.monotonic() + _SUCCESSOR_SECONDS
        while REPLACEMENT.is_awaited(self.age) and time.monotonic() < ends_at:
            self._wait()
        for server in servers:
            _end(server)
        ends_at = time.monotonic() + self.cfg.graceful_timeout
        while pool and time.monotonic() < ends_at:
            self._wait()
            self._close_idle(LINGER_SECONDS)

    def timeout_ctx(self) -> AbstractContextManager[None]:
        """No timer for each request (12 us): `run` closes idle connections."""
        return _NO_TIMER

    def _wait(self) -> None:
        self.notify()
        gevent.sleep(_LOOK_AGAIN_SECONDS)

    def _close_idle(self, seconds: float) -> None:
        """Close connections that have been idle for so long."""
        idle_since = time.monotonic() - seconds
        for connection in [each for each in self._connections if each.is_idle and each.idle_since <= idle_since]:
            with suppress(OSError):
                connection.shutdown(SHUT_RD)

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serve the requests of a connection."""
        connection = ClientConnection(client)
        self._connections.add(connection)
        try:
            super().handle(listener, connection, addr)
        finally:
            self._connections.discard(connection)

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> None:
        sock.begin_request()
        try:
            super().handle_request(listener_name, req, sock, addr)
        finally:
            sock.send_response()
        # gunicorn would read the rest of a body that was refused in parts of one KiB.
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


def _end(server: StreamServer) -> None:
    """Serve the clients that have connected, and close. Later clients must reach another process or machine."""
    server.stop_accepting()
    while not server.full() and (accepted := server.do_read()):
        server.do_handle(*accepted)
    # gunicorn asks the listener for its name as it begins to serve a connection.
    gevent.sleep(0)
    server.close()


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


def _quicken_gunicorn(settings: Config) -> None:
    """Spare each request what gunicorn computes anew, by two private parts of it.

    It reads some thirty settings through three calls each: as attributes they take 30 us less. It writes the date of
    its response: once a second takes 2 to 7 us less.
    """
    vars(settings).update({name: setting.get() for name, setting in settings.settings.items()})
    written = lru_cache(maxsize=1)(util.http_date)
    util.http_date = lambda: written(int(time.time()))


def _log_exception(_context: Any, _kind: Any, error: Any, _trace: Any) -> None:
    # The hub itself may not wait for the log: a worker that had no file left would never accept a connection again.
    gevent.spawn(log.error, "a greenlet ended with an exception", error=trace_of(error))


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
