"""The gunicorn worker: what it leaves to the application."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from gevent.socket import socketpair
from gunicorn import util
from gunicorn.config import Config
from gunicorn.glogging import Logger

from tests.support.cooperative import run_cooperatively
from ussd_server.server.connection import ClientConnection
from ussd_server.server.gevent_worker import Replacement, WebLog, _quicken_gunicorn


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
    _quicken_gunicorn(Config())
    for second in (0.0, 0.9, 1.0, 86_400.5):
        monkeypatch.setattr(time, "time", lambda now=second: now)
        assert util.http_date() == gunicorns(second)


def test_a_short_response_is_sent_in_one_piece_and_a_long_one_while_it_is_made() -> None:
    ours, theirs = socketpair()
    theirs.settimeout(0)
    connection = ClientConnection(ours)
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


def test_a_process_that_is_replaced_is_awaited_until_a_later_one_accepts_connections() -> None:
    replacement = Replacement()
    for number in (1, 2):
        replacement.accept(number)
    assert not replacement.is_awaited(2), "nobody asked for a reload"
    replacement.begin(2)
    assert [replacement.is_awaited(number) for number in (1, 2, 3)] == [True, True, False]
    replacement.accept(4)
    assert not replacement.is_awaited(1)


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
