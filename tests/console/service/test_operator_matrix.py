"""Every page and form of operators serves operators who signed in from their networks, and nobody else.

The paths are read from the application, so that a new one without protection fails here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask

from tests.blueprints.clients.test_permissions import filled
from tests.console.conftest import ConsoleVisitor, Operators, Visit
from tests.support.example_client import PASSWORD
from ussd_server.api.endpoints import template_of

# Who may do what is decided by the program, so that one database is enough.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

AREA = "/console/operator"
ELSEWHERE = {"REMOTE_ADDR": "203.0.113.9"}
TO_SIGN_IN = "/console/operator/sign-in?next="
PUBLIC = {
    "/console/",
    "/console/forgotten-password",
    "/console/language",
    "/console/operator/sign-in",
    "/console/sign-in",
    "/console/static/{version}/{name}",
    "/console/welcome/{token}",
}


def console_rules(app: Flask) -> Iterator[tuple[str, str, str]]:
    """Method and path of each rule of the console, with the first of several words, and whom it serves."""
    for rule in app.url_map.iter_rules():
        if rule.rule == "/console" or rule.rule.startswith("/console/"):
            who = getattr(app.view_functions[rule.endpoint], "who", "public")
            for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
                yield method, template_of(re.sub(r"<any\(([\w.]+)[^>]*>", r"\1", rule.rule)), who


@pytest.fixture
def paths(app: Flask) -> list[tuple[str, str]]:
    """Method and path below `/console` of each page and form of operators, with ids that no object has."""
    found = sorted(
        (method, filled(path).removeprefix("/console"))
        for method, path, _ in console_rules(app)
        if is_of_operators(path)
    )
    assert len(found) > 60
    return found


def is_of_operators(path: str) -> bool:
    return path not in PUBLIC and (path == AREA or path.startswith(f"{AREA}/"))


def open_page(visitor: ConsoleVisitor, method: str, path: str, token: str = "", **options: Any) -> tuple[int, str]:
    """The status and the address to which the answer leads. Forms hold nothing but their token."""
    data = {"csrf_token": token} if method == "POST" else None
    reply = visitor.web.open(f"/console{path}", method=method, data=data, **options)
    reply.close()
    return reply.status_code, reply.location or ""


def test_each_page_of_the_console_serves_the_people_of_its_area(app: Flask) -> None:
    for method, path, who in console_rules(app):
        assert (who == "public") is (path in PUBLIC), f"{method} {path}: is public and not in PUBLIC, or the reverse"
        assert (who == "operator") is is_of_operators(path), f"{method} {path}: who='operator' goes with /operator/"


def test_without_a_login_every_page_leads_to_the_sign_in_and_every_form_is_refused(
    app: Flask, paths: list[tuple[str, str]]
) -> None:
    nobody = ConsoleVisitor(app.test_client())
    nobody.get("/operator/sign-in")
    for method, path in paths:
        status, location = open_page(nobody, method, path, nobody.token)
        leads_there = (status, location[: len(TO_SIGN_IN)]) == (302, TO_SIGN_IN)
        assert leads_there if method == "GET" else status == 401, f"{method} {path}"


def test_a_password_without_the_second_factor_opens_no_page(
    app: Flask, operator: Operators, paths: list[tuple[str, str]]
) -> None:
    operator("ann")
    half = ConsoleVisitor(app.test_client())
    for code in ("", "000000"):
        half.get("/operator/sign-in")
        assert half.post("/operator/sign-in", email="ann@ops.example", password=PASSWORD, code=code).status_code == 401
    for method, path in paths:
        assert open_page(half, method, path, half.token)[0] == (302 if method == "GET" else 401), f"{method} {path}"


@pytest.mark.parametrize("role", ["owner", "viewer"])
def test_a_clients_person_finds_no_page_of_operators(visit: Visit, role: str, paths: list[tuple[str, str]]) -> None:
    person = visit(role)
    for method, path in paths:
        assert open_page(person, method, path, person.token)[0] == 404, f"{method} {path}"


def test_from_another_network_no_page_is_found(operator: Operators, paths: list[tuple[str, str]]) -> None:
    ann = operator("ann")
    for method, path in [*paths, ("GET", "/operator/sign-in"), ("POST", "/operator/sign-in")]:
        status, _ = open_page(ann, method, path, ann.token, environ_base=ELSEWHERE)
        assert status == 404, f"{method} {path}"


@pytest.mark.parametrize("token", ["", "forged", "of another operator"])
def test_a_form_with_a_token_that_is_not_its_own_changes_nothing(
    operator: Operators, token: str, paths: list[tuple[str, str]]
) -> None:
    ann, bob = operator("ann"), operator("bob")
    given = bob.token if token == "of another operator" else token
    for method, path in paths:
        if method == "POST":
            assert open_page(ann, method, path, given)[0] == 403, path


def test_an_operator_is_served_on_every_page_and_form(operator: Operators, paths: list[tuple[str, str]]) -> None:
    ann = operator("ann")
    for method, path in paths:
        status, location = open_page(ann, method, path, ann.token)
        assert status in (200, 302, 303, 400, 404), f"{method} {path}"
        assert "sign-in" not in location, f"{method} {path}"
        if "0190d7a5" not in path:
            assert status == 200 or (method == "POST" and status in (303, 400)), f"{method} {path}"
