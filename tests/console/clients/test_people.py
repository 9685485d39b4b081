"""The pages of a client's people."""

from __future__ import annotations

import re
from html import unescape

from flask import Flask

from tests.console.clients.test_api_keys import assert_same
from tests.console.conftest import ConsoleVisitor, Visit
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.services.clients.keys.messages import CreateApiKey

MISSING = "019e0000-0000-7000-8000-000000000000"


def test_an_owner_invites_a_person_who_chooses_a_password_and_signs_in(visit: Visit, app: Flask) -> None:
    owner = visit()
    refused = owner.post("/people/invite", email="not an address", role="viewer")
    assert refused.status_code == 400
    assert 'value="not an address"' in refused.text
    page = owner.post("/people/invite", email="ann@acme.example", role="developer").text
    (link,) = re.findall(r'data-copy="http://localhost(/console/welcome/[^"]+)"', page)
    assert "invited" in owner.get("/people").text
    ann = ConsoleVisitor(app.test_client())
    path = unescape(link).removeprefix("/console")
    assert "ann@acme.example" in ann.get(path).text
    assert "differ" in ann.post(path, password=PASSWORD, password_again="other password").text
    assert ann.post(path, password="short", password_again="short").status_code == 400
    assert ann.post(path, password=PASSWORD, password_again=PASSWORD).location == "/console/sign-in"
    assert "Your password is set" in ann.get("/sign-in").text
    assert ann.get(path).status_code == 404
    assert ann.sign_in("ann@acme.example").status_code == 303
    (listed,) = (one for one in owner.get("/people?format=json").json["items"] if one["email"] == "ann@acme.example")
    person = f"/people/{listed['user_id']}"
    assert "127.0.0.1" in owner.get(person).text
    assert owner.post(f"{person}/role", role="viewer").status_code == 303
    assert ann.get("/webhooks/new").status_code == 403
    assert 'data-copy="http' in owner.post(f"{person}/link").text
    assert owner.post(f"{person}/logins/end").status_code == 303
    assert ann.get("/people").status_code == 302
    ann.sign_in("ann@acme.example")
    assert owner.post(f"{person}/disable").status_code == 303
    assert ann.get("/people").status_code == 302
    assert ann.sign_in("ann@acme.example").status_code == 401
    assert owner.post(f"{person}/enable").status_code == 303
    assert ann.sign_in("ann@acme.example").status_code == 303
    trail = {item["action"] for item in owner.get("/audit?format=json").json["items"]}
    actions = ("invited", "password_chosen", "made_viewer", "link_made", "logins_ended", "disabled", "enabled")
    assert [action for action in actions if f"user.{action}" not in trail] == []


def test_a_page_of_a_person_names_the_keys_that_they_may_know_and_leads_to_what_they_did(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    key = services.api_keys.create(CreateApiKey(name="Till 9"), example_client.call("admin"))
    services.api_keys.create(CreateApiKey(name="Till 10"), example_client.call("developer"))
    person = example_client.call("admin").caller.user_id
    page = visit("owner").get(f"/people/{person}").text
    assert f'href="/console/api-keys/{key.id}"' in page
    assert "Till 10" not in page
    assert f'href="/console/audit?person={person}"' in page
    assert "Till 9" not in visit("viewer").get(f"/people/{person}").text


def test_each_role_sees_and_does_what_it_may(visit: Visit, services: Services, example_client: ExampleClient) -> None:
    owner_id = services.clients.find_user(example_client.email(), OPERATOR).user_id
    viewer, admin = visit("viewer"), visit("admin")
    assert example_client.email() in viewer.get("/people").text
    assert "Invite" not in viewer.get("/people").text
    assert viewer.get("/people/invite").status_code == 403
    page = admin.get(f"/people/{owner_id}").text
    assert "Only an owner changes an owner." in page
    assert "Disable the person" not in page
    assert 'value="owner"' not in admin.get("/people/invite").text
    assert admin.post("/people/invite", email="eve@acme.example", role="owner").status_code == 403
    for action in ("role", "disable", "enable", "logins/end", "link"):
        for visitor in (viewer, admin):
            assert visitor.post(f"/people/{owner_id}/{action}", role="viewer").status_code == 403
    owner = visit()
    last = owner.post(f"/people/{owner_id}/role", role="viewer")
    assert (last.status_code, "keeps one active owner" in last.text) == (400, True)
    assert "Disable the person" not in owner.get(f"/people/{owner_id}").text
    other = ExampleClient(services, "other")
    other.email("viewer")
    theirs = services.clients.find_user(other.email("viewer"), OPERATOR).user_id
    assert_same(*(owner.get(f"/people/{one}") for one in (theirs, MISSING)))
    for action in ("role", "disable", "enable", "logins/end", "link"):
        assert_same(*(owner.post(f"/people/{one}/{action}", role="viewer") for one in (theirs, MISSING)))


def test_a_link_says_nothing_when_it_is_forged(app: Flask) -> None:
    stranger = ConsoleVisitor(app.test_client())
    for token in ("x", "ImV2aWwi.forged", "%00"):
        page = stranger.get(f"/welcome/{token}")
        assert (page.status_code, page.mimetype) == (404, "text/html")
