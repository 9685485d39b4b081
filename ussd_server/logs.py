"""Logs: every line is one JSON object of fields that are allowed by name, so that no secret slips in."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import traceback
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import orjson

from ussd_server.threads import in_native_thread, is_cooperative

_GATHER_SECONDS = 0.05
_MOST_LINES = 10_000
_FIELDS = frozenset({
    "event", "level", "at", "logger", "place", "error",
    "request_id", "client_id", "transaction_id", "event_id", "delivery_id", "mail_id", "webhook_id", "channel_id",
    "message_id", "endpoint", "status", "code", "took_ms", "provider", "kind", "outcome", "trouble", "work", "why",
    "provider_reference", "trace_id", "payout_id", "other_id", "way",
    "process", "version", "exit_status", "pause_seconds", "worker", "leases", "gap_seconds",
})  # fmt: skip


_about: ContextVar[Mapping[str, str | None]] = ContextVar("about", default=MappingProxyType({}))
_traceparent: ContextVar[str | None] = ContextVar("traceparent", default=None)
# Version 00 of W3C's trace context: trace id, parent id, flags.
_SIGNAL = re.compile(r"SIG[A-Z]{2,9}")
_TRACEPARENT = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Logger:
    """Writes lines of a module: a constant sentence, and fields, of which the allowed ones are kept."""

    def __init__(self, name: str) -> None:
        self._log = logging.getLogger(name)

    def info(self, event: str, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log what may need an operator."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write(logging.ERROR, event, fields)

    def critical(self, event: str, **fields: Any) -> None:
        """Log what ended a process or a thread."""
        self._write(logging.CRITICAL, event, fields)

    def _write(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        if self._log.isEnabledFor(level):
            values = {name: value for name, value in {**_about.get(), **fields}.items() if name in _FIELDS}
            always = {"event": event, "level": logging.getLevelName(level).lower(), "logger": self._log.name}
            self._log.log(level, json.dumps({**values, **always, "at": _now()}, default=repr))


_log = Logger(__name__)
_CALLS = "ussd_server.calls"


def log_call(**fields: str | int | float | None) -> None:
    """Log how a request ended. Goes past `logging`, whose records and locks take longer than the rest of the line."""
    if call_lines is not None:
        line = {"event": "call", "level": "info", "logger": _CALLS, "at": datetime.now(UTC), **fields}
        if (traceparent := _traceparent.get()) is not None:
            line["trace_id"] = _trace_id(traceparent)
        call_lines.add(orjson.dumps(line, option=orjson.OPT_UTC_Z).decode())


class JsonLines(logging.Formatter):
    """Our lines are JSON already. Of a library's line only parts that cannot hold a caller's text are kept.

    These are its template with its numbers and names of signals, its place in the code, and where an error was raised.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line without its newline."""
        if record.name.partition(".")[0] == "ussd_server":
            return record.getMessage()
        line = {
            # Without arguments the message itself may hold anything.
            "event": _filled(record.msg, record.args) if record.args else "a line of a library",
            "level": record.levelname.lower(),
            "logger": record.name,
            "place": f"{record.module}.{record.funcName}:{record.lineno}",
            "at": _now(),
        }
        if record.exc_info and record.exc_info[1]:
            line["error"] = trace_of(record.exc_info[1])
        return json.dumps(line)


def _filled(template: object, arguments: Any) -> str:
    """Return a template with those arguments that cannot hold a caller's text; the others are dots."""
    texts = (each if isinstance(each, int | float) or _SIGNAL.fullmatch(str(each)) else "…" for each in arguments)
    try:
        return str(template) % tuple(texts)
    except (TypeError, ValueError):
        return str(template)


