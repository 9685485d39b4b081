"""A payout takes two people: a person with more keys, links or roles is still one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.console.conftest import ConsoleVisitor
from tests.support.example_client import PASSWORD, ExampleClient
from tests.support.money import deposit
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.clients.messages import CreateUser

BODY = {"reference": "P1", "items": [{"phone_number": "+256770000000", "amount": 500, "reference": "a"}]}
APPROVE = "payouts:approve payouts:read"
KEYS = "/api/clients/api-keys"
_LINK = re.compile(r"/console(/welcome/[A-Za-z0-9._~=-]+)")


def refusal_of(status: int, message: str) -> dict[str, Any]:
    return {"status": status, "message": message, "data": None}


@dataclass
class Desk:
    """A client's people and keys, over HTTP."""

    app: Flask
    services: Services
    client: ExampleClient

    @property
    def web(self) -> FlaskClient:
        return self.app.test_client()

    def add(self, name: str, role: str = "admin") -> None:
        """The operator makes a person."""
        request = CreateUser(self.client.id, f"{name}@two.example", role, PASSWORD)
        self.services.clients.create_user(request, operator_context())

    def visit(self, name: str) -> ConsoleVisitor:
        visitor = ConsoleVisitor(self.app.test_client())
        assert visitor.sign_in(f"{name}@two.example").status_code == 303
        return visitor

    def id_of(self, name: str) -> str:
        return self.services.clients.find_user(f"{name}@two.example", operator_context()).user_id

    def invite(self, inviter: str, name: str, role: str = "admin") -> None:
        """A person invites another and opens the link alone."""
        visitor = self.visit(inviter)
        visitor.get("/people/invite")
        self._choose(visitor.post("/people/invite", email=f"{name}@two.example", role=role).text)

    def new_link(self, maker: str, name: str) -> None:
        """A person makes a link for another and opens it alone."""
        visitor = self.visit(maker)
        visitor.get(f"/people/{self.id_of(name)}")
        self._choose(visitor.post(f"/people/{self.id_of(name)}/link").text)

    def _choose(self, page: str) -> None:
        found = _LINK.search(page)
        assert found, page
        visitor = ConsoleVisitor(self.app.test_client())
        visitor.get(found[1])
        assert visitor.post(found[1], password=PASSWORD, password_again=PASSWORD).status_code == 303

    def headers(self, name: str) -> dict[str, str]:
        login = {"email": f"{name}@two.example", "password": PASSWORD}
        token = self.web.post("/api/clients/login", json=login).json["data"]["access_token"]
        return {"Authorization": f"Bearer {token}"}

    def key_of(self, name: str, scopes: str | None = APPROVE) -> dict[str, Any]:
        reply = self.web.post(KEYS, json={"scopes": scopes}, headers=self.headers(name))
        assert reply.status_code == 201, reply.json
        return reply.json["data"]

    def operators_key(self, scopes: str | None = None) -> dict[str, Any]:
        request = CreateApiKey(scopes and tuple(scopes.split()))
        key = self.services.api_keys.create(request, operator_context(self.client.id))
        return {"id": key.id, "apikey": key.apikey, "apisecret": key.apisecret}

    def rotate(self, name: str, key: dict[str, Any], grace: int = 0) -> dict[str, Any]:
        body = {"grace_period_seconds": grace}
        reply = self.web.post(f"{KEYS}/{key['id']}/rotate", json=body, headers=self.headers(name))
        assert reply.status_code == 200, reply.json
        return reply.json["data"]

    def draft(self, who: str | dict[str, Any], reference: str = "P1") -> str:
        return str(self._post("", who, BODY | {"reference": reference}, 201)["payout_id"])

    def approve(self, who: str | dict[str, Any], payout_id: str) -> bool:
        """Whether the approval is accepted; a refusal has the words of the contract."""
        reply = self._send(f"/{payout_id}/approve", who, {})
        if reply.status_code == 403 and isinstance(who, str):
            assert reply.json == refusal_of(403, "Insufficient permissions")
        elif reply.status_code == 403:
            assert reply.json["error"] == "INSUFFICIENT_SCOPE"
        else:
            assert reply.status_code == 200, reply.json
        return bool(reply.status_code == 200)

    def _post(self, path: str, who: str | dict[str, Any], body: Any, status: int) -> Any:
        reply = self._send(path, who, body)
        assert reply.status_code == status, reply.json
        return reply.json["data"]

    def _send(self, path: str, who: str | dict[str, Any], body: Any) -> Any:
        if isinstance(who, str):
            return self.web.post(f"/api/clients/payouts{path}", json=body, headers=self.headers(who))
        headers = {"x-api-key": who["apikey"], "x-api-secret": who["apisecret"]}
        return self.web.post(f"/api/payouts{path}", json=body, headers=headers)


@pytest.fixture
def desk(app: Flask, services: Services) -> Desk:
    desk = Desk(app, services, ExampleClient(services))
    deposit(services, operator_context(desk.client.id), 100_000)
    desk.add("ann", "owner")
    desk.add("bob")
    return desk


