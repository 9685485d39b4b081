"""The gunicorn worker of the service: what is not even HTTP gets the API's own envelope for an answer."""

from __future__ import annotations

import errno
import gc
import os
import socket
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from gunicorn.glogging import Logger
from gunicorn.http.errors import (
    ConfigurationProblem,
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from gunicorn.workers.gthread import _DEFER, STOP_KEEPALIVE_LINGER, TConn, ThreadWorker

from schemas.envelopes import error_envelope
from ussd_server.connection_shares import SHARES
from ussd_server.rpc.context import new_request_id
from ussd_server.rpc.logs import logger, trace_of
from ussd_server.rpc.status import Code

if TYPE_CHECKING:
    from ussd_server.loop import Loop

_OURS = (ConfigurationProblem, InvalidResponseHeader, InvalidResponseHeaderName)
_REASONS = {400: "Bad Request", 413: "Content Too Large", 500: "Internal Server Error"}

_RESERVE_THREADS = 4
# So long a caller may take to send a call, and to take its answer: as long as a stop waits.
_CALLER_SECONDS = 30.0
# Whoever still sends when the connection ends is heard for so long, and so much: else they might not read the answer.
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 64 * 1024

# How long a process leaves a connection to others that hold fewer. One that is stuck does not take it.
_LEAVE_SECONDS = 0.002

log = logger(__name__)


class WebLog(Logger):  # type: ignore[misc]
    """gunicorn's log without a line for each call, which it would put together even where nobody reads it.

    The application logs its calls itself, and knows what may be said of them.
    """

    access_log_enabled = False


class WebWorker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's threaded worker, which answers all calls on one thread (`ussd_server.loop`).

    Its threads do what a call would hold up others with. Whoever sends or reads slowly is waited for by their own call
    alone, and by no thread. Its own refusals are JSON, and its log repeats nothing that a stranger sent.

    When it stops it takes in whoever has knocked already and closes the door behind them. gunicorn would keep it open
    until the last call is done: whoever knocks meanwhile would be cut off then, instead of trying another machine.
    """

    def run(self) -> None:
        """Serve until told to stop."""
        # After the fork this process has the application, and all of this, anew from the disk.
        from ussd_server.loop import Loop
        from ussd_server.models.base import release_connection

        self._left_since: float | None = None
        SHARES.tell(self.age, self.nr_conns)
        reserve = ThreadPoolExecutor(_RESERVE_THREADS)
        self._loop = Loop(self.tpool, reserve, self.poller, self.method_queue.defer, release_connection)
        self._brought: deque[TConn] = deque()
        # What is there now stays, and a call makes hundreds of objects: the collector need not look so often.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        super().run()

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection, unless another process holds fewer and takes it within a moment."""
        if self.alive and self.nr_conns > SHARES.fewest():
            now = time.monotonic()
            self._left_since = self._left_since or now
            if now - self._left_since < _LEAVE_SECONDS:
                os.sched_yield()
                return
        self._left_since = None
        super().accept(listener)

    def enqueue_req(self, conn: TConn) -> None:
        """Answer a connection that has brought something, when its turn comes."""
        self._brought.append(conn)

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """One turn: begin the calls that came, go on with those that waited, and ask together what they ask."""
        super().wait_for_and_dispatch_events(0 if self._brought else timeout)
        for _ in range(len(self._brought)):
            self._loop.begin(partial(self._serve, self._brought.popleft()))
        self._loop.end_turn()
        if self.alive:
            SHARES.tell(self.age, self.nr_conns)

    def _serve(self, conn: TConn) -> None:
        try:
            outcome = self._answer(conn)
        except Exception as error:
            log.error("a connection was given up by a mistake of ours", error=trace_of(error))
            outcome = False
        if outcome:
            self.finish_request(conn, _Finished(outcome))
            return
        try:
            _Caller(self._loop, conn.sock, _LINGER_SECONDS).take_leave()
        finally:
            self.nr_conns -= 1
            conn.close()

    def _answer(self, conn: TConn) -> Any:
        """Answer the next request of a connection. Tells whether the connection is kept."""
        stream, is_new = conn.sock, not conn.initialized
        try:
            conn.init()
            if is_new and not _has_brought(stream):
                return _DEFER
            conn.sock = conn.parser.unreader.sock = caller = _Caller(self._loop, stream, _CALLER_SECONDS)
            outcome = self.handle(conn)
            caller.send_answer()
        except OSError:
            return False
        finally:
            conn.sock = stream
        return outcome

    def _keepalive_after(self, conn: TConn, keepalive: bool) -> bool:
        """Whether the connection is kept. The answer is sent before the rest of a body is waited for."""
        conn.sock.send_answer()
        return bool(super()._keepalive_after(conn, keepalive))

    def set_accept_enabled(self, enabled: bool) -> None:
        """Begin or cease to accept connections; for good, when the worker stops."""
        super().set_accept_enabled(enabled)
        if enabled or self.alive:
            return
        # gunicorn would wait as long as it may for those who have said nothing yet.
        ends_at = time.monotonic() + STOP_KEEPALIVE_LINGER
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, ends_at)
        SHARES.leave(self.age)
        for listener in self.sockets:
            taken = None
            while taken != self.nr_conns:
                taken = self.nr_conns
                self.accept(listener)
            listener.close()

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that could not be read (400 or 413) or that the application failed to answer (500)."""
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


class _Finished(NamedTuple):
    """What gunicorn takes for the future of a request."""

    outcome: Any

    def cancelled(self) -> bool:
        return False

    def result(self) -> Any:
        return self.outcome


class _Caller:
    """Stands in for the socket of a request: the call alone waits for whoever sends or reads slowly.

    OSError when the caller is gone, or is not done after some seconds. An answer is sent in one piece.
    """

    def __init__(self, loop: Loop, stream: socket.socket, seconds: float) -> None:
        self._loop = loop
        self._stream = stream
        self._seconds = seconds
        self._ends_at = time.monotonic() + seconds
        self._answer: list[bytes] = []

    def recv(self, size: int) -> bytes:
        """Read what there is, and wait for it where there is nothing. The end, too, is a caller who went away."""
        while True:
            try:
                more = self._stream.recv(size, socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait_until(EVENT_READ)
                continue
            if not more:
                # gunicorn would take half of a body for the whole.
                raise ConnectionResetError(errno.ECONNRESET, "the caller sends no more")
            return more

    def send(self, interim: bytes) -> None:
        """Tell at once that the body of a request is awaited."""
        self._stream.send(interim, socket.MSG_DONTWAIT)

    def sendall(self, part: bytes) -> None:
        """Keep a part of the answer until that is complete."""
        self._answer.append(part)

    def send_answer(self) -> None:
        """Send what was kept."""
        self._ends_at = time.monotonic() + self._seconds
        rest, self._answer = memoryview(b"".join(self._answer)), []
        while rest:
            try:
                rest = rest[self._stream.send(rest, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._wait_until(EVENT_WRITE)

    def take_leave(self) -> None:
        """Say that nothing more is sent, and hear what the caller sends until it has heard that."""
        heard = 0
        with suppress(OSError):
            self._stream.shutdown(socket.SHUT_WR)
            while heard < _LINGER_BYTES:
                heard += len(self.recv(_LINGER_BYTES))

    def setblocking(self, _: bool) -> None:
        """Nothing here blocks."""

    def _wait_until(self, event: int) -> None:
        if not self._loop.wait_for_file(self._stream.fileno(), event, self._ends_at - time.monotonic()):
            # gunicorn takes this for a caller who went away, and makes no word of it.
            raise ConnectionResetError(errno.ECONNRESET, "the caller took too long")


def _has_brought(stream: socket.socket) -> bool:
    """Whether there is anything to be read, if only the end."""
    try:
        stream.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
    except BlockingIOError:
        return False
    return True


def _refusal(error: BaseException) -> tuple[Code, str]:
    if isinstance(error, LimitRequestLine | LimitRequestHeaders):
        return Code.REQUEST_TOO_LARGE, "The request line or the headers are too large"
    if isinstance(error, ParseException) and not isinstance(error, _OURS):
        return Code.INVALID_REQUEST, "The request is not valid HTTP"
    return Code.INTERNAL_ERROR, "Internal error"


def _reply(code: Code, message: str, request_id: str) -> bytes:
    body = orjson.dumps(error_envelope(code.error, message, datetime.now(UTC)))
    head = (
        f"HTTP/1.1 {code.http_status} {_REASONS[code.http_status]}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"X-Request-Id: {request_id}\r\n\r\n"
    )
    return head.encode("ascii") + body
