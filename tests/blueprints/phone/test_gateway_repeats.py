"""Steps that gateways send twice, late or many at once: each is done once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.blueprints.conftest import Dial
from tests.blueprints.phone.phones import every_gateway, phone_of
from tests.conftest import MovableClock
from tests.support.shop import CODE, PHONE, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.ussd.gateways import GatewayService

pytestmark = pytest.mark.both_databases


def of_one_price(**changes: Any) -> dict[str, Any]:
    """A shop in which one key opens the confirmation, and the same key confirms."""
    pay = {"label": {"en": "Pay"}, "set": {"amount": "5000"}, "goto": "sure"}
    root = {"type": "menu", "text": {"en": "Welcome to ACME"}, "options": [pay]}
    nodes = shop_document()["nodes"]
    kept = {name: nodes[name] for name in ("sure", "pay", "bye")}
    return shop_document(vars={"amount": {"type": "amount"}}) | {"nodes": {"root": root, **kept}} | changes


def test_the_table_of_turns_to_the_letter(at: Dial) -> None:
    welcome, amount = at(""), at("1")
    assert at("1") == amount, "the same text is a repeat"
    wrong = at("1*5")
    assert wrong.startswith("CON Enter whole shillings")
    assert at("1*5") == wrong
    confirm = at("1*5*5000")
    assert confirm.startswith("CON Pay UGX 5,000?")
    assert [at("1*5"), at("1"), at("")] == [wrong, amount, welcome], "late repeats get their turn's answer"
    assert at("1*5*5000*").startswith("CON Invalid choice."), "an empty entry"
    assert at("1*5*5000**a*b").startswith("CON Invalid choice."), "a star that the person typed"
    assert len(UssdSession.get().turns) == 6
    assert at("2") == welcome, "what fits nothing begins anew"
    assert [row.status for row in UssdSession.select().order_by(UssdSession.id)] == ["ended_by_user", "active"]
    assert Transaction.select().count() == 0


def test_the_last_session_under_an_id_is_found_though_processes_differ_about_the_time(
    at: Dial, clock: MovableClock
) -> None:
    welcome, _ = at(""), at("1")
    clock.advance(-0.1)
    assert at("2") == welcome, "what fits nothing begins anew"
    assert at("2") == welcome, "a repeat"
    assert UssdSession.select().count() == 2


def test_every_step_of_a_conversation_may_be_posted_twenty_times_at_once(at: Dial) -> None:
    for text in ("", "1", "1*5000", "1*5000*1"):
        assert len(set(_at_once(lambda _, text=text: at(text), 20))) == 1
    assert (len(UssdSession.get().turns), UssdSession.select().count(), Transaction.select().count()) == (4, 1, 1)


def test_the_last_screen_is_repeated_and_a_new_call_under_the_same_name_begins_anew(at: Dial) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    last = at("1*5000*1")
    assert at("1*5000*1") == last
    assert at("1*5000").startswith("CON Pay UGX 5,000?")
    assert at("").startswith("CON Welcome")
    assert at("2") == "END Your balance is UGX 0"
    assert Transaction.select().count() == 1


@every_gateway
def test_a_step_delivered_twice_never_confirms_what_the_first_delivery_opened(
    gateway: str, services: Services, clock: MovableClock, web: FlaskClient
) -> None:
    phone = phone_of(gateway, Shop(services, of_one_price()), web)
    phone.dial()
    opened = phone.type("1")
    assert opened.screen.startswith("Pay UGX 5,000?")
    clock.advance(1.9)
    assert phone.again() == opened
    assert Transaction.select().count() == 0


@pytest.mark.parametrize("gateway", ["comviva", "dmark", "madapi"])
def test_the_same_key_at_the_next_screen_is_a_new_entry_when_the_screen_was_read(
    gateway: str, services: Services, web: FlaskClient
) -> None:
    phone = phone_of(gateway, Shop(services, of_one_price()), web)
    phone.dial()
    phone.type("1")
    assert phone.type("1") == ("Approve the prompt on your phone.", True)
    assert Transaction.select().count() == 1


def test_a_step_that_waited_for_the_database_counts_from_when_it_arrived(
    services: Services, clock: MovableClock, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = phone_of("dmark", Shop(services, of_one_price()), web)
    phone.dial()
    opened = phone.type("1")
    find = GatewayService._find_session

    def find_slowly(*call: Any) -> Any:
        clock.advance(3)
        return find(*call)

    monkeypatch.setattr(GatewayService, "_find_session", find_slowly)
    assert phone.again() == opened
    assert Transaction.select().count() == 0


def test_an_entry_that_opens_a_session_by_itself_and_comes_twice_confirms_nothing(
    services: Services, web: FlaskClient
) -> None:
    phone = phone_of("madapi", Shop(services, of_one_price(start="sure", nodes=_confirmed_at_once())), web)
    opened = phone.type("1")
    assert opened.screen.startswith("Sure?"), "no session is known under this name, so one begins"
    assert phone.again() == opened
    assert Transaction.select().count() == 0


@every_gateway
def test_another_number_under_the_same_session_id_has_a_session_of_its_own(
    gateway: str, shop: Shop, web: FlaskClient
) -> None:
    first = phone_of(gateway, shop, web)
    second = replace(first, number="+256770000001", entries=[])
    first.dial()
    first.type("1")
    first.type("5000")
    second.entries = list(first.entries)
    second.hang_up()
    assert UssdSession.get().status == "active", "it cannot end the first one's session"
    second.type("1")
    second.hang_up()
    assert Transaction.select().count() == 0, "it cannot press the first one's Yes"
    assert second.dial().screen.startswith("Welcome to ACME"), "nor see where the first one is"
    assert second.type("1").screen.startswith("Enter amount")
    assert first.type("1") == ("Approve the prompt on your phone.", True)
    assert [payment.phone_number for payment in Transaction.select()] == [PHONE]
    assert second.type("700").screen.startswith("Pay UGX 700?")


@pytest.mark.parametrize("gateway", ["hubtel", "json"])
def test_what_is_dialled_is_no_entry_though_its_number_is_the_next(
    gateway: str, services: Services, web: FlaskClient
) -> None:
    shop = Shop(services, of_one_price())
    phone = phone_of(gateway, shop, web)
    phone.dial()
    phone.type("1")
    if gateway == "hubtel":
        call = {
            "Type": "Initiation",
            "SessionId": "call-1",
            "Mobile": PHONE[1:],
            "ServiceCode": CODE.strip("*#"),
            "Message": f"{CODE[:-1]}*1#",
            "Operator": "mtn",
            "Sequence": 3,
        }
    else:
        call = {
            "session_id": "call-1",
            "phone_number": PHONE,
            "service_code": CODE,
            "text": "1",
            "kind": "begin",
            "sequence": 3,
        }
    assert not phone.read(web.post(phone.path, json=call)).ends
    assert Transaction.select().count() == 0


def test_what_is_dialled_is_no_repeat_of_the_same_digits_typed(shop: Shop, web: FlaskClient) -> None:
    phone = phone_of("madapi", shop, web)
    phone.dial()
    phone.type("1")
    call = {
        "sessionId": "call-1",
        "messageType": "0",
        "msisdn": PHONE[1:],
        "serviceCode": CODE,
        "ussdString": f"{CODE[:-1]}*1#",
    }
    assert phone.read(web.post(phone.path, json=call)).screen.startswith("Enter amount")
    assert UssdSession.select().count() == 2


def _confirmed_at_once() -> dict[str, Any]:
    nodes = of_one_price()["nodes"]
    return {
        "sure": {"type": "confirm", "text": {"en": "Sure?"}, "yes": "pay", "no": "bye"},
        "pay": nodes["pay"] | {"amount": "5000"},
        "bye": nodes["bye"],
    }


def _at_once(act: Callable[[int], str], count: int) -> list[str]:
    def run(number: int) -> str:
        try:
            return act(number)
        finally:
            release_connection()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
