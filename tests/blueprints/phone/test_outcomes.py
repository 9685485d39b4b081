"""The outcome of a payment waits an hour for the next dial of the same code; it is shown first, and once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.blueprints.phone.phones import Phone, every_gateway, phone_of
from tests.conftest import MovableClock
from tests.support.money import deposit, work
from tests.support.shop import CODE, OPERATOR, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.ussd import ShownOutcome, UssdSession
from ussd_server.services.menus.messages import AssignCode, BindCode
from ussd_server.services.ussd.messages import BeginSession, EnterText

SUCCEEDED = "Your payment of UGX 5,000 to ACME succeeded.\n0 Menu"
MENU = "Welcome to ACME"


def paid(services: Services, web: FlaskClient, gateway: str = "hubtel", **menu: str) -> Phone:
    """A phone that has paid UGX 5,000 and seen the last screen."""
    phone = phone_of(gateway, Shop(services, shop_document(**menu)), web)
    phone.dial()
    for entry in ("1", "5000", "1"):
        shown = phone.type(entry)
    assert shown.ends
    return phone


@every_gateway
def test_an_outcome_is_shown_on_the_next_dial_once_and_0_leads_to_the_menu(
    gateway: str, services: Services, clock: MovableClock, web: FlaskClient
) -> None:
    phone = paid(services, web, gateway, resume="off")
    pending = replace(phone, session="call-2", entries=[])
    assert pending.dial().screen.startswith(MENU)
    work(services, clock, 1)
    phone = replace(phone, session="call-3", entries=[])
    assert phone.dial() == (SUCCEEDED, False)
    assert phone.again().screen == SUCCEEDED
    assert phone.type("0").screen.startswith(MENU)
    assert replace(phone, session="call-4", entries=[]).dial().screen.startswith(MENU)
    assert ShownOutcome.select().count() == 1


def test_an_outcome_waits_for_an_hour_and_for_the_same_code_and_phone(
    services: Services, clock: MovableClock, web: FlaskClient
) -> None:
    phone = paid(services, web)
    work(services, clock, 1)
    assert replace(phone, session="call-2", entries=[], number="+256770000001").dial().screen.startswith(MENU)
    clock.advance(3_500)
    assert replace(phone, session="call-3", entries=[]).dial().screen == SUCCEEDED


def test_an_outcome_is_gone_after_an_hour(services: Services, clock: MovableClock, web: FlaskClient) -> None:
    phone = paid(services, web)
    work(services, clock, 1)
    clock.advance(3_600)
    assert replace(phone, session="call-2", entries=[]).dial().screen.startswith(MENU)


def test_another_code_of_the_menu_does_not_show_it_and_each_payment_has_its_own(
    services: Services, clock: MovableClock
) -> None:
    shop = Shop(services)
    services.channels.assign_code(AssignCode("*777#", shop.client_id), OPERATOR)
    services.menus.bind_code(BindCode("*777#", "shop"), shop.call)

    def dial(code: str, *entries: str) -> str:
        session = services.api_sessions.begin(BeginSession("+256770000000", code, text=""), shop.call)
        for entry in entries:
            session = services.api_sessions.enter(EnterText(session.session_id, entry), shop.call)
        return session.message

    for _ in range(2):
        dial(CODE, "1", "5000", "1")
    work(services, clock, 1)
    assert dial("*777#").startswith(MENU)
    assert [dial(CODE), dial(CODE)] == [SUCCEEDED, SUCCEEDED]
    assert dial(CODE).startswith(MENU)


@pytest.mark.both_databases
def test_many_dials_at_once_show_an_outcome_once(
    app: Flask, services: Services, clock: MovableClock, web: FlaskClient
) -> None:
    phone = paid(services, web)
    work(services, clock, 1)

    def dial(number: int) -> str:
        try:
            return replace(phone, session=f"again-{number // 2}", entries=[], web=app.test_client()).dial().screen
        finally:
            release_connection()

    with ThreadPoolExecutor(6) as pool:
        screens = list(pool.map(dial, range(8)))
    # A step that is delivered twice gets the same reply twice.
    assert sum(screen == SUCCEEDED for screen in screens) == 2
    assert all(screens[number] == screens[number + 1] for number in range(0, 8, 2))
    assert all(screen == SUCCEEDED or screen.startswith(MENU) for screen in screens)


def test_a_failed_payment_is_shown_in_the_subscribers_language(
    services: Services, clock: MovableClock, web: FlaskClient
) -> None:
    phone = phone_of("madapi", Shop(services), web)
    phone.number = "+256770000002"
    phone.dial()
    for entry in ("3", "2", "1", "5000", "1"):
        shown = phone.type(entry)
    assert shown == ("Kakasa ku ssimu yo.", True)
    work(services, clock, 1)
    phone = replace(phone, session="call-2", entries=[])
    assert phone.dial().screen == "Okusasula kwo okwa UGX 5,000 eri ACME kulemye.\n0 Menyu"
    assert phone.type("0").screen.startswith("Tukusanyukidde")


def test_the_outcome_of_a_disbursement_that_came_after_the_dial_names_its_payer(
    services: Services, clock: MovableClock, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout = shop_document()["nodes"]["pay"] | {"kind": "disbursement"}
    shop = Shop(services, shop_document(nodes={"pay": payout}))
    deposit(services, operator_context(shop.client_id), 1_000_000)
    phone = phone_of("hubtel", shop, web)
    phone.dial()
    for entry in ("1", "5000", "1"):
        phone.type(entry)
    UssdSession.update(end_reason="not_delivered").execute()
    work(services, clock, 1)
    monkeypatch.setattr("ussd_server.services.ussd.conversations.find_waiting", lambda *_: None)
    sentence = "Your payment of UGX 5,000 from ACME succeeded."
    assert replace(phone, session="call-2", entries=[]).dial().screen.startswith(sentence)
