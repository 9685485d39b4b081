"""The load generator: one process that sends prepared HTTP requests on connections that stay open.

A connection sends its next request when the reply to the last is complete. With a rate, requests are due evenly spaced
and take any idle connection; latencies count from when they were due, so that a stall counts for all it delayed.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from multiprocessing.connection import Connection as Pipe
from typing import NamedTuple

_TIMEOUT_SECONDS = 20.0


class Call(NamedTuple):
    """A request, and what its reply must contain."""

    request: bytes
    mark: bytes = b""


class Load(NamedTuple):
    """What to send to a port of this machine, in order, for so many seconds.

    `scripts` has one list of calls for each connection, or a single one from which all take the next. With `repeats` a
    list begins again at its end; otherwise running out of calls is an error. Every reply must have the HTTP `status`.
    `rate` is in requests per second; 0 sends as fast as replies come.
    """

    port: int
    scripts: Sequence[Sequence[Call]]
    seconds: float
    connections: int = 32
    status: int = 200
    repeats: bool = False
    rate: float = 0


class Outcome(NamedTuple):
    """The result of a load: replies within its time (at least one) and all, its length, latencies in milliseconds."""

    answers: int
    all_answers: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        """Replies per second."""
        return self.answers / self.seconds


class Generator:
    """The process that sends loads."""

    def __init__(self, pipe: Pipe, pid: int) -> None:
        self._pipe = pipe
        self.pid = pid

    def run(self, load: Load) -> Outcome:
        """Send the load and wait for its end. Raises RuntimeError on the first reply that is not as it must be."""
        self._pipe.send(load)
        outcome: Outcome | str = self._pipe.recv()
        if isinstance(outcome, str):
            raise RuntimeError(outcome)
        return outcome


@contextmanager
def start_generator() -> Iterator[Generator]:
    """Start the process; it ends with the block."""
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe()
    child = fresh.Process(target=_serve, args=(theirs,), daemon=True)
    child.start()
    try:
        assert child.pid is not None
        yield Generator(ours, child.pid)
    finally:
        ours.send(None)
        child.join()


def _serve(pipe: Pipe) -> None:
    # A garbage collection here would count as a latency of the server.
    gc.disable()
    while (load := pipe.recv()) is not None:
        try:
            pipe.send(_Run(load).drive())
        except (OSError, RuntimeError) as error:
            pipe.send(f"{type(error).__name__}: {error}")
        gc.collect()


class _Connection:
    """One connection with its calls."""

    def __init__(self, load: Load, calls: Iterator[Call]) -> None:
        self._calls = calls
        self._status = str(load.status).encode()
        self._received = b""
        self._mark = b""
        self.due_at = 0.0
        self.socket = socket.create_connection(("127.0.0.1", load.port), _TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, due_at: float) -> None:
        """Send the next call."""
        call = next(self._calls, None)
        if call is None:
            raise RuntimeError("the server answered more calls than were prepared")
        self.due_at, self._mark = due_at, call.mark
        self.socket.sendall(call.request)

    def receive(self) -> bool:
        """Read what has arrived; return whether the reply is complete."""
        chunk = self.socket.recv(262_144)
        if not chunk:
            raise RuntimeError("the server closed the connection")
        received = self._received = self._received + chunk if self._received else chunk
        if not _is_complete(received):
            return False
        if received[9:12] != self._status or self._mark not in received:
            raise RuntimeError(f"an unexpected reply: {received[:400]!r}")
        self._received = b""
        return True


def _is_complete(received: bytes) -> bool:
    head_end = received.find(b"\r\n\r\n")
    if head_end < 0:
        return False
    head = received[:head_end].lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        raise RuntimeError(f"a reply without a length: {head[:200]!r}")
    return len(received) >= head_end + 4 + int(head[at + 17 :].partition(b"\r")[0])


class _Run:
    """One load while it is sent."""

    def __init__(self, load: Load) -> None:
        self._load = load
        # select(2) waits to the microsecond, epoll to the millisecond, which a rate would notice.
        self._selector = selectors.SelectSelector() if load.rate else selectors.DefaultSelector()
        self._latencies: list[float] = []
        self._late = 0
        self._seconds = load.seconds

    def drive(self) -> Outcome:
        """Send the load; replies after its end are waited for and not counted."""
        scripts = [cycle(calls) if self._load.repeats else iter(calls) for calls in self._load.scripts]
        shared = scripts * self._load.connections if len(scripts) == 1 else scripts
        connections = [_Connection(self._load, calls) for calls in shared]
        try:
            for connection in connections:
                self._selector.register(connection.socket, selectors.EVENT_READ, connection)
            (self._send_at_rate if self._load.rate else self._send_at_once)(connections, time.perf_counter())
            return self._outcome()
        finally:
            self._selector.close()
            for connection in connections:
                connection.socket.close()

    def _send_at_once(self, connections: list[_Connection], began: float) -> None:
        clock, latencies = time.perf_counter, self._latencies
        ends_at = began + self._load.seconds
        for connection in connections:
            connection.send(clock())
        busy = len(connections)
        while busy:
            for connection in self._answering(_TIMEOUT_SECONDS):
                now = clock()
                if now < ends_at:
                    latencies.append(now - connection.due_at)
                    connection.send(now)
                    continue
                busy -= 1
                if latencies:
                    self._late += 1
                else:
                    # No reply came in time: the run lasts until now.
                    latencies.append(now - connection.due_at)
                    self._seconds = now - began

    def _send_at_rate(self, connections: list[_Connection], began: float) -> None:
        clock, latencies = time.perf_counter, self._latencies
        idle, gap, sent = deque(connections), 1 / self._load.rate, 0
        total = max(1, int(self._load.seconds * self._load.rate))
        while sent < total or len(idle) < len(connections):
            due_at = began + sent * gap
            if sent < total and idle and due_at <= clock():
                idle.popleft().send(due_at)
                sent += 1
                continue
            wait = max(0.0, due_at - clock()) if sent < total and idle else _TIMEOUT_SECONDS
            for connection in self._answering(wait):
                latencies.append(clock() - connection.due_at)
                idle.append(connection)

    def _answering(self, wait_seconds: float) -> list[_Connection]:
        """Return the connections whose replies became complete."""
        ready = self._selector.select(wait_seconds)
        if not ready and wait_seconds == _TIMEOUT_SECONDS:
            raise RuntimeError("the server stopped replying")
        return [key.data for key, _ in ready if key.data.receive()]

    def _outcome(self) -> Outcome:
        ordered = sorted(self._latencies)
        p50, p99 = (1000 * ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
        return Outcome(len(ordered), len(ordered) + self._late, self._seconds, p50, p99)
