"""The gunicorn worker: what it leaves to the application."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from ussd_server.server.refusals import WebLog


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
