"""The gunicorn worker of the service: what is not even HTTP gets the API's own envelope for an answer."""

from __future__ import annotations

import gc
import os
import re
import socket
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from enum import Enum, auto
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

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
from gunicorn.workers.gthread import _DEFER, TConn, ThreadWorker

from schemas.envelopes import error_envelope
from ussd_server.rpc.context import new_request_id
from ussd_server.rpc.logs import logger, trace_of
from ussd_server.rpc.status import Code

_OURS = (ConfigurationProblem, InvalidResponseHeader, InvalidResponseHeaderName)
_REASONS = {400: "Bad Request", 413: "Content Too Large", 500: "Internal Server Error"}

_RESERVE_THREADS = 4
_READ_BYTES = 16 * 1024
# No call of ours is larger, with its headers; whoever sends more is refused while they send.
_MOST_BYTES = 128 * 1024
_HAS_BODY = re.compile(
    rb"\n(?:content-length:[ \t]*([0-9]{1,9})[ \t]*\r|content-length|transfer-encoding|expect)", re.IGNORECASE
)

log = logger(__name__)


class WebLog(Logger):  # type: ignore[misc]
    """gunicorn's log without a line for each call, which it would put together even where nobody reads it.

    The application logs its calls itself, and knows what may be said of them.
    """

    access_log_enabled = False


class WebWorker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's threaded worker, which answers all calls on one thread (`ussd_server.loop`).

    Its threads do what a call would hold up others with, and nobody is waited for who sends or reads slowly. Its own
    refusals are JSON, and its log repeats nothing that a stranger sent.

    When it stops it takes in whoever has knocked already and closes the door behind them. gunicorn would keep it open
    until the last call is done: whoever knocks meanwhile would be cut off then, instead of trying another machine.
    """

    def run(self) -> None:
        """Serve until told to stop."""
        # After the fork this process has the application, and all of this, anew from the disk.
        from ussd_server.loop import Loop
        from ussd_server.models.base import release_connection

        reserve = ThreadPoolExecutor(_RESERVE_THREADS)
        self._loop = Loop(self.tpool, reserve, self.poller, self.method_queue.defer, release_connection)
        self._brought: deque[TConn] = deque()
        # What is there now stays, and a call makes hundreds of objects: the collector need not look so often.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        super().run()

    def enqueue_req(self, conn: TConn) -> None:
        """Answer a connection that has brought something, when its turn comes."""
        self._brought.append(conn)

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """One turn: begin the calls that came, go on with those that waited, and ask together what they ask."""
        super().wait_for_and_dispatch_events(0 if self._brought else timeout)
        for _ in range(len(self._brought)):
            self._loop.begin(partial(self._serve, self._brought.popleft()))
        self._loop.end_turn()

    def _serve(self, conn: TConn) -> None:
        try:
            outcome = self._answer(conn)
        except Exception as error:
            log.error("a connection was given up by a mistake of ours", error=trace_of(error))
            outcome = False
        if outcome:
            self.finish_request(conn, _Finished(outcome))
        else:
            self.nr_conns -= 1
            # It lingers, so that whoever still sends can read the answer.
            self.tpool.submit(conn.close, graceful=True)

    def _answer(self, conn: TConn) -> Any:
        """Answer the request that a connection brought. Tells whether the connection is kept, or comes with more."""
        try:
            came = _take_in(conn)
        except OSError:
            return False
        if came is _Came.NOTHING:
            return False
        if came is _Came.PART:
            return _DEFER
        if came is _Came.STREAM:
            conn.parser.unreader.sock = conn.sock
            return self._loop.wait_for_thread(partial(self.handle, conn))
        conn.parser.unreader.sock = _END
        stream, outbox = conn.sock, _Outbox()
        conn.sock = outbox
        try:
            outcome = self.handle(conn)
        finally:
            conn.sock = stream
        return self._send(stream, outbox.getvalue()) and outcome

    def _send(self, stream: socket.socket, answer: bytes) -> bool:
        """Send an answer; a caller who is slow to read it is left to a thread. False when the caller is gone."""
        try:
            sent = stream.send(answer, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        return sent == len(answer) or self._loop.wait_for_thread(partial(_send_slowly, stream, answer[sent:]))

    def set_accept_enabled(self, enabled: bool) -> None:
        """Begin or cease to accept connections; for good, when the worker stops."""
        super().set_accept_enabled(enabled)
        if enabled or self.alive:
            return
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


class _Outbox(BytesIO):
    """Stands in for the socket of a request: an answer is sent whole, when it is complete."""

    sendall = BytesIO.write

    def setblocking(self, _: bool) -> None:
        """Nothing here blocks."""


class _End:
    """Stands in for the socket of a request that has come whole: whoever reads on, finds the end and never waits."""

    def recv(self, _: int) -> bytes:
        return b""


_END = _End()


class _Came(Enum):
    """What has come of a request."""

    NOTHING = auto()
    PART = auto()
    WHOLE = auto()
    STREAM = auto()  # to be read as it comes: it has no announced length, or is larger than any call of ours


def _take_in(conn: TConn) -> _Came:
    """Read what a connection brought, as far as it can be had without waiting."""
    conn.init()
    unreader = conn.parser.unreader
    taken = unreader.buf.getvalue()
    came = _what_came(taken)
    if came is _Came.PART:
        try:
            more = conn.sock.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return _Came.PART
        if not more:
            return _Came.NOTHING
        unreader.buf.seek(0, os.SEEK_END)
        unreader.buf.write(more)
        came = _what_came(taken + more)
    return came


def _what_came(taken: bytes) -> _Came:
    # An empty line before a request is to be overlooked.
    end = taken.find(b"\r\n\r\n", 2 if taken.startswith(b"\r\n") else 0)
    if end < 0:
        return _Came.PART if len(taken) < _MOST_BYTES else _Came.STREAM
    if (match := _HAS_BODY.search(taken, 0, end + 2)) is None:
        return _Came.WHOLE
    if match[1] is None or int(match[1]) > _MOST_BYTES:
        return _Came.STREAM
    return _Came.WHOLE if len(taken) >= end + 4 + int(match[1]) else _Came.PART


def _send_slowly(stream: socket.socket, answer: bytes) -> bool:
    try:
        stream.setblocking(True)
        stream.sendall(answer)
    except OSError:
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