def test_keys_of_one_person_are_one_person(desk: Desk) -> None:
    maker, approver = desk.key_of("ann", None), desk.key_of("ann")
    payout = desk.draft(maker)
    assert not desk.approve(approver, payout)
    assert not desk.approve("ann", payout)
    assert not desk.approve(maker, payout), "a key of scopes null approves nothing"
    assert desk.approve(desk.key_of("bob"), payout)
    own = desk.draft("ann", "P2")
    assert not desk.approve(approver, own)
    assert desk.approve("bob", own)


def test_two_keys_of_the_operator_make_and_approve(desk: Desk) -> None:
    maker, approver = desk.operators_key("payouts:*"), desk.operators_key(APPROVE)
    payout = desk.draft(maker)
    assert not desk.approve(maker, payout)
    assert not desk.approve(desk.operators_key(), payout)
    assert desk.approve(approver, payout)


def test_behind_a_key_stands_who_rotated_it_last_and_behind_a_payout_who_stood_there_then(desk: Desk) -> None:
    key = desk.key_of("ann", "payouts:*")
    payout = desk.draft(key)
    rotated = desk.rotate("bob", key)
    assert not desk.approve("ann", payout)
    assert not desk.approve(rotated, desk.draft("bob", "P2"))
    assert not desk.approve("bob", desk.draft(rotated, "P3"))
    assert desk.approve("bob", payout)
    operators = desk.operators_key(APPROVE)
    assert not desk.approve(desk.rotate("ann", operators), desk.draft("ann", "P4"))


def test_the_old_secret_of_a_rotated_key_is_still_its_makers(desk: Desk) -> None:
    key = desk.key_of("ann")
    rotated = desk.rotate("bob", key, grace=3600)
    payout = desk.draft("ann")
    assert not desk.approve(key, payout)
    assert desk.approve(rotated, payout)


def test_a_person_who_read_the_secret_of_a_key_is_behind_it(desk: Desk) -> None:
    maker, approver = desk.operators_key("payouts:*"), desk.operators_key(APPROVE)
    made_before = desk.draft(maker, "P1")
    desk.web.get(KEYS, headers=desk.headers("bob"))
    assert desk.approve("bob", made_before), "nobody had read the secret when the key made this payout"
    payout = desk.draft(maker, "P2")
    assert not desk.approve("bob", payout)
    assert not desk.approve(approver, payout), "both secrets were read by one person"
    assert not desk.approve(approver, desk.draft("bob", "P3"))
    assert desk.approve("ann", payout)
    assert desk.approve(approver, desk.draft("ann", "P4"))


def test_a_revealed_secret_counts_its_reader_until_the_key_is_rotated(desk: Desk) -> None:
    key = desk.operators_key("payouts:*")
    visitor = desk.visit("bob")
    visitor.get(f"/api-keys/{key['id']}")
    assert key["apisecret"] in visitor.post(f"/api-keys/{key['id']}/reveal").text
    assert not desk.approve("bob", desk.draft(key, "P1"))
    assert desk.approve("bob", desk.draft(desk.rotate("ann", key), "P2"))


def test_where_readers_do_not_count_only_who_made_or_rotated_a_key_is_behind_it(desk: Desk) -> None:
    desk.services.clients.count_readers(desk.client.id, False, operator_context())
    maker = desk.operators_key("payouts:*")
    desk.web.get(KEYS, headers=desk.headers("bob"))
    assert desk.approve("bob", desk.draft(maker))


def test_who_has_read_already_is_free_while_readers_do_not_count(desk: Desk) -> None:
    maker = desk.operators_key("payouts:*")
    desk.web.get(KEYS, headers=desk.headers("bob"))
    assert not desk.approve("bob", desk.draft(maker, "P1"))
    desk.services.clients.count_readers(desk.client.id, False, operator_context())
    assert desk.approve("bob", desk.draft(maker, "P2"))
    rotated = desk.rotate("ann", maker, 3600)
    assert desk.approve("bob", desk.draft(maker, "P3")), "with the secret of before"
    desk.web.get(KEYS, headers=desk.headers("bob"))
    desk.services.clients.count_readers(desk.client.id, True, operator_context())
    assert not desk.approve("bob", desk.draft(rotated, "P4")), "who read meanwhile counts again"


def test_a_secret_that_a_list_hides_counts_no_reader(desk: Desk) -> None:
    desk.add("dev", "developer")
    approver = desk.key_of("bob")
    desk.web.get(KEYS, headers=desk.headers("dev"))
    assert desk.approve(approver, desk.draft("dev"))


def test_a_person_who_saw_the_link_of_a_password_counts_as_its_owner(desk: Desk) -> None:
    desk.invite("ann", "second")
    assert not desk.approve("second", desk.draft("ann", "P1"))
    assert not desk.approve("ann", desk.draft("second", "P2"))
    assert not desk.approve(desk.key_of("second"), desk.draft(desk.key_of("ann", None), "P3"))
    desk.invite("second", "third")
    assert not desk.approve("third", desk.draft("ann", "P4"))
    desk.invite("ann", "fourth")
    assert not desk.approve("fourth", desk.draft("third", "P5")), "both links were shown to one person"
    assert desk.approve("bob", desk.draft("third", "P6"))
    desk.new_link("ann", "bob")
    assert not desk.approve("bob", desk.draft("ann", "P7"))
    # A link that a person made for themselves does not change who counts as one person with them.
    desk.new_link("bob", "bob")
    assert not desk.approve("bob", desk.draft("ann", "P8"))


