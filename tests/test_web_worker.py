"""The gunicorn worker: what it leaves to the application."""

from __future__ import annotations

from datetime import timedelta

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from ussd_server.web_worker import WebLog


def test_gunicorn_puts_no_line_together_for_a_call() -> None:
    config = Config()
    config.set("logconfig_dict", {"version": 1})
    for kind, is_silent in ((Logger, False), (WebLog, True)):
        log = kind.__new__(kind)
        log.cfg = config
        if is_silent:
            log.access(None, None, {}, timedelta())
        else:
            with pytest.raises(AttributeError):
                log.access(None, None, {}, timedelta())
