"""Signing in to the console, and what ends it."""

from __future__ import annotations

import re
from html import unescape
from io import BytesIO

import pytest
from flask import Flask

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Visit
from tests.support.example_client import PASSWORD, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent, User


@pytest.fixture
def stranger(app: Flask) -> ConsoleVisitor:
    return ConsoleVisitor(app.test_client())


def test_a_person_signs_in_goes_where_they_wanted_and_signs_out(
    stranger: ConsoleVisitor, example_client: ExampleClient
) -> None:
    asked = stranger.get("/api-keys?state=active")
    assert asked.status_code == 302
    assert asked.location == "/console/sign-in?next=/console/api-keys?state%3Dactive"
    page = stranger.get(asked.location.removeprefix("/console"))
    assert 'value="/console/api-keys?state=active"' in page.text
    refused = stranger.sign_in(example_client.email(), "wrong password 1")
    assert refused.status_code == 401
    assert "Invalid credentials" in refused.text
    admitted = stranger.sign_in(example_client.email(), next="/console/api-keys?state=active")
    assert (admitted.status_code, admitted.location) == (303, "/console/api-keys?state=active")
    cookie = admitted.headers["Set-Cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Lax", "Path=/console"))
    assert "Secure" not in cookie
    shown = stranger.get("/api-keys")
    assert shown.status_code == 200
    assert example_client.email() in shown.text
    headers = shown.headers
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "form-action 'self'" in headers["Content-Security-Policy"]
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
    assert headers["Referrer-Policy"] == "same-origin"
    assert stranger.post("/sign-out").location == "/console/sign-in"
    assert stranger.get("/api-keys").status_code == 302
    actions = [event.action for event in AuditEvent.select().order_by(AuditEvent.id)]
    assert actions[-3:] == ["login.failed", "login.succeeded", "login.ended"]


def test_the_cookie_travels_by_tls_only_where_the_page_did(app: Flask, example_client: ExampleClient) -> None:
    web = app.test_client()
    page = web.get("/console/sign-in", base_url="https://pay.example")
    assert "Secure" in page.headers["Set-Cookie"]


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/console//evil.example",
        "/consolex",
        "/api/clients/login",
        "javascript:x",
    ],
)
def test_sign_in_leads_to_own_pages_only(
    stranger: ConsoleVisitor, example_client: ExampleClient, elsewhere: str
) -> None:
    assert stranger.sign_in(example_client.email(), next=elsewhere).location == "/console"


def test_guesses_are_limited_as_they_are_for_the_api(stranger: ConsoleVisitor, example_client: ExampleClient) -> None:
    for _ in range(10):
        assert stranger.sign_in(example_client.email(), "wrong password 1").status_code == 401
    refused = stranger.sign_in(example_client.email())
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0