def test_a_confirmation_makes_a_second_person_but_not_of_older_keys_and_payouts(desk: Desk) -> None:
    desk.invite("ann", "second")
    payout, key = desk.draft("second", "P1"), desk.key_of("second")
    desk.services.clients.change_password("second@two.example", PASSWORD, operator_context())
    assert not desk.approve("second", desk.draft("ann", "P0")), "a password says nothing about who invited them"
    page = f"/people/{desk.id_of('second')}"
    inviter, another = desk.visit("ann"), desk.visit("bob")
    assert "Confirm the person" not in inviter.get(page).text
    assert inviter.post(f"{page}/confirm").status_code == 403
    assert "to be confirmed by another person" in another.get("").text
    assert "Confirm the person" in another.get(page).text
    assert another.post(f"{page}/confirm").status_code == 303
    assert desk.approve("second", desk.draft("ann", "P2"))
    assert not desk.approve("ann", payout)
    assert not desk.approve(key, desk.draft("ann", "P3"))
    assert desk.approve(desk.rotate("second", key), desk.draft("ann", "P4"))


def test_two_people_who_made_links_for_each_other_are_one(desk: Desk) -> None:
    desk.add("cid", "owner")
    desk.new_link("ann", "cid")
    desk.new_link("cid", "ann")
    assert not desk.approve("cid", desk.draft("ann"))


def test_roles_and_disabling_change_no_person(desk: Desk) -> None:
    desk.invite("ann", "second", "viewer")
    visitor = desk.visit("ann")
    page = f"/people/{desk.id_of('second')}"
    visitor.get(page)
    for act, fields in (("role", {"role": "owner"}), ("disable", {}), ("enable", {})):
        assert visitor.post(f"{page}/{act}", **fields).status_code == 303
        visitor.get(page)
    assert not desk.approve("second", desk.draft("ann"))


def test_the_console_says_who_counts_as_one_person_and_who_may_not_approve(desk: Desk) -> None:
    desk.invite("ann", "second")
    payout = desk.draft("ann")
    for name, is_another in (("ann", False), ("second", False), ("bob", True)):
        page = desk.visit(name).get(f"/payouts/{payout}").text
        assert ("Approve and send" in page) == is_another
        assert ("You cannot approve this payout" in page) == (name == "second")
        assert ("you, who made it, may not" in page) == (name == "ann")
        assert f"{'You' if name == 'bob' else 'bob@two.example'} may approve it" in page
    person = desk.visit("bob").get(f"/people/{desk.id_of('second')}").text
    assert "One person with ann@two.example" in person
    assert "A person of their own" in desk.visit("bob").get(f"/people/{desk.id_of('bob')}").text


def test_a_developer_gives_a_key_everything_but_approval_and_never_sees_a_secret_that_approves(desk: Desk) -> None:
    desk.add("dev", "developer")
    headers, web = desk.headers("dev"), desk.web
    refusal = refusal_of(403, "Insufficient permissions")
    for scopes in ("payouts:approve", "payouts:*", ["balance:read", "payouts:approve"]):
        reply = web.post(KEYS, json={"scopes": scopes}, headers=headers)
        assert (reply.status_code, reply.json) == (403, refusal)
    plain, approves = desk.key_of("dev", None), desk.key_of("ann")
    reply = web.post(f"{KEYS}/{approves['id']}/rotate", json={}, headers=headers)
    assert (reply.status_code, reply.json) == (403, refusal)
    seen = {key["id"]: key["apisecret"] for key in web.get(KEYS, headers=headers).json["data"]}
    assert (seen[plain["id"]], seen[approves["id"]]) == (plain["apisecret"], "********")
    seen = {key["id"]: key["apisecret"] for key in web.get(KEYS, headers=desk.headers("bob")).json["data"]}
    assert seen[approves["id"]] == approves["apisecret"]
    visitor = desk.visit("dev")
    visitor.get(f"/api-keys/{approves['id']}")
    assert visitor.post(f"/api-keys/{approves['id']}/reveal").status_code == 403
    assert visitor.post(f"/api-keys/{plain['id']}/reveal").status_code == 200


def test_an_unknown_scope_is_named(desk: Desk) -> None:
    none = ": scopes: Must be one or more scopes, such as ussd:read, with single spaces between them, or null."
    for scopes, named in (
        ("balance:raed", ": unknown scope 'balance:raed'"),
        (["ussd:read", "x" * 100], f": unknown scope '{'x' * 40}'"),
        ("", none),
        ([], none),
    ):
        reply = desk.web.post(KEYS, json={"scopes": scopes}, headers=desk.headers("ann"))
        assert reply.json == refusal_of(400, f"Invalid request body{named}")