class GatheredLines(logging.StreamHandler[TextIO]):
    """Writes lines in small batches, so that no request waits for the disk; warnings and errors at once.

    In a cooperative process a native thread writes, so that a full pipe stops no request. Lines beyond its buffer are
    lost.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._lines: deque[str] = deque()
        self._is_due = threading.Event()
        self._is_urgent = threading.Event()
        self._writer: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record's line for the next write; from warnings on, write it now."""
        self.add(self.format(record), is_urgent=record.levelno >= logging.WARNING)

    def add(self, line: str, *, is_urgent: bool = False) -> None:
        """Keep a line, without its end, for the next write, or write it now."""
        if len(self._lines) < _MOST_LINES:
            self._lines.append(line)
        if is_urgent:
            if not is_cooperative():
                self.flush()
                return
            self._is_urgent.set()
        if self._writer is None:
            self._start_writer()
        if not self._is_due.is_set():
            self._is_due.set()

    def flush(self) -> None:
        self._write(self._take())

    def _take(self) -> str:
        self.acquire()
        try:
            return "".join([f"{self._lines.popleft()}\n" for _ in range(len(self._lines))])
        finally:
            self.release()

    def forget_writer(self) -> None:
        """Let the next line start a writer: a thread does not survive a fork."""
        self._writer = None

    def _start_writer(self) -> None:
        self.acquire()
        try:
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_again_and_again, name="log-lines", daemon=True)
                self._writer.start()
        finally:
            self.release()

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the reader is gone
            self.stream.write(text)
            self.stream.flush()

    def _write_again_and_again(self) -> None:
        while self._is_due.wait():
            self._is_urgent.wait(_GATHER_SECONDS)
            self._is_due.clear()
            self._is_urgent.clear()
            in_native_thread(self._write, self._take())


call_lines: GatheredLines | None = None
"""Where `log_call` writes; None while logs are not configured, and above the level INFO."""


def configure_logs(level: str, file: Path | None = None) -> None:
    """Send our lines from `level` on, and warnings of libraries, to standard error.

    With a `file` they go there, and warnings and errors to standard error as well.
    """
    global call_lines
    # Our lines name no thread and no process.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    terminal = GatheredLines()
    handlers = [terminal]
    if file is not None:
        terminal.setLevel(logging.WARNING)
        handlers.insert(0, GatheredLines(file.open("a", encoding="utf-8")))
    for handler in handlers:
        # A child would write the parent's buffered lines again.
        os.register_at_fork(before=handler.flush, after_in_child=handler.forget_writer)
        handler.setFormatter(JsonLines())
    logging.basicConfig(level="WARNING", handlers=handlers, force=True)
    logging.getLogger("ussd_server").setLevel(level)
    call_lines = handlers[0] if logging.getLogger(_CALLS).isEnabledFor(logging.INFO) else None


def log_start(process: str) -> None:
    _log.info("a process starts", process=process, version=version("ussd-server"))


def log_fatal_errors() -> None:
    """Log unhandled exceptions in the same way, instead of Python's traceback, which quotes values."""
    sys.excepthook = lambda _kind, error, _trace: _log_fatal(error)
    threading.excepthook = lambda ended: _log_fatal(ended.exc_value)
    logging.captureWarnings(True)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def now_about(*, traceparent: str | None = None, **ids: str | None) -> None:
    """Put ids, and no earlier ones, on every line that this thread logs from now on.

    `traceparent` is the caller's header: its trace is then the one of `trace_headers`. A malformed one counts as none.
    """
    if traceparent is not None and not _TRACEPARENT.fullmatch(traceparent):
        traceparent = None
    _traceparent.set(traceparent)
    _about.set(ids if traceparent is None else {**ids, "trace_id": _trace_id(traceparent)})


def continue_trace(traceparent: str | None) -> None:
    """Use this `traceparent` from now on, as `now_about` does, and keep the ids."""
    now_about(traceparent=traceparent, **{name: value for name, value in _about.get().items() if name != "trace_id"})


def current_traceparent() -> str | None:
    """Return the caller's `traceparent`, for what this thread works on now."""
    return _traceparent.get()


def trace_headers() -> dict[str, str]:
    """Return the headers that carry the caller's trace on to another server; none without a trace."""
    traceparent = _traceparent.get()
    return {} if traceparent is None else {"traceparent": traceparent}


def _trace_id(traceparent: str) -> str:
    return traceparent[3:35]


def trace_of(error: BaseException) -> str:
    """Return where an error was raised, without its text, which may quote a caller's values or a statement."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    where = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {where}"


def _log_fatal(error: BaseException | None) -> None:
    if error is not None:
        _log.critical("a process or thread ended by a mistake of ours", error=trace_of(error))
