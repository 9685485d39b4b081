"""The gunicorn worker: what it leaves to the application."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from gevent import get_hub
from gevent.socket import socketpair
from gunicorn import util
from gunicorn.config import Config
from gunicorn.glogging import Logger

from tests.support.cooperative import run_cooperatively
from ussd_server.server.caller_turns import CallerTurns
from ussd_server.server.connection import ClientConnection
from ussd_server.server.gevent_worker import WebLog, write_each_date_once


@pytest.mark.parametrize(("kind", "lines"), [(Logger, 1), (WebLog, 0)])
def test_gunicorn_writes_no_line_for_a_call(kind: type[Logger], lines: int, tmp_path: Path) -> None:
    config = Config()
    config.set("accesslog", str(tmp_path / "calls"))
    log = kind(config)
    response, request = SimpleNamespace(status="200 OK", headers=[], sent=0), SimpleNamespace(headers=[])
    environ = {"REQUEST_METHOD": "GET", "RAW_URI": "/", "SERVER_PROTOCOL": "HTTP/1.1"}
    try:
        log.access(response, request, environ, timedelta())
    finally:
        for each in (log.access_log, log.error_log):
            for handler in list(each.handlers):
                each.removeHandler(handler)
                handler.close()
    assert len((tmp_path / "calls").read_text().splitlines()) == lines


def test_each_response_has_the_date_of_its_second(monkeypatch: pytest.MonkeyPatch) -> None:
    gunicorns = util.http_date
    monkeypatch.setattr(util, "http_date", gunicorns)
    write_each_date_once()
    for second in (0.0, 0.9, 1.0, 86_400.5):
        monkeypatch.setattr(time, "time", lambda now=second: now)
        assert util.http_date() == gunicorns(second)


def test_a_short_response_is_sent_in_one_piece_and_a_long_one_while_it_is_made() -> None:
    ours, theirs = socketpair()
    theirs.settimeout(0)
    connection = ClientConnection(ours, CallerTurns(get_hub().loop), "192.0.2.1")
    connection.sendall(b"head")
    connection.sendall(b"a" * 1000)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    connection.sendall(b"b" * 64 * 1024)
    received = b""
    while len(received) < 4 + 1000 + 64 * 1024:
        received += theirs.recv(65_536)
    connection.sendall(b"end")
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    connection.send_response()
    assert (theirs.recv(100), connection.is_idle) == (b"end", True)
    theirs.close()
    connection.close()


def test_each_part_of_a_body_in_chunks_waits_for_a_turn_of_its_caller() -> None:
    callers: list[str] = []
    ours, theirs = socketpair()
    connection = ClientConnection(ours, SimpleNamespace(wait=callers.append), "192.0.2.1")
    connection.begin_request(0)
    connection.wait_for_turn("2001:db8::/64")
    theirs.sendall(b"1\r\na\r\n" * 1000)
    assert len(connection.recv(8192) + connection.recv(8192)) == 2 * 2048
    assert callers == ["2001:db8::/64"] * 3
    theirs.close()
    connection.close()


@pytest.mark.parametrize(("is_proxied", "before", "after"), [(False, 2, 3), (True, 0, 1)])
def test_each_part_of_a_request_waits_for_a_turn_and_behind_a_proxy_each_request(
    is_proxied: bool, before: int, after: int
) -> None:
    callers: list[str] = []
    ours, theirs = socketpair()
    connection = ClientConnection(ours, SimpleNamespace(wait=callers.append), "192.0.2.1", is_proxied=is_proxied)
    for part in (b"POST / HTTP/1.1\r\n", b"Content-Length: 1\r\n\r\n"):
        theirs.sendall(part)
        assert connection.recv(8192) == part
    assert len(callers) == before
    connection.begin_request(1)
    connection.wait_for_turn("192.0.2.1")
    theirs.sendall(b"1")
    assert connection.recv(8192) == b"1"
    assert callers == ["192.0.2.1"] * after
    theirs.close()
    connection.close()


def test_the_main_process_imports_no_flask_so_that_a_reload_serves_an_upgraded_one() -> None:
    look = "import sys, ussd_server.server.gevent_worker; print({'flask', 'werkzeug'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", look], text=True) == "set()\n"


_FIRST_REPLIES = """
import json, os, time
from pathlib import Path
Path(os.environ["USSD_DATA_DIR"], "metrics").mkdir()
from ussd_server.server.gunicorn_settings import make_first_replies
import wsgi

make_first_replies(wsgi.app)
took = {}
for page in ("/openapi.json", "/console/sign-in", "/console/operator/sign-in"):
    began = time.thread_time()
    assert wsgi.app.test_client().get(page).status_code == 200
    took[page] = round((time.thread_time() - began) * 1000)
wsgi.services.close()
print(json.dumps(took))
"""


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_reply_of_a_new_process_takes_long(database_url: str, redis_url: str, tmp_path: Path) -> None:
    took = run_cooperatively(
        _FIRST_REPLIES,
        USSD_DATABASE_URL=database_url,
        USSD_REDIS_URL=redis_url,
        USSD_DATA_DIR=str(tmp_path),
        USSD_LOG_LEVEL="ERROR",
    )
    assert max(took.values()) < 30, took
