"""Menus pay within the rights of the person or the key that published them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor
from tests.gates.world import MENU, Sender, World, paying_node
from tests.support.example_client import ExampleClient
from tests.support.shop import CODE, OPERATOR, shop_document
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.sending import Mail
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import MenuVersion, UssdSession
from ussd_server.services.clients.keys.messages import CreateApiKey, RotateApiKey
from ussd_server.services.gates.messages import WayOut
from ussd_server.services.menus.messages import AssignCode
from ussd_server.values import iso_milliseconds

PAYS = shop_document(id=MENU, nodes={"pay": paying_node()})
COLLECTS = shop_document(id="collects")


@pytest.fixture
def example_client(services: Services) -> ExampleClient:
    return ExampleClient(services)


class Program:
    """A program with a key of the client."""

    def __init__(
        self, services: Services, web: FlaskClient, client: ExampleClient, *scopes: str, limit_cents: int | None = None
    ) -> None:
        made = CreateApiKey(scopes, daily_limit_cents=limit_cents)
        key = services.api_keys.create(made, client.at_console())
        self._web = web
        self._headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}

    def save(self, document: dict[str, Any]) -> None:
        reply = self._web.put(f"/api/ussd/menus/{document['id']}", json=document, headers=self._headers)
        assert reply.status_code == 200, reply.json

    def post(self, path: str, body: dict[str, Any] | None = None) -> TestResponse:
        return self._web.post(f"/api/ussd/menus/{path}", json=body or {}, headers=self._headers)

    def bind(self, menu: str) -> TestResponse:
        return self._web.put(f"/api/ussd/codes/{CODE}", json={"menu_id": menu}, headers=self._headers)


def refusal(reply: TestResponse) -> tuple[int, str, bool]:
    """Status and code, and whether the message names the node."""
    return reply.status_code, reply.json["error"], "node pay" in reply.json["message"]


REFUSED = (403, "INSUFFICIENT_SCOPE", True)


def test_a_key_without_the_right_to_send_lets_no_menu_pay(
    services: Services, web: FlaskClient, example_client: ExampleClient
) -> None:
    """The attack: a key with menus:write and ussd:write publishes a node that disburses."""
    services.channels.assign_code(AssignCode(CODE, example_client.id), OPERATOR)
    intruder = Program(services, web, example_client, "menus:*", "ussd:*")
    intruder.save(PAYS)
    assert refusal(intruder.post(f"{MENU}/publish")) == REFUSED
    intruder.save(COLLECTS)
    assert intruder.post("collects/publish").status_code == 200
    may = Program(services, web, example_client, "menus:*", "transactions:send")
    assert may.post(f"{MENU}/publish").status_code == 200
    intruder.save({**shop_document(id=MENU)})
    assert intruder.post(f"{MENU}/publish").status_code == 200, "a version that only collects"
    assert refusal(intruder.post(f"{MENU}/rollback", {"version": 1})) == REFUSED
    assert may.post(f"{MENU}/rollback", {"version": 1}).status_code == 200
    assert refusal(intruder.bind(MENU)) == REFUSED
    assert intruder.bind("collects").status_code == 200
    assert may.bind(MENU).status_code == 200


def test_a_key_with_a_daily_limit_lets_no_menu_pay(
    services: Services, web: FlaskClient, example_client: ExampleClient
) -> None:
    """The attack: a key with a daily limit of 1,000 pays 1,800,000 to the phone that dials."""
    services.channels.assign_code(AssignCode(CODE, example_client.id), OPERATOR)
    limited = Program(services, web, example_client, "menus:*", "transactions:*", limit_cents=1000_00)
    limited.save(PAYS)
    assert refusal(limited.post(f"{MENU}/publish")) == REFUSED
    Program(services, web, example_client, "menus:*", "transactions:*").post(f"{MENU}/publish")
    assert refusal(limited.post(f"{MENU}/rollback", {"version": 1})) == REFUSED
    assert refusal(limited.bind(MENU)) == REFUSED


def test_a_code_is_not_bound_to_a_menu_that_was_never_published(
    services: Services, web: FlaskClient, example_client: ExampleClient
) -> None:
    services.channels.assign_code(AssignCode(CODE, example_client.id), OPERATOR)
    program = Program(services, web, example_client, "menus:*")
    program.save(COLLECTS)
    reply = program.bind("collects")
    assert (reply.status_code, reply.json["error"]) == (400, "INVALID_REQUEST")
    assert "no published version" in reply.json["message"]


REVOKED: dict[str, tuple[Sender, Callable[[World], object]]] = {
    "deleted key": (Sender.KEY, lambda world: world.services.api_keys.delete(world.key.id, world.boss)),
    "disabled key": (Sender.KEY, lambda world: world.change_key(is_active=0)),
    "disabled person": (Sender.PERSON, lambda world: world.services.people.set_active(world.person, False, world.boss)),
}


@pytest.mark.parametrize("cause", REVOKED)
def test_the_menu_of_a_revoked_publisher_rejects_payments_mails_owners_and_is_published_again(
    services: Services, clock: MovableClock, app: Flask, cause: str
) -> None:
    sender, revoke = REVOKED[cause]
    world = World(services, clock, sender)
    revoke(world)
    for _ in range(2):
        world.send(WayOut.MENU)
    world.work()
    assert world.left() == []
    assert [row.message for row in UssdSession.select().order_by(UssdSession.id)] == ["Goodbye"] * 2
    mails = list(Mail.select().where(Mail.kind == "menu.sends_no_money"))
    assert [(mail.recipient, mail.parameters["menu"]) for mail in mails] == [(world.client.email(), MENU)]

    visitor = ConsoleVisitor(app.test_client())
    visitor.sign_in(world.client.email())
    page = visitor.get(f"/menus/{MENU}").text
    assert "This menu sends no money any more" in page
    assert "Publish it again in my name" in page
    assert visitor.post(f"/menus/{MENU}/publish-again").status_code == 303
    assert "sends no money any more" not in visitor.get(f"/menus/{MENU}").text
    newest = MenuVersion.select().order_by(MenuVersion.version.desc()).first()
    assert (newest.user_id, newest.key_id) == (world.boss.caller.user_id, None)
    world.send(WayOut.MENU)
    world.work()
    assert len(world.left()) == 1


def test_a_rotated_or_expired_key_revokes_no_menu(services: Services, clock: MovableClock) -> None:
    world = World(services, clock, Sender.KEY)
    services.api_keys.rotate(RotateApiKey(world.key.id, 0), world.boss)
    world.change_key(expires_at=clock.now() + timedelta(seconds=60))
    clock.advance(61)
    world.send(WayOut.MENU)
    world.work()
    (payment,) = world.left()
    assert payment.menu_version == 2
    assert Transaction.select().where(Transaction.type == "disbursement").count() == 1


def test_a_developer_publishes_no_menu_that_pays_in_the_console(
    services: Services, app: Flask, example_client: ExampleClient
) -> None:
    visitor = ConsoleVisitor(app.test_client())
    visitor.sign_in(example_client.email("developer"))
    visitor.post("/menus/new", menu_id=MENU, text=json.dumps(PAYS))
    saved = services.menus.get(MENU, operator_context(example_client.id)).draft_saved_at
    reply = visitor.post(f"/menus/{MENU}/publish", draft_saved_at=iso_milliseconds(saved))
    assert reply.status_code == 403
    assert "The node pay sends money" in reply.text
    assert services.menus.get(MENU, operator_context(example_client.id)).published_version is None
