"""Every error on every path is JSON in the right envelope."""

from __future__ import annotations

from itertools import product

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import EnvironBuilder

from tests.support.program import Program
from tests.support.shop import Shop
from ussd_server.bootstrap import Services


def test_the_callers_request_id_comes_back_and_a_bad_one_is_replaced(web: FlaskClient) -> None:
    assert web.get("/nowhere", headers={"X-Request-Id": "mine-1.a_B"}).headers["X-Request-Id"] == "mine-1.a_B"
    for bad in ("", "a b", "x" * 65, "é"):
        assert web.get("/nowhere", headers={"X-Request-Id": bad}).headers["X-Request-Id"] not in ("", bad)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_that_does_not_begin_with_one_slash_is_a_404_in_the_general_envelope(
    web: FlaskClient, method: str
) -> None:
    paths = ("metrics", "health/live", "api/clients/login", "api/clients/nowhere", "api/balance", "ussd/json/x", "x")
    for slashes, path in product(("//", "///", ""), paths):
        reply = web.open("/", method=method, environ_overrides={"PATH_INFO": slashes + path})
        assert (reply.status_code, reply.json["error"]) == (404, "NOT_FOUND")


def test_an_answer_to_head_has_no_body_whatever_is_wrong(app: Flask) -> None:
    statuses: list[str] = []
    for changes in ({"PATH_INFO": "//metrics"}, {"CONTENT_LENGTH": "70000"}, {"PATH_INFO": "/nowhere"}):
        environ = EnvironBuilder(path="/health/live", method="HEAD").get_environ() | changes
        assert b"".join(app(environ, lambda status, _: statuses.append(status[:3]))) == b""
    assert statuses == ["404", "413", "404"]


def test_no_answer_is_cached_or_taken_for_another_type(services: Services, web: FlaskClient, shop: Shop) -> None:
    answers = [
        web.get(path)
        for path in (
            "/health/live",
            "/health/ready",
            "/metrics",
            "/docs",
            "/openapi.json",
            "/nowhere",
            "//nowhere",
            "/api/balance",
            "/api/clients/nowhere",
        )
    ]
    answers += [
        web.put("/api/webhooks"),
        Program(services, web).post("/api/webhooks", {"url": "https://shop.example.com/hooks"}),
        web.post(shop.channel.gateway_path, data={}),
        web.post("/ussd/json/nobody"),
        web.post("/callbacks/mtn/nobody"),
    ]
    assert [answer.status_code for answer in answers[-5:]] == [405, 201, 200, 404, 404]
    for answer in answers:
        assert answer.headers.getlist("Cache-Control") == ["no-store"]
        assert answer.headers.getlist("X-Content-Type-Options") == ["nosniff"]