def test_a_login_that_ends_ends_at_once_in_every_browser(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    here, there = visit("owner"), visit("owner")
    assert there.get("/api-keys").status_code == 200
    here.post("/sign-out", everywhere="1")
    assert there.get("/api-keys").status_code == 302
    again = visit("owner")
    services.logins.end(True, example_client.call())
    assert again.get("").status_code == 302


def test_a_lowered_role_and_a_disabled_person_take_effect_with_the_next_request(visit: Visit) -> None:
    visitor = visit("owner")
    assert 'href="/console/api-keys/new"' in visitor.get("/api-keys").text
    User.update(role="viewer").execute()
    assert 'href="/console/api-keys/new"' not in visitor.get("/api-keys").text
    refused = visitor.post("/api-keys/new", access="all")
    assert refused.status_code == 403
    assert refused.mimetype == "text/html"
    assert refused.headers["X-Request-Id"] in refused.text
    User.update(is_active=False).execute()
    assert visitor.get("/api-keys").status_code == 302


def test_doing_nothing_ends_the_session_and_a_polling_page_counts_as_nothing(visit: Visit, clock: MovableClock) -> None:
    visitor = visit()
    for _ in range(3):
        clock.advance(1000)
        assert visitor.get("/api-keys").status_code == 200
    for _ in range(3):
        clock.advance(599)
        assert visitor.get("/api-keys", headers={"X-Console-Poll": "new", "HX-Request": "true"}).status_code == 200
    clock.advance(10)
    polled = visitor.get("/api-keys", headers={"X-Console-Poll": "new", "HX-Request": "true"})
    assert (polled.status_code, polled.headers["HX-Refresh"]) == (401, "true")


def test_a_form_sent_after_the_session_ended_goes_on_after_signing_in(
    visit: Visit, clock: MovableClock, example_client: ExampleClient
) -> None:
    visitor = visit()
    visitor.get("/api-keys/new")
    clock.advance(3600)
    asked = visitor.post("/api-keys/new", access="some", scopes="ussd:read", a_password="never kept 1")
    assert asked.status_code == 401
    kept = unescape(re.search(r'name="kept" value="([^"]+)"', asked.text)[1])  # type: ignore[index]
    assert "never kept" not in asked.text
    offered = visitor.post("/sign-in", email=example_client.email(), password=PASSWORD, kept=kept)
    assert offered.status_code == 200
    assert 'action="/console/api-keys/new"' in offered.text
    assert 'name="scopes" value="ussd:read"' in offered.text
    assert "never kept" not in offered.text
    assert visitor.post("/api-keys/new", access="some", scopes="ussd:read").status_code == 303
    # Another person does not send it.
    clock.advance(3600)
    other = visitor.post("/sign-in", email=example_client.email("admin"), password=PASSWORD, kept=kept)
    assert other.status_code == 303


OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


@pytest.mark.parametrize("headers", [OWN_PAGE, {"Origin": "http://localhost"}])
def test_a_form_whose_cookie_is_gone_goes_on_after_signing_in_in_the_same_browser_only(
    visit: Visit, stranger: ConsoleVisitor, example_client: ExampleClient, headers: dict[str, str]
) -> None:
    visitor = visit()
    visitor.web.delete_cookie("console", path="/console")
    asked = visitor.web.post("/console/api-keys/new", data={"access": "some", "scopes": "ussd:read"}, headers=headers)
    assert "your form goes on where you left it" in visitor.seen(asked).text
    kept = unescape(re.search(r'name="kept" value="([^"]+)"', asked.text)[1])  # type: ignore[index]
    offered = visitor.post("/sign-in", email=example_client.email(), password=PASSWORD, kept=kept)
    assert 'name="scopes" value="ussd:read"' in offered.text
    assert visitor.post("/api-keys/new", access="some", scopes="ussd:read").status_code == 303
    stranger.get("/sign-in")
    elsewhere = stranger.post("/sign-in", email=example_client.email(), password=PASSWORD, kept=kept)
    assert elsewhere.status_code == 303


def test_forms_without_the_token_of_this_session_change_nothing(visit: Visit, app: Flask) -> None:
    visitor, other = visit(), visit("admin")
    assert other.get("/api-keys/new").status_code == 200
    for token in ("", "forged", other.token):
        refused = visitor.web.post("/console/api-keys/new", data={"csrf_token": token, "access": "all"})
        assert refused.status_code == 403
        assert refused.mimetype == "text/html"
    assert "No API key yet" in visitor.get("/api-keys").text
    # A form of another site comes without the cookie, so it is not kept.
    for headers in (
        {},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
        {"Origin": "https://evil.example"},
    ):
        foreign = app.test_client().post("/console/api-keys/new", data={"access": "all"}, headers=headers)
        assert foreign.status_code == 401
        assert 'name="kept"' not in foreign.text
        assert "Your form was not sent: sign in and fill it in again." in foreign.text


def test_a_sign_in_form_whose_cookie_is_gone_is_shown_afresh(
    stranger: ConsoleVisitor, example_client: ExampleClient
) -> None:
    email, password = example_client.email(), PASSWORD
    for path in ("/sign-in", "/operator/sign-in"):
        stranger.get(path)
        stranger.web.delete_cookie("console", path="/console")
        again = stranger.post(path, email=email, password=password, code="000000", next="/console/audit")
        assert again.status_code == 400
        assert "This form was too old" in again.text
        assert f'value="{email}"' in again.text
        assert password not in again.text
        assert "Set-Cookie" in again.headers
    stranger.get("/sign-in")
    stranger.web.delete_cookie("console", path="/console")
    stranger.post("/sign-in", email=email, password=password, next="/console/audit")
    assert stranger.post("/sign-in", email=email, password=password).status_code == 303
    elsewhere = stranger.web.post(
        "/console/operator/sign-in", data={"email": email}, environ_base={"REMOTE_ADDR": "203.0.113.9"}
    )
    assert elsewhere.status_code == 404


def test_unknown_pages_and_large_bodies_are_refused_as_pages(visit: Visit) -> None:
    visitor = visit()
    for path in ("/nowhere", "/api-keys/nowhere", "/api-keys/019e0000-0000-7000-8000-000000000000"):
        missing = visitor.get(path)
        assert (missing.status_code, missing.mimetype) == (404, "text/html")
        assert missing.headers["X-Request-Id"] in missing.text
    large = visitor.post("/api-keys/new", access="x" * 70_000)
    assert (large.status_code, large.mimetype) == (413, "text/html")


def test_a_nul_character_is_refused_in_every_query_and_form(stranger: ConsoleVisitor, visit: Visit) -> None:
    assert stranger.sign_in("o\0@acme.example").status_code == 400
    owner = visit()
    for path in ("/transactions?reference=%00a", "/transactions?%00=1", "/statements?account=%00", "/search?q=a%00bc"):
        assert (owner.get(path).status_code, path) == (400, path)
    assert owner.get("/payouts/new").status_code == 200
    assert owner.post("/payouts/new", reference="a", file=(BytesIO(b"x"), "a\0.csv")).status_code == 400
