"""The console while a part of the service is away."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from peewee import OperationalError

from tests.console.conftest import Visit
from ussd_server.bootstrap import Services


def test_a_page_says_with_its_request_id_that_the_database_is_away_or_that_the_fault_is_ours(
    visit: Visit, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = visit()
    for fault, status in ((OperationalError("secret path /var/lib"), 503), (ZeroDivisionError("secret"), 500)):

        def fail(*_: object, fault: Exception = fault) -> None:
            raise fault

        for part, method in (("auth", "authenticate_login"), ("key_reader", "list")):
            with monkeypatch.context() as patch:
                patch.setattr(type(getattr(services, part)), method, fail)
                page = visitor.get("/api-keys", headers={"X-Request-Id": "seen-by-support"})
            assert (page.status_code, page.mimetype) == (status, "text/html")
            assert "seen-by-support" in page.text
            assert "secret" not in page.text
            assert page.headers["Content-Security-Policy"].startswith("default-src 'self'")
            assert page.headers["Cache-Control"] == "no-store"
    assert visitor.get("/api-keys").status_code == 200


def test_pages_work_on_and_say_that_redis_is_away(
    visit: Visit, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = visit()
    assert "Redis is away." not in visitor.get("/api-keys").text
    monkeypatch.setattr(type(services.limiter), "is_away", lambda _: True)
    page = visitor.get("/api-keys")
    assert page.status_code == 200
    assert "Redis is away." in page.text


def test_api_errors_stay_json(visit: Visit) -> None:
    visitor = visit()
    for path in ("/nowhere", "/consolex", "//console", "/api/console"):
        assert visitor.web.get(path).mimetype == "application/json", path


def test_a_style_sheet_is_sent_to_a_live_part_too(app: Flask) -> None:
    web = app.test_client()
    found = re.search(r'href="(/console/static/[^"]+\.css)"', web.get("/console/sign-in").text)
    assert found
    with web.get(found[1], headers={"X-Console-Poll": "x"}) as reply:
        assert (reply.status_code, reply.mimetype) == (200, "text/css")
