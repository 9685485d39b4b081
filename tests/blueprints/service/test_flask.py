"""The application is a Flask application: hooks, error handlers, extensions and `url_for` work on every route."""

from __future__ import annotations

import gc
import re
from typing import Any

import pytest
from flask import Flask, Response, g, request, url_for
from flask.testing import FlaskClient
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from werkzeug.exceptions import HTTPException

from tests.support.program import Program
from ussd_server.bootstrap import Services
from ussd_server.status import ServiceError

API, MANAGEMENT, PAGE, DOCUMENT = "/api/balance", "/api/clients/api-keys", "/console/sign-in", "/docs"
UNKNOWN = "/nowhere"
# A variable that takes one of several words: `<any(open,close):action>`.
CHOICE = re.compile(r"<any\(([\w.]+)[^>]*:(\w+)>")
VIEWS = {API: "transactions.get_balance", MANAGEMENT: "clients.list_api_keys", PAGE: "console.show_sign_in"}


class OddError(Exception):
    """An error that the service knows nothing of."""


def test_the_application_is_a_flask_that_replaces_two_of_its_methods(app: Flask) -> None:
    assert type(app).__bases__ == (Flask,)
    own = {name for name in vars(type(app)) if not name.startswith("__")}
    assert own == {"ensure_sync", "create_url_adapter"}


@pytest.mark.parametrize("path", [API, MANAGEMENT, PAGE, DOCUMENT, UNKNOWN])
def test_a_hook_sees_every_request_and_response(app: Flask, path: str) -> None:
    @app.before_request
    def note() -> None:
        g.seen = request.path

    @app.after_request
    def show(response: Response) -> Response:
        response.headers["X-Seen"] = f"{g.seen} {response.status_code}"
        return response

    reply = app.test_client().get(path)
    assert reply.headers["X-Seen"] == f"{path} {reply.status_code}"


@pytest.mark.parametrize("path", [API, MANAGEMENT, PAGE, UNKNOWN])
def test_a_hook_may_answer_instead_of_the_view(app: Flask, path: str) -> None:
    app.before_request(lambda: ("Closed for the night", 418))
    reply = app.test_client().get(path)
    assert (reply.status_code, reply.text) == (418, "Closed for the night")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", [API, MANAGEMENT, PAGE])
def test_an_error_handler_answers_errors_of_every_view(app: Flask, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise OddError

    app.register_error_handler(OddError, lambda _: ("Odd", 409))
    monkeypatch.setitem(app.view_functions, VIEWS[path], fail)
    reply = app.test_client().get(path)
    assert (reply.status_code, reply.text) == (409, "Odd")
    assert reply.headers["X-Request-Id"]


def test_an_error_handler_of_a_status_answers_unknown_paths(app: Flask) -> None:
    app.register_error_handler(404, lambda _: ("Nothing here", 404))
    assert app.test_client().get(UNKNOWN).text == "Nothing here"


def test_a_hook_may_read_a_body_before_its_view(app: Flask, services: Services) -> None:
    read: list[Any] = []
    app.before_request(lambda: read.append(request.get_json()))
    reply = Program(services, app.test_client()).collect("one", "+256770000000", 5000)
    assert (reply.status_code, read[0]["reference"]) == (201, "one")


@pytest.mark.parametrize("path", [API, MANAGEMENT, PAGE, DOCUMENT])
def test_an_extension_works_on_every_route(app: Flask, path: str) -> None:
    Limiter(get_remote_address, app=app, default_limits=["1 per hour"], storage_uri="memory://", headers_enabled=True)
    web = app.test_client()
    assert web.get(path).status_code != 429
    refused = web.get(path)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    if path == PAGE:
        assert "Too many requests" in refused.text
    elif path == MANAGEMENT:
        assert refused.json == {"status": 429, "message": "Too many requests", "data": None}
    else:
        assert (refused.json["error"], refused.json["message"]) == ("RATE_LIMIT_EXCEEDED", "Too many requests")


def test_url_for_leads_to_every_route(app: Flask, web: FlaskClient) -> None:
    rules = list(app.url_map.iter_rules())
    assert len(rules) > 150
    for rule in rules:
        variables = dict.fromkeys(rule.arguments, "x") | {name: word for word, name in CHOICE.findall(rule.rule)}
        with app.test_request_context():
            path = url_for(rule.endpoint, **variables)
        for method in rule.methods or ():
            with web:
                web.open(path, method=method)
                assert (request.endpoint, request.view_args) == (rule.endpoint, variables)


def test_a_refused_call_leaves_no_error_to_the_garbage_collector(services: Services, web: FlaskClient) -> None:
    program = Program(services, web)
    web.get(PAGE)
    gc.collect()
    gc.disable()
    before = _errors()
    try:
        statuses = [
            web.get(API, headers={**program.headers, "x-api-secret": "wrong"}).status_code,
            web.get(API).status_code,
            web.put(API).status_code,
            web.get(UNKNOWN).status_code,
            web.get("//metrics").status_code,
            web.post("/api/transactions", data=b"x" * 70_000).status_code,
            program.post("/api/transactions", {}).status_code,
            web.post(PAGE, data={}).status_code,
        ]
        assert (statuses, _errors()) == ([401, 401, 405, 404, 404, 413, 400, 400], before)
    finally:
        gc.enable()


def _errors() -> list[str]:
    return [repr(each) for each in gc.get_objects() if isinstance(each, ServiceError | HTTPException)]
