"""Every line is one JSON object with fields that are allowed by name, and no others."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.support.cooperative import run_cooperatively
from ussd_server import logs
from ussd_server.logs import GatheredLines, JsonLines, Logger, log_start, now_about

SECRET = "Zq7x-a-secret"


def line_of_library(message: str, *args: Any, error: BaseException | None = None) -> str:
    """The line that is written for a line of a library."""
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("gunicorn.error", logging.ERROR, "arbiter.py", 7, message, args, info, "reap")
    return JsonLines().format(record)


def caught(text: str) -> ValueError:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def test_every_field_that_the_code_logs_is_allowed() -> None:
    names = set()
    for path in Path(logs.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and re.fullmatch(
                r"_?log\.(info|warning|error|critical)", ast.unparse(call.func)
            ):
                names |= {each.arg for each in call.keywords if each.arg}
    assert {"why", "provider"} <= names
    assert names <= logs._FIELDS, "another one is left out of the line without a word"


def test_a_line_of_ours_has_the_allowed_fields_alone(caplog: pytest.LogCaptureFixture) -> None:
    now_about(delivery_id="d-1")
    now_about(request_id="r-1", transaction_id="t-1")
    with caplog.at_level(logging.INFO, "ussd_server.test"):
        Logger("ussd_server.test").info("a thing happened", provider="mtn", apisecret=SECRET, url=SECRET)
    now_about()
    line = json.loads(caplog.messages[-1])
    assert SECRET not in caplog.text
    assert line.pop("at").endswith("Z")
    assert line == {
        "event": "a thing happened", "level": "info", "logger": "ussd_server.test",
        "request_id": "r-1", "transaction_id": "t-1", "provider": "mtn",
    }  # fmt: skip


def test_the_first_line_of_a_process_names_its_version(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ussd_server.logs"):
        log_start("worker")
    line = json.loads(caplog.messages[-1])
    assert (line["process"], line["version"]) == ("worker", version("ussd-server"))


def test_a_librarys_line_keeps_its_template_and_its_numbers() -> None:
    line = json.loads(line_of_library("Worker (pid:%s) was sent %s!", 41, SECRET))
    assert (line["event"], line["level"]) == ("Worker (pid:41) was sent …!", "error")
    assert json.loads(line_of_library("Worker (pid:%s) was sent %s!", 41, "SIGKILL"))["event"].endswith("sent SIGKILL!")
    assert json.loads(line_of_library("%(count)d of %s", {"count": SECRET}))["event"] == "%(count)d of %s"
    assert line["place"] == "arbiter.reap:7"


def test_a_librarys_line_with_a_formatted_message_keeps_its_place_alone() -> None:
    written = line_of_library(f"GET /{SECRET}")
    assert SECRET not in written
    assert json.loads(written)["place"] == "arbiter.reap:7"


def test_of_an_error_only_its_kind_and_its_places_are_kept() -> None:
    written = line_of_library("Exception in worker process", error=caught(SECRET))
    assert SECRET not in written
    assert json.loads(written)["error"].startswith("ValueError at caught:")


@pytest.mark.parametrize(
    "end",
    [
        "raise ValueError(SECRET)",
        "import threading; thread = threading.Thread(target=int, args=(SECRET,)); thread.start(); thread.join()",
        "import warnings; warnings.warn(SECRET)",
    ],
)
def test_what_ends_a_process_or_a_thread_is_one_line_without_its_text(end: str) -> None:
    program = f"""
from ussd_server.logs import configure_logs, log_fatal_errors
configure_logs("INFO")
log_fatal_errors()
SECRET = "{SECRET}"
{end}
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    (line,) = ran.stderr.splitlines()
    assert json.loads(line)["level"] in ("critical", "warning")
    assert SECRET not in line


class Written(io.StringIO):
    """A stream with an event that is set when something is written."""

    def __init__(self) -> None:
        super().__init__()
        self.is_written = threading.Event()

    def write(self, text: str) -> int:
        """Write and set the event."""
        written = super().write(text)
        self.is_written.set()
        return written


def record_of(message: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("ussd_server.test", level, "", 0, message, None, None)


def test_lines_are_written_together_within_a_moment_and_in_their_order() -> None:
    stream = Written()
    handler = GatheredLines(stream)
    for number in range(3):
        handler.handle(record_of(str(number)))
    assert stream.is_written.wait(30)
    assert stream.getvalue() == "0\n1\n2\n"
    stream.is_written.clear()
    handler.handle(record_of("3"))
    assert stream.is_written.wait(30)
    assert stream.getvalue() == "0\n1\n2\n3\n"


def test_a_warning_is_written_at_once_behind_what_came_before_it() -> None:
    stream = Written()
    handler = GatheredLines(stream)
    handler.handle(record_of("first"))
    handler.handle(record_of("trouble", logging.WARNING))
    assert stream.getvalue() == "first\ntrouble\n"


def test_the_last_lines_are_written_when_a_process_ends_and_none_twice_after_a_fork() -> None:
    program = """
import logging, os
from ussd_server.logs import configure_logs
configure_logs("INFO")
log = logging.getLogger("ussd_server.test")
log.info("parent")
child = os.fork()
if child == 0:
    log.info("child")
    raise SystemExit
os.waitpid(child, 0)
log.info("end")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines() == ["parent", "child", "end"]


def test_with_a_file_the_terminal_shows_warnings_only_and_the_file_everything(tmp_path: Path) -> None:
    program = f"""
import logging
from pathlib import Path
from ussd_server.logs import configure_logs, log_call
configure_logs("INFO", Path("{tmp_path}/service.log"))
log_call(status=200)
logging.getLogger("ussd_server.test").info("noted")
logging.getLogger("ussd_server.test").warning("trouble")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stderr == "trouble\n"
    call, *others = (tmp_path / "service.log").read_text().splitlines()
    assert (json.loads(call)["status"], others) == (200, ["noted", "trouble"])


def test_a_pipe_without_a_reader_stops_no_request_of_a_cooperative_process() -> None:
    turns = run_cooperatively(
        """
        import json, logging, os, gevent
        from ussd_server.logs import GatheredLines
        unread, pipe = os.pipe()
        handler = GatheredLines(os.fdopen(pipe, "w"))
        turns = 0
        for _ in range(50):
            for level in (logging.INFO, logging.WARNING):
                handler.handle(logging.LogRecord("x", level, "", 0, "a" * 10_000, None, None))
            gevent.sleep(0.01)
            turns += 1
        print(json.dumps(turns), flush=True)
        os._exit(0)
        """
    )
    assert turns == 50


def test_the_line_of_a_request_has_its_fields_and_is_written_with_the_other_lines() -> None:
    program = """
import logging
from ussd_server.logs import configure_logs, log_call
configure_logs("WARNING")
log_call(endpoint="balances.show", status=200)
configure_logs("INFO")
log_call(endpoint="balances.show", status=201)
logging.getLogger("ussd_server.test").info("end")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    line, end = ran.stderr.splitlines()
    assert json.loads(line) | {"at": ""} == {
        "event": "call", "level": "info", "logger": "ussd_server.calls", "at": "", "endpoint": "balances.show",
        "status": 201,
    }  # fmt: skip
    assert end == "end"
