"""Another client's objects are refused like objects that do not exist, on every path and byte for byte."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.faults.seeded_client import SeededClient, example_of
from ussd_server.bootstrap import Services

_MOMENT = re.compile(rb'"timestamp":"[^"]+"')
_UNKNOWN = {"menu_id": "menu-of-nobody", "service_code": "*384*999"}


@pytest.fixture
def mine(services: Services, web: FlaskClient, clock: MovableClock) -> SeededClient:
    return SeededClient(services, web, clock, "mine", "*384*1#")


@pytest.fixture
def theirs(services: Services, web: FlaskClient, clock: MovableClock) -> SeededClient:
    return SeededClient(services, web, clock, "theirs", "*384*2#")


def test_another_clients_thing_answers_to_the_byte_like_one_that_does_not_exist(
    app: Flask, mine: SeededClient, theirs: SeededClient
) -> None:
    asked = 0
    # Saving a menu comes last: with another client's name it creates a menu of the caller's own.
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: "PUT" in rule.methods):
        route = getattr(app.view_functions[rule.endpoint], "route", None)
        if route is None or not rule.arguments:
            continue
        assert rule.arguments <= mine.ids.keys(), f"{rule}: the tenant has nothing of this kind"
        (variable,) = rule.arguments
        if variable == "phone_number":
            # Both clients have the same subscriber, and each its own history with them.
            continue
        body = example_of(rule) if route.body else None
        if body is not None and "menu_id" in body:
            body["menu_id"] = mine.ids["menu_id"]
        for method in rule.methods - {"HEAD"}:
            answers = [
                _bytes(mine.ask(method, rule.rule.replace(f"<{variable}>", name), json=body), name)
                for name in (theirs.ids[variable], _UNKNOWN.get(variable, str(uuid.uuid4())))
            ]
            assert answers[0] == answers[1], rule
            asked += 1
    print(f"leaks over {asked} paths with an id: 0")
    assert asked > 20


@pytest.mark.parametrize(
    ("path", "body", "theirs_is", "nobodys_is"),
    [
        ("/api/clients/api-keys/bulk-delete", {"api_key_ids": ["?"], "atomic": True}, "api_key_id", None),
        ("/api/clients/api-keys/bulk-delete", {"api_key_ids": ["?"]}, "api_key_id", None),
        ("/api/ussd/sessions", {"phone_number": "+256770000000", "service_code": "?#"}, "service_code", "*384*999"),
    ],
)
def test_a_name_in_a_body_reveals_as_little_as_one_in_a_path(
    mine: SeededClient, theirs: SeededClient, path: str, body: dict[str, Any], theirs_is: str, nobodys_is: str | None
) -> None:
    def answer(name: str) -> tuple[int, bytes]:
        filled = {
            key: [name] if value == ["?"] else value.replace("?", name) if isinstance(value, str) else value
            for key, value in body.items()
        }
        return _bytes(mine.ask("POST", path, json=filled), name)

    assert answer(theirs.ids[theirs_is]) == answer(nobodys_is or str(uuid.uuid4()))


def test_binding_a_code_to_another_clients_menu_is_like_binding_it_to_none(
    mine: SeededClient, theirs: SeededClient
) -> None:
    path = f"/api/ussd/codes/{mine.ids['service_code']}"
    answers = {
        _bytes(mine.ask("PUT", path, json={"menu_id": name}), name) for name in (theirs.ids["menu_id"], "nobodys")
    }
    assert len(answers) == 1
    assert {status for status, _ in answers} == {404}


def test_a_list_shows_nothing_of_another_client(mine: SeededClient, theirs: SeededClient) -> None:
    foreign = [value.encode() for name, value in theirs.ids.items() if name not in ("service_code", "phone_number")]
    for path in (
        "/api/transactions", "/data/collection", "/api/ussd/sessions", "/api/ussd/menus", "/api/ussd/codes",
        "/api/webhooks", "/api/events", "/api/clients/api-keys", "/api/clients/audit-events",
        "/api/clients/requests",
    ):  # fmt: skip
        reply = mine.ask("GET", path)
        assert reply.status_code == 200
        assert not [value for value in foreign if value in reply.data], path


def _bytes(reply: TestResponse, name: str) -> tuple[int, bytes]:
    """The reply without the parts that always differ: the time, and the name in the request."""
    return reply.status_code, _MOMENT.sub(b"", reply.data).replace(name.encode(), b"?")
