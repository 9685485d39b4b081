"""Past conversations are replayed through a draft, without money, and without another client's sessions."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.blueprints.phone.phones import PHONES, phone_of
from tests.conftest import MovableClock
from tests.support.program import Program
from tests.support.shop import CODE, VOUCHER, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.messages import SaveDraft

PATH = "/api/ussd/menus/shop/replay"
WALKS = (["1", "5000", "1"], ["2"], ["4", VOUCHER, "1"], ["3", "2", "1"], ["9", "1", "12", "700", "0", "800"])


@pytest.fixture
def held(services: Services, web: FlaskClient, clock: MovableClock) -> tuple[Shop, Program, list[str]]:
    """A shop with five conversations, and their session ids."""
    shop = Shop(services)
    phone = phone_of("hubtel", shop, web)
    for number, entries in enumerate(WALKS):
        phone.session = f"call-{number}"
        phone.number = f"+25677000000{number}"
        phone.dial()
        for entry in entries:
            phone.type(entry)
    ids = [row.id for row in UssdSession.select().order_by(UssdSession.id)]
    assert len(ids) == len(WALKS)
    return shop, Program(services, web, client_id=shop.client_id), ids


def results(program: Program, body: dict[str, Any]) -> list[tuple[str, int | None]]:
    reply = program.post(PATH, body)
    assert reply.status_code == 200, reply.json
    items = reply.json["data"]["items"]
    assert all(list(item) == ["session_id", "result", "turn", "was", "is"] for item in items)
    return [(item["result"], item["turn"]) for item in items]


def test_each_conversation_is_the_same_another_screen_or_a_dead_end(
    held: tuple[Shop, Program, list[str]], services: Services
) -> None:
    shop, program, ids = held
    payments = Transaction.select().count()
    body = {"session_ids": ids}
    assert results(program, body) == [("same", None)] * 5

    def draft(**changes: Any) -> None:
        services.menus.save_draft(SaveDraft("shop", shop_document(**changes)), shop.call)

    draft(nodes={"show": {"type": "end", "text": {"en": "You have {{vars.balance|ugx}}"}}})
    assert results(program, body) == [("same", None), ("other_screen", 1), *[("same", None)] * 3]
    (changed,) = [item for item in program.post(PATH, body).json["data"]["items"] if item["was"]]
    assert (changed["was"], changed["is"]) == ("Your balance is UGX 0", "You have 0")
    root = shop_document()["nodes"]["root"]
    draft(nodes={"root": {**root, "options": root["options"][:3]}})
    assert results(program, body)[2] == ("dead_end", 1)
    draft(nodes={"root": {**root, "options": [{**root["options"][0], "goto": "nowhere"}, *root["options"][1:]]}})
    assert [result for result, _ in results(program, body)] == [
        "dead_end",
        "same",
        "same",
        "dead_end",
        "dead_end",
    ]
    assert VOUCHER not in program.post(PATH, body).text
    assert Transaction.select().count() == payments


def test_a_conversation_with_a_mistyped_secret_is_the_same(services: Services, web: FlaskClient) -> None:
    rules = [
        {"rule": "length", "min": 4, "max": 4, "error": {"en": "A code has 4 digits", "lg": "4"}},
        {"rule": "integer", "error": {"en": "A code is of digits", "lg": "0-9"}},
    ]
    voucher = shop_document()["nodes"]["voucher"] | {"validate": rules, "invalid": {"max": 2, "goto": "bye"}}
    shop = Shop(services, shop_document(nodes={"voucher": voucher}))
    phone = phone_of("hubtel", shop, web)
    for number, entries in enumerate((["4", "12", "7391", "1"], ["4", "abcd", "7391"], ["4", "12", "abcd"])):
        phone.session, phone.number = f"call-{number}", f"+25677000000{number}"
        phone.dial()
        for entry in entries:
            phone.type(entry)
    ids = [row.id for row in UssdSession.select(UssdSession.id)]
    assert results(Program(services, web, client_id=shop.client_id), {"session_ids": ids}) == [("same", None)] * 3


def test_a_period_is_replayed_newest_first_and_unknown_sessions_are_not_found(
    held: tuple[Shop, Program, list[str]], services: Services, web: FlaskClient
) -> None:
    shop, program, ids = held
    period = program.post(PATH, {"from": "2020-01-01T00:00:00Z"}).json["data"]["items"]
    assert [item["session_id"] for item in period] == ids[::-1]
    assert results(program, {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}) == []
    other = Shop(services, code="*200#")
    stranger = Program(services, web, client_id=other.client_id)
    asked = [ids[0], "01a20241-0b4c-7118-8dc8-8c1b064635cf", "nonsense"]
    assert [result for result, _ in results(stranger, {"session_ids": asked})] == ["not_found"] * 3
    for body in ({}, {"session_ids": ids, "from": "2020-01-01T00:00:00Z"}, {"session_ids": []},
                 {"session_ids": ["x"] * 501}, {"to": "2020-01-01T00:00:00Z"}, {"from": "yesterday"}):  # fmt: skip
        assert program.post(PATH, body).status_code == 400
    assert program.post("/api/ussd/menus/never-saved/replay", {"session_ids": ids}).status_code == 404
    menus_only = Program(services, web, "menus:read", client_id=shop.client_id)
    assert menus_only.post(PATH, {"session_ids": ids}).status_code == 403
    services.menus.save_draft(SaveDraft("shop", {"nodes": 1}), shop.call)
    assert program.post(PATH, {"session_ids": ids}).json["error"] == "MENU_INVALID"


def test_drop_offs_are_counted_for_each_node(
    held: tuple[Shop, Program, list[str]], services: Services, clock: MovableClock
) -> None:
    shop, _, _ = held
    clock.advance(700)
    services.api_sessions.end_expired()
    found = services.replays.drop_offs("shop", shop.call)
    nodes = {item.node: (item.visits, item.drop_offs, item.share) for item in found.items}
    assert found.sessions == 5
    assert nodes["sure"][1:] == (1, round(1 / nodes["sure"][0], 4))
    assert nodes["amount"][1] == 1
    assert sum(left for _, left, _ in nodes.values()) == 2


def test_screens_are_compared_as_the_channel_of_the_session_carries_them(services: Services, web: FlaskClient) -> None:
    root = shop_document()["nodes"]["root"]
    shop = Shop(services, shop_document(nodes={"root": {**root, "text": {"en": "Ŋamba ACME", "lg": "Ŋamba ACME"}}}))
    assert isinstance(services.clock, MovableClock)
    narrow = shop.channel_of("hubtel", codes=(CODE,), transliterates=False, ucs2=40)
    shown = PHONES["hubtel"](web, narrow, services.clock).dial().screen
    assert "Ŋamba" in shown
    assert "Voucher" not in shown
    program = Program(services, web, client_id=shop.client_id)
    ids = [row.id for row in UssdSession.select(UssdSession.id)]
    assert results(program, {"session_ids": ids}) == [("same", None)]
