"""The load: one process that speaks HTTP on connections that stay open, cheap enough to leave the cores to the servers.

Requests are ready-made bytes. A connection sends its next one when the answer to the last has come whole; with a rate,
requests fall due evenly spaced and take any idle connection, and latencies count from when they were due.
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

_PATIENCE_SECONDS = 20.0


class Call(NamedTuple):
    """A request, and what its answer must contain."""

    request: bytes
    mark: bytes = b""


class Load(NamedTuple):
    """What to send to a port of this machine, in order, for so many seconds.

    `scripts` has one list of calls for each connection, or a single one from which all take the next. What `repeats`
    begins again at its end; otherwise running out of calls is an error. Every answer must carry the HTTP `status`.
    `rate` is in requests a second; 0 sends as fast as answers come.
    """

    port: int
    scripts: Sequence[Sequence[Call]]
    seconds: float
    connections: int = 32
    status: int = 200
    repeats: bool = False
    rate: float = 0


class Outcome(NamedTuple):
    """What came of a load: its answers in time, at least one, and in all, latencies, and what the generator used."""

    answers: int
    answers_in_all: int
    seconds: float
    p50_ms: float
    p99_ms: float
    generator_cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return self.answers / self.seconds


class Generator:
    """The process that makes load."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def run(self, load: Load) -> Outcome:
        """Make the load and wait for its end. Raises RuntimeError on the first answer that is not as it must be."""
        self._pipe.send(load)
        outcome: Outcome | str = self._pipe.recv()
        if isinstance(outcome, str):
            raise RuntimeError(outcome)
        return outcome


@contextmanager
def start_generator() -> Iterator[Generator]:
    """A process of its own, which ends with the block."""
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe()
    child = fresh.Process(target=_serve, args=(theirs,), daemon=True)
    child.start()
    try:
        yield Generator(ours)
    finally:
        ours.send(None)
        child.join()


def _serve(pipe: Pipe) -> None:
    # A pause of the collector would be counted as a latency of the server.
    gc.disable()
    while (load := pipe.recv()) is not None:
        try:
            pipe.send(_Run(load).drive())
        except (OSError, RuntimeError) as error:
            pipe.send(f"{type(error).__name__}: {error}")
        gc.collect()


class _Line:
    """One connection with its calls."""

    def __init__(self, load: Load, calls: Iterator[Call]) -> None:
        self._calls = calls
        self._status = str(load.status).encode()
        self._received = b""
        self._mark = b""
        self.due_at = 0.0
        self.socket = socket.create_connection(("127.0.0.1", load.port), _PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, due_at: float) -> None:
        """Send the next call."""
        call = next(self._calls, None)
        if call is None:
            raise RuntimeError("the server answered more calls than were prepared")
        self.due_at, self._mark = due_at, call.mark
        self.socket.sendall(call.request)

    def receive(self) -> bool:
        """Take what has come; whether the answer is whole now."""
        chunk = self.socket.recv(262_144)
        if not chunk:
            raise RuntimeError("the server closed the connection")
        received = self._received = self._received + chunk if self._received else chunk
        if not _is_whole(received):
            return False
        if received[9:12] != self._status or self._mark not in received:
            raise RuntimeError(f"an unexpected answer: {received[:400]!r}")
        self._received = b""
        return True


def _is_whole(received: bytes) -> bool:
    head_end = received.find(b"\r\n\r\n")
    if head_end < 0:
        return False
    head = received[:head_end].lower()
    at = head.find(b"\r\ncontent-length:")
    if at < 0:
        raise RuntimeError(f"an answer without a length: {head[:200]!r}")
    return len(received) >= head_end + 4 + int(head[at + 17 :].partition(b"\r")[0])


class _Run:
    """One load while it is made."""

    def __init__(self, load: Load) -> None:
        self._load = load
        # select(2) waits to the microsecond, epoll to the millisecond, which a rate would notice.
        self._selector = selectors.SelectSelector() if load.rate else selectors.DefaultSelector()
        self._latencies: list[float] = []
        self._seconds = load.seconds

    def drive(self) -> Outcome:
        """Make the load; answers that come after its end are waited for and not counted."""
        scripts = [cycle(calls) if self._load.repeats else iter(calls) for calls in self._load.scripts]
        shared = scripts * self._load.connections if len(scripts) == 1 else scripts
        lines = [_Line(self._load, calls) for calls in shared]
        try:
            for line in lines:
                self._selector.register(line.socket, selectors.EVENT_READ, line)
            used, began = time.process_time(), time.perf_counter()
            (self._send_at_rate if self._load.rate else self._send_at_once)(lines, began)
            return self._outcome(time.process_time() - used)
        finally:
            self._selector.close()
            for line in lines:
                line.socket.close()

    def _send_at_once(self, lines: list[_Line], began: float) -> None:
        clock, latencies = time.perf_counter, self._latencies
        ends_at = began + self._load.seconds
        for line in lines:
            line.send(clock())
        busy = len(lines)
        while busy:
            for line in self._answering(_PATIENCE_SECONDS):
                now = clock()
                if now < ends_at:
                    latencies.append(now - line.due_at)
                    line.send(now)
                    continue
                if not latencies:
                    # Nothing was answered in time: it took until now.
                    latencies.append(now - line.due_at)
                    self._seconds = now - began
                busy -= 1

    def _send_at_rate(self, lines: list[_Line], began: float) -> None:
        clock, latencies = time.perf_counter, self._latencies
        idle, gap, sent = deque(lines), 1 / self._load.rate, 0
        total = int(self._load.seconds * self._load.rate)
        while sent < total or len(idle) < len(lines):
            due_at = began + sent * gap
            if sent < total and idle and due_at <= clock():
                idle.popleft().send(due_at)
                sent += 1
                continue
            wait = max(0.0, due_at - clock()) if sent < total and idle else _PATIENCE_SECONDS
            for line in self._answering(wait):
                latencies.append(clock() - line.due_at)
                idle.append(line)

    def _answering(self, wait_seconds: float) -> list[_Line]:
        """The connections whose answers became whole now."""
        ready = self._selector.select(wait_seconds)
        if not ready and wait_seconds == _PATIENCE_SECONDS:
            raise RuntimeError("the server does not answer any more")
        return [key.data for key, _ in ready if key.data.receive()]

    def _outcome(self, cpu_seconds: float) -> Outcome:
        ordered = sorted(self._latencies)
        p50, p99 = (1000 * ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
        late = 0 if self._load.rate else self._load.connections
        return Outcome(len(ordered), len(ordered) + late, self._seconds, p50, p99, cpu_seconds)
