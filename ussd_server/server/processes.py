"""Child processes: started in order, restarted when they die, stopped in reverse order."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ussd_server.logs import Logger

_STOP = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_HEARD = _STOP | {signal.SIGCHLD}
_SHORTEST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
# A process that lived this long is not failing at its start.
_HEALTHY_LIFE_SECONDS = 60.0
_READINESS_PAUSE_SECONDS = 0.1
_FAILURES_BEFORE_GIVING_UP = 3
_PR_SET_PDEATHSIG = 1

log = Logger(__name__)
# As in the units of systemd: glibc gives the 19 MB of each password hash back.
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1048576"}


class NeverStartedError(Exception):
    """A process died several times before all were ready; the message is its name."""


class Child:
    """One child process, with what is needed to restart it."""

    def __init__(self, name: str, command: Sequence[str], grace_seconds: float, keeps: Sequence[int] = ()) -> None:
        """`grace_seconds` is the time it has to stop; `keeps` are file descriptors it inherits."""
        self.name = name
        self.failures = 0
        self._command = list(command)
        self._grace_seconds = grace_seconds
        self._keeps = tuple(keeps)
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._due_at = 0.0

    def start(self) -> None:
        """Start the program in a process group of its own, so that Ctrl-C reaches the parent alone."""
        parent = os.getpid()
        self._started_at = time.monotonic()
        self._process = subprocess.Popen(  # noqa: S603 - the commands are ours
            self._command,
            stdin=subprocess.DEVNULL,
            env=os.environ | _MEMORY,
            pass_fds=self._keeps,
            process_group=0,
            preexec_fn=lambda: _live_and_die_with(parent),
        )

    def watch(self) -> float | None:
        """Start it, or restart it when its pause is over. Returns the seconds to the next check, None when it runs."""
        now = time.monotonic()
        if self._process is not None and self._process.poll() is not None:
            if now - self._started_at >= _HEALTHY_LIFE_SECONDS:
                self.failures = 0
            pause = min(_SHORTEST_PAUSE_SECONDS * 2**self.failures, _LONGEST_PAUSE_SECONDS)
            self.failures += 1
            log.error(
                "a process ended and is started again after a pause",
                process=self.name,
                exit_status=self._process.returncode,
                pause_seconds=pause,
            )
            self._process = None
            self._due_at = now + pause
        if self._process is not None:
            return None
        if now < self._due_at:
            return self._due_at - now
        self.start()
        return None

    def stop(self, is_hurried: Callable[[float], bool]) -> None:
        """Terminate it; kill it after its grace, or when `is_hurried(seconds)` returns True."""
        if self._process is None:
            return
        self._process.terminate()
        deadline = time.monotonic() + self._grace_seconds
        while self._process.poll() is None:
            if is_hurried(max(0.0, min(1.0, deadline - time.monotonic()))) or time.monotonic() >= deadline:
                log.warning("a process had not stopped in time and was killed", process=self.name)
                self._process.kill()
                self._process.wait()


class Family:
    """Processes that run together: the first starts first and stops last."""

    def __init__(self, children: Sequence[Child]) -> None:
        self._children = children

    def run(self, is_ready: Callable[[], bool], on_ready: Callable[[], None]) -> None:
        """Keep all processes running until SIGINT, SIGTERM or SIGHUP.

        A SIGINT while they stop, which is a person's second Ctrl-C, ends them at once; no other signal does.

        `on_ready` is called once, when `is_ready` first holds. Raises NeverStartedError, after everything was stopped.
        """
        with _received_signals() as signals:
            try:
                self._watch(signals, is_ready, on_ready)
            finally:
                is_hurried = False

                def is_hurried_within(seconds: float) -> bool:
                    nonlocal is_hurried
                    is_hurried = is_hurried or _next(signals, seconds) == signal.SIGINT
                    return is_hurried

                for child in reversed(self._children):
                    child.stop(is_hurried_within)

    def _watch(self, signals: socket.socket, is_ready: Callable[[], bool], on_ready: Callable[[], None]) -> None:
        was_ready = False
        while True:
            pauses = [pause for child in self._children if (pause := child.watch()) is not None]
            if not was_ready:
                self._refuse_repeated_failures()
                pauses.append(_READINESS_PAUSE_SECONDS)
                if is_ready():
                    was_ready = True
                    on_ready()
            if _next(signals, min(pauses, default=_LONGEST_PAUSE_SECONDS)) in _STOP:
                return

    def _refuse_repeated_failures(self) -> None:
        for child in self._children:
            if child.failures >= _FAILURES_BEFORE_GIVING_UP:
                raise NeverStartedError(child.name)


def _next(signals: socket.socket, seconds: float) -> int | None:
    """Return the number of the next signal, None when none arrives within `seconds`."""
    readable, _, _ = select.select([signals], [], [], seconds)
    return signals.recv(1)[0] if readable else None


@contextmanager
def _received_signals() -> Iterator[socket.socket]:
    """Yield a socket that receives the number of each signal as one byte: no signal interrupts a step or is lost.

    Blocking the signals does not suffice: threads that libraries started do not block them, and a signal delivered to
    such a thread ends the process.
    """
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        handlers = {number: signal.signal(number, lambda *_: None) for number in _HEARD}
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _live_and_die_with(parent: int) -> None:
    """Runs in the child before its program: be terminated when the parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
