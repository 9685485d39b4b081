"""Gateway requests with a wrong path, a closed channel or a failure inside: what the phone shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.blueprints.conftest import Dial
from tests.blueprints.phone.phones import PHONES, phone_of
from tests.support.shop import CODE, OPERATOR, PHONE, VOUCHER, Shop
from ussd_server.app import create_app
from ussd_server.bootstrap import Services, build_services
from ussd_server.database.opening import open_database
from ussd_server.database.unit_of_work import close_connections
from ussd_server.models.clients import Client
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import Channel
from ussd_server.services.ussd.messages import CreateChannel
from ussd_server.settings import Settings


def test_an_unknown_path_is_a_404_in_the_general_envelope(shop: Shop, web: FlaskClient) -> None:
    path = shop.channel.gateway_path
    for wrong in (path[:-1], path.replace("africastalking", "hubtel"), "/ussd/nobody/x", "/ussd/json/%ED%A0%80"):
        reply = web.post(wrong, data={"sessionId": "x"})
        assert (reply.status_code, reply.json["error"]) == (404, "NOT_FOUND")
    assert web.post(f"{path[:-1]}/events").status_code == 404


def test_wrong_paths_of_an_address_cost_the_database_nothing_beyond_a_limit(
    shop: Shop, services: Services, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, attacker = shop.channel.gateway_path, {"REMOTE_ADDR": "192.0.2.1"}
    for number in range(60):
        assert web.post(f"/ussd/json/{number}", environ_overrides=attacker).status_code == 404
        assert web.post(f"/ussd/json/{number}/events", environ_overrides=attacker).status_code == 404
    with monkeypatch.context() as without:
        without.setattr(Channel, "select", _fail)
        for path in ("/ussd/json/x", "/ussd/json/x/events", "/ussd/nobody/x", right[:-1]):
            assert web.post(path, environ_overrides=attacker).status_code == 404
    # What is known is answered wherever it comes from, and what is new from anywhere else.
    new = services.channels.create(CreateChannel("json"), OPERATOR).gateway_path
    assert web.post(right, environ_overrides=attacker).status_code == 200
    assert web.post(new, environ_overrides=attacker).status_code == 404
    assert web.post(new, environ_overrides={"REMOTE_ADDR": "192.0.2.2"}).status_code == 200
    assert web.post(new, environ_overrides=attacker).status_code == 200


def test_a_process_that_begins_knows_the_channels_whatever_an_address_called_before(
    shop: Shop, settings: Settings, web: FlaskClient
) -> None:
    assert {web.post(f"/ussd/json/{number}").status_code for number in range(110)} == {404}
    fresh = build_services(settings)
    assert create_app(fresh).test_client().post(shop.channel.gateway_path, data={}).status_code == 200
    fresh.close()


def test_a_channel_that_is_closed_answers_like_an_unknown_one_from_the_next_step_on(
    at: Dial, shop: Shop, services: Services, web: FlaskClient
) -> None:
    assert at("").startswith("CON Welcome")
    services.channels.set_active(shop.channel.channel_id, False, OPERATOR)
    reply = web.post(shop.channel.gateway_path, data={"sessionId": "ATUid_1", "phoneNumber": PHONE, "text": "1"})
    assert (reply.status_code, reply.json["error"]) == (404, "NOT_FOUND")
    services.channels.set_active(shop.channel.channel_id, True, OPERATOR)
    assert at("1").startswith("CON Enter amount")


@pytest.mark.parametrize("limit", [12_000, 60])
def test_a_channel_that_is_closed_answers_like_an_unknown_one_whatever_is_sent(
    shop: Shop, services: Services, settings: Settings, limit: int
) -> None:
    path = shop.channel.gateway_path
    remembers, other = (build_services(replace(settings, channel_limit_per_minute=limit)) for _ in range(2))
    web = create_app(remembers).test_client()
    assert {web.post(path, data={}).status_code for _ in range(61)} == {200}
    services.channels.set_active(shop.channel.channel_id, False, OPERATOR)
    replies = [web.post(path, data={}), create_app(other).test_client().post(path, data={})]
    assert [(reply.status_code, reply.json["error"]) for reply in replies] == [(404, "NOT_FOUND")] * 2
    for each in (remembers, other):
        each.close()


def test_a_step_that_cannot_be_read_gets_a_screen_while_the_database_is_away(shop: Shop, web: FlaskClient) -> None:
    assert web.post(shop.channel.gateway_path, data={}).status_code == 200
    close_connections()
    open_database("postgresql://nobody@127.0.0.1:1/none", 1)
    reply = web.post(shop.channel.gateway_path, data={})
    assert (reply.status_code, reply.text) == (200, "END Sorry, this did not work. Please try again later.")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_wrong_method_is_a_405_in_the_general_envelope(shop: Shop, web: FlaskClient) -> None:
    reply = web.put(shop.channel.gateway_path)
    assert (reply.status_code, reply.json["error"]) == (405, "METHOD_NOT_ALLOWED")
    assert "POST" in reply.headers["Allow"]
    assert web.get(f"{shop.channel.gateway_path}/events").status_code == 405


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"sessionId": "x"},
        {"sessionId": "x", "phoneNumber": "0"},
        {"sessionId": "\n", "phoneNumber": PHONE},
        {"sessionId": "x", "phoneNumber": PHONE, "serviceCode": "*999#"},
        {"sessionId": "x", "phoneNumber": PHONE, "text": "1" * 2000},
    ],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_whatever_is_sent_the_phone_gets_a_polite_last_screen(
    form: dict[str, str], shop: Shop, web: FlaskClient
) -> None:
    reply = web.post(shop.channel.gateway_path, data=form)
    assert (reply.status_code, reply.text) == (200, "END Sorry, this did not work. Please try again later.")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_body_that_is_too_large_still_gets_a_screen_on_a_known_path(shop: Shop, web: FlaskClient) -> None:
    path = shop.channel.gateway_path
    reply = web.post(path, data=b"x" * 70_000)
    assert (reply.status_code, reply.text) == (200, "END Sorry, this did not work. Please try again later.")
    assert web.post(path[:-1], data=b"x" * 70_000).status_code == 404


def test_a_disabled_client_answers_no_phone(at: Dial, shop: Shop) -> None:
    at("")
    Client.update(is_active=False).where(Client.id == shop.client_id).execute()
    assert at("1").startswith("END Sorry")
    assert at("", session="ATUid_2").startswith("END Sorry")


def test_trouble_after_a_payment_was_created_never_says_that_it_failed(
    at: Dial, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    with monkeypatch.context() as broken:
        broken.setattr("ussd_server.services.ussd.sessions.Sessions.write", _fail)
        assert at("1*5000*1") == "END Your payment is being processed."
    assert Transaction.select().count() == 1
    assert at("", session="ATUid_2").startswith("CON Your payment of UGX 5,000 to ACME is being processed.")


def test_a_channel_over_its_limit_still_answers_with_a_screen(settings: Settings, shop: Shop) -> None:
    narrow = build_services(replace(settings, channel_limit_per_minute=60))
    web = create_app(narrow).test_client()
    screens = [web.post(shop.channel.gateway_path, data={"sessionId": "x"}).text for _ in range(60)]
    form = {"sessionId": "ATUid_1", "phoneNumber": PHONE, "serviceCode": CODE, "text": ""}
    assert (
        web.post(shop.channel.gateway_path, data=form).text
        == screens[0]
        == "END Sorry, this did not work. Please try again later."
    )
    narrow.limiter.clear("channel", shop.channel.channel_id)
    assert web.post(shop.channel.gateway_path, data=form).text.startswith("CON Welcome")
    narrow.close()


def _fail(*_: Any, **__: Any) -> Any:
    raise ValueError(f"the entry was {VOUCHER}")


@pytest.mark.parametrize("gateway", PHONES)
@pytest.mark.parametrize("entry", ["K\x01wezi", "K\ufffdwezi"])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_an_entry_that_cannot_be_read_is_asked_for_again(
    gateway: str, entry: str, shop: Shop, web: FlaskClient
) -> None:
    phone = phone_of(gateway, shop, web)
    phone.dial()
    assert "voucher" in phone.type("4").screen
    asked_again = phone.type(entry)
    assert "Enter your voucher code" in asked_again.screen
    assert not asked_again.ends
    assert "Your voucher was noted." in phone.type("Kwezi").screen


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_step_in_latin1_is_read(shop: Shop, web: FlaskClient) -> None:
    path = shop.channel_of("africastalking", codes=(CODE,))
    body = f"sessionId=s-1&phoneNumber=%2B256770000101&networkCode=64110&serviceCode={CODE[:-1]}%23&text="
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=ISO-8859-1"}
    replies = [web.post(path, data=body + text, headers=headers).text for text in ("", "4", "4*Ren%E9e")]
    assert "Your voucher was noted." in replies[2]
