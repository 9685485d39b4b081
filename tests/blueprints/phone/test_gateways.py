"""Whole sessions in the format of each gateway."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.blueprints.conftest import Dial
from tests.blueprints.phone.phones import phone_of
from tests.conftest import MovableClock
from tests.support.shop import CODE, OPERATOR, PHONE, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Event
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.messages import AssignCode, SaveDraft
from ussd_server.services.ussd.messages import BeginSession, CreateChannel


def test_the_chosen_language_is_remembered_for_the_phone(at: Dial) -> None:
    at("")
    assert "Luganda" in at("3")
    assert at("3*2").startswith("CON Tukusanyukidde")
    assert at("", session="ATUid_2").startswith("CON Tukusanyukidde")
    assert at("", session="ATUid_3", phone="+256770000001").startswith("CON Welcome")


def test_so_is_one_that_is_chosen_by_entries_behind_a_balance(services: Services, web: FlaskClient) -> None:
    first = shop_document()["nodes"]["balance"] | {"goto": "root"}
    path = Shop(services, shop_document(start="first", nodes={"first": first})).channel.gateway_path
    for session, text in (("a", "3*2"), ("b", "")):
        form = {"sessionId": session, "phoneNumber": PHONE, "serviceCode": CODE, "text": text}
        assert web.post(path, data=form).text.startswith("CON Tukusanyukidde")


def test_a_call_that_broke_off_is_counted_by_its_node(at: Dial, shop: Shop, web: FlaskClient) -> None:
    place = f'ussd_sessions_dropped_total{{code="{CODE}",end_reason="abandoned",menu="shop",node="amount"}}'

    def counted() -> float:
        lines = (line.rpartition(" ") for line in web.get("/metrics").text.splitlines())
        return sum(float(value) for name, _, value in lines if name == place)

    at("")
    at("1")
    before = counted()
    report = {"sessionId": "ATUid_1", "phoneNumber": PHONE, "status": "Incomplete"}
    for _ in range(2):
        assert web.post(f"{shop.channel.gateway_path}/events", data=report).status_code == 200
    assert counted() == before + 1


def test_a_session_whose_time_is_up_begins_anew(at: Dial, clock: MovableClock) -> None:
    at("")
    clock.advance(181)
    assert at("1").startswith("CON Enter amount"), "the entry is applied to the new session"
    assert [(row.status, row.end_reason) for row in UssdSession.select().order_by(UssdSession.id)] == [
        ("timed_out", "idle"),
        ("active", None),
    ]
    assert Event.select().where(Event.type == "ussd.session.ended").count() == 1


def test_a_session_keeps_the_version_it_began_with(at: Dial, shop: Shop, services: Services) -> None:
    at("")
    changed = shop_document(nodes={"amount": shop_document()["nodes"]["amount"] | {"text": {"en": "How much?"}}})
    services.menus.save_draft(SaveDraft("shop", changed), shop.call)
    services.menus.publish("shop", shop.call)
    assert at("1").startswith("CON Enter amount")
    assert at("", session="ATUid_2").startswith("CON Welcome")
    assert at("1", session="ATUid_2").startswith("CON How much?")


def test_a_missing_code_is_the_channels_only_one(shop: Shop, web: FlaskClient) -> None:
    path = shop.channel_of("africastalking", codes=(CODE,))
    assert web.post(path, data={"sessionId": "x", "phoneNumber": PHONE}).text.startswith("CON Welcome")
    other = web.post(path, data={"sessionId": "y", "phoneNumber": PHONE, "serviceCode": "*200#"})
    assert other.text.startswith("END Sorry")


def test_a_missing_code_is_the_clients_only_one_on_a_channel_that_lists_none(
    shop: Shop, services: Services, web: FlaskClient
) -> None:
    path = shop.channel.gateway_path
    assert web.post(path, data={"sessionId": "x", "phoneNumber": PHONE}).text.startswith("CON Welcome")
    services.channels.assign_code(AssignCode("*200#", shop.client_id), OPERATOR)
    assert web.post(path, data={"sessionId": "y", "phoneNumber": PHONE}).text.startswith("END Sorry")


def test_a_channel_of_all_clients_carries_the_codes_of_all(shop: Shop, services: Services, web: FlaskClient) -> None:
    other = Shop(services, shop_document(id="kiosk"), code="*200#")
    everybody = services.channels.create(CreateChannel("africastalking"), OPERATOR).gateway_path
    for code, owner in ((CODE, shop), ("*200#", other)):
        reply = web.post(everybody, data={"sessionId": code, "phoneNumber": PHONE, "serviceCode": code})
        assert reply.text.startswith("CON Welcome")
        assert UssdSession.get(UssdSession.provider_session_id == code).client_id == owner.client_id
    reply = web.post(shop.channel.gateway_path, data={"sessionId": "z", "phoneNumber": PHONE, "serviceCode": "*200#"})
    assert reply.text.startswith("END Sorry"), "a client's own channel carries its own codes only"


def test_hubtel_refuses_a_number_that_leaves_one_out(shop: Shop, web: FlaskClient) -> None:
    phone = phone_of("hubtel", shop, web)
    phone.dial()
    phone.type("1")
    assert replace(phone, entries=["1", ""]).type("5000").ends
    assert phone.type("5000").screen.startswith("Pay UGX 5,000?")
    phone.hang_up()
    assert UssdSession.get().status == "ended_by_user"


@pytest.mark.parametrize("codes", [(CODE,), ()])
@pytest.mark.parametrize("dialled", ["384*123", "384123"])
def test_a_first_step_of_comviva_is_recognised_by_the_dialled_code(
    dialled: str, codes: tuple[str, ...], shop: Shop, web: FlaskClient
) -> None:
    path = shop.channel_of("comviva", codes=codes)

    def get(entry: str, **more: str) -> Any:
        return web.get(path, query_string={"SessionID": "c1", "MSISDN": "256750000000", "input": entry} | more)

    first = get(dialled)
    assert (first.headers["Freeflow"], first.text.splitlines()[0]) == ("FC", "Welcome to ACME")
    assert get("1").text.startswith("Enter amount")
    assert get("", clean="clean-session", error="0").headers["Freeflow"] == "FB"
    assert UssdSession.get().status == "ended_by_user"


def test_madapi_and_plain_json_walk_the_same_menu(shop: Shop, web: FlaskClient) -> None:
    madapi, plain = shop.channel_of("madapi", codes=(CODE,)), shop.channel_of("json", codes=(CODE,))
    begin = {"sessionId": "m1", "messageType": "0", "msisdn": "256770000000", "serviceCode": CODE, "ussdString": CODE}
    first = web.post(madapi, json=begin).json["data"]
    assert first["inboundResponse"].startswith("Welcome")
    assert first["userInputRequired"]
    assert web.post(madapi, json=begin | {"messageType": "5"}).status_code == 200
    assert UssdSession.get().status == "timed_out"
    step = {"session_id": "p1", "phone_number": PHONE, "service_code": CODE, "text": "1*5000", "kind": "begin"}
    assert web.post(plain, json=step).json["message"].startswith("Pay UGX 5,000?")


def test_a_number_begins_at_most_thirty_sessions_a_minute_on_a_channel(
    shop: Shop, at: Dial, services: Services
) -> None:
    for number in range(30):
        assert at("", session=f"S{number}").startswith("CON ")
        assert at("", session=f"S{number}").startswith("CON "), "a repeated first step is no other one"
    assert at("", session="S30").startswith("END ")
    assert at("", session="S31", phone="0772999999").startswith("CON "), "another number has its own thirty"
    for _ in range(31):
        services.api_sessions.begin(BeginSession(PHONE, CODE), shop.call)
