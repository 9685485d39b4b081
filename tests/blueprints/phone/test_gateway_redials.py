"""Redials while the last step is in progress: a payment that is being created is never offered again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.blueprints.conftest import Dial
from tests.blueprints.phone.phones import PHONES, Phone, Shown, phone_of
from tests.conftest import MovableClock
from tests.support.moments import before_first
from tests.support.shop import OPERATOR, PHONE, Shop, shop_document
from ussd_server import clock as service_clock
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.messages import AssignCode, BindCode, SaveDraft
from ussd_server.services.transactions.transactions import TransactionService
from ussd_server.services.ussd.endings import SessionEndings
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.services.ussd.sessions import Sessions

pytestmark = pytest.mark.both_databases

PROCESSING = "Your payment is being processed."
PENDING = "Your payment of UGX 5,000 to ACME is being processed."
APPROVE = Shown("Approve the prompt on your phone.", ends=True)

every_gateway = pytest.mark.parametrize("gateway", PHONES)


@pytest.fixture
def pay_until_waited_for(app: Flask, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Phone], Future[Shown]]]:
    """Press Yes in a thread; the payment is not created before another step waits for it, or the test ends."""
    begun, waited_for = threading.Event(), threading.Event()
    create, sleep = TransactionService.create, service_clock.sleep

    def create_slowly(*call: Any) -> Any:
        begun.set()
        assert waited_for.wait(30)
        return create(*call)

    def note_and_sleep(seconds: float) -> None:
        waited_for.set()
        sleep(seconds)

    def press(phone: Phone) -> Shown:
        try:
            return phone.type("1")
        finally:
            release_connection()

    monkeypatch.setattr(TransactionService, "create", create_slowly)
    monkeypatch.setattr(service_clock, "sleep", note_and_sleep)
    with ThreadPoolExecutor(1) as pool:

        def start(phone: Phone) -> Future[Shown]:
            paying = pool.submit(press, replace(phone, web=app.test_client(), entries=list(phone.entries)))
            assert begun.wait(30)
            return paying

        yield start
        waited_for.set()


def at_accounts(services: Services, web: FlaskClient, *entries: str) -> Phone:
    """A phone at a screen whose first key asks for a balance."""
    nodes = shop_document()["nodes"]
    nodes["root"]["options"][1]["goto"] = "accounts"
    options = [{"label": {"en": "Balance"}, "goto": "balance"}]
    accounts = {"type": "menu", "text": {"en": "Accounts"}, "options": options}
    phone = phone_of("hubtel", Shop(services, shop_document(nodes=nodes | {"accounts": accounts})), web)
    phone.dial()
    for entry in entries:
        phone.type(entry)
    return phone


def at_confirmation(gateway: str, shop: Shop, web: FlaskClient) -> Phone:
    phone = phone_of(gateway, shop, web)
    phone.dial()
    phone.type("1")
    assert phone.type("5000").screen.startswith("Pay UGX 5,000?")
    return phone


@every_gateway
@pytest.mark.parametrize("hangs_up", [False, True], ids=["dials again", "hangs up and dials again"])
def test_a_redial_while_a_payment_is_being_created_waits_for_it(
    gateway: str,
    hangs_up: bool,
    shop: Shop,
    web: FlaskClient,
    pay_until_waited_for: Callable[[Phone], Future[Shown]],
) -> None:
    phone = at_confirmation(gateway, shop, web)
    paying = pay_until_waited_for(phone)
    if hangs_up:
        phone.hang_up()
    again = replace(phone, session="call-2")
    assert again.dial() == (f"{PENDING}\n1. Continue", False)
    assert paying.result(30) == (Shown(PROCESSING, ends=True) if hangs_up and gateway != "dmark" else APPROVE)
    assert again.type("1").screen.startswith("Welcome to ACME")
    first, second = UssdSession.select().order_by(UssdSession.id)
    assert (first.transaction_id, second.transaction_id) == (Transaction.get().id, None)
    assert (first.working_token, first.working_until) == (None, None)


@pytest.mark.parametrize("gateway", ["comviva", "dmark", "hubtel", "json", "madapi"])
def test_so_does_a_redial_under_the_same_session_id(
    gateway: str, shop: Shop, web: FlaskClient, pay_until_waited_for: Callable[[Phone], Future[Shown]]
) -> None:
    phone = at_confirmation(gateway, shop, web)
    paying = pay_until_waited_for(phone)
    assert phone.dial().screen == f"{PENDING}\n1. Continue"
    assert paying.result(30) == APPROVE


def test_so_does_a_redial_of_a_phone_that_dialled_straight_to_the_confirmation(
    at: Dial, shop: Shop, web: FlaskClient, pay_until_waited_for: Callable[[Phone], Future[Shown]]
) -> None:
    phone = replace(phone_of("africastalking", shop, web), entries=["1", "5000"])
    assert phone.again().screen.startswith("Pay UGX 5,000?")
    paying = pay_until_waited_for(phone)
    assert replace(phone, session="call-2").again().screen == f"{PENDING}\n1. Continue"
    assert paying.result(30) == APPROVE


def test_a_redial_waits_though_the_menu_resumes_nothing(
    services: Services, web: FlaskClient, pay_until_waited_for: Callable[[Phone], Future[Shown]]
) -> None:
    phone = at_confirmation("hubtel", Shop(services, shop_document(resume="off")), web)
    paying = pay_until_waited_for(phone)
    assert replace(phone, session="call-2").dial().screen.startswith("Welcome to ACME")
    assert paying.result(30) == APPROVE


def test_a_yes_that_comes_after_the_redial_pays_nothing(
    shop: Shop, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = at_confirmation("africastalking", shop, web)
    again = replace(phone, session="call-2", entries=[])
    offers = []
    with before_first(monkeypatch, Sessions, "claim", lambda: offers.append(again.dial())):
        assert not phone.type("1").ends
    assert offers[0].screen.startswith("Continue where you stopped?")
    assert Transaction.select().count() == 0
    for entry in ("1", "700", "1"):
        shown = again.type(entry)
    assert shown == APPROVE
    assert [payment.amount_cents for payment in Transaction.select()] == [70_000]


def test_a_yes_that_is_faster_than_the_redial_is_waited_for(
    shop: Shop,
    web: FlaskClient,
    monkeypatch: pytest.MonkeyPatch,
    pay_until_waited_for: Callable[[Phone], Future[Shown]],
) -> None:
    phone = at_confirmation("hubtel", shop, web)
    again, answers = replace(phone, session="call-2"), []
    with before_first(
        monkeypatch, SessionEndings, "end_for_redial", lambda: answers.append(pay_until_waited_for(phone))
    ):
        assert again.dial().screen == f"{PENDING}\n1. Continue"
    assert answers[0].result(30) == APPROVE


def test_so_is_one_that_is_faster_than_a_redial_under_the_same_session_id(
    shop: Shop,
    web: FlaskClient,
    monkeypatch: pytest.MonkeyPatch,
    pay_until_waited_for: Callable[[Phone], Future[Shown]],
) -> None:
    phone = at_confirmation("madapi", shop, web)
    answers: list[Future[Shown]] = []
    same = replace(phone, entries=list(phone.entries))
    with before_first(
        monkeypatch, SessionEndings, "end_for_redial", lambda: answers.append(pay_until_waited_for(same))
    ):
        assert phone.dial().screen == f"{PENDING}\n1. Continue"
    assert answers[0].result(30) == APPROVE


def test_a_call_too_short_to_be_continued_is_not_because_it_was_waited_for(
    services: Services, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = at_accounts(services, web, "2")

    def break_off(*_: Any) -> Any:
        phone.hang_up()
        raise ValueError

    with monkeypatch.context() as broken:
        broken.setattr(type(services.balances), "get", break_off)
        broken.setattr(Sessions, "release", lambda *_: None)
        phone.type("1")
    # The first pause of the redial ends the claim, as the process that made it would have.
    monkeypatch.setattr(
        service_clock, "sleep", lambda _: UssdSession.update(working_token=None, working_until=None).execute()
    )
    assert replace(phone, session="call-2").dial().screen.startswith("Welcome to ACME")


def test_entries_that_were_dialled_along_are_applied_to_the_beginning(at: Dial) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    assert at("3", session="ATUid_2").startswith("CON Choose a language")


def test_another_code_of_the_same_client_continues_nothing(services: Services, shop: Shop, at: Dial) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    services.channels.assign_code(AssignCode("*200#", shop.client_id), OPERATOR)
    services.menus.bind_code(BindCode("*200#", shop.menu_id), shop.call)
    assert at("", session="ATUid_2", serviceCode="*200#").startswith("CON Welcome to ACME")


def test_a_continued_call_keeps_the_version_it_began_with(services: Services, shop: Shop, at: Dial) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    changed = shop_document(nodes={"amount": shop_document()["nodes"]["amount"] | {"text": {"en": "How much?"}}})
    services.menus.save_draft(SaveDraft("shop", changed), shop.call)
    services.menus.publish("shop", shop.call)
    assert at("", session="ATUid_2").startswith("CON Continue where you stopped?")
    assert at("1", session="ATUid_2").startswith("CON Enter amount")


def test_a_yes_whose_process_died_is_said_to_be_processed(shop: Shop, web: FlaskClient, clock: MovableClock) -> None:
    phone = at_confirmation("hubtel", shop, web)
    UssdSession.update(working_token="dead", working_until=clock.now() - timedelta(seconds=1)).execute()
    assert replace(phone, session="call-2").dial().screen == f"{PROCESSING}\n1. Continue"


def test_another_action_whose_process_died_is_not_continued(
    services: Services, web: FlaskClient, clock: MovableClock
) -> None:
    phone = at_accounts(services, web, "2", "7")
    UssdSession.update(working_token="dead", working_until=clock.now() - timedelta(seconds=1)).execute()
    assert replace(phone, session="call-2").dial().screen.startswith("Welcome to ACME")


def test_a_step_that_waits_too_long_for_a_payment_says_that_it_is_processed(
    shop: Shop, web: FlaskClient, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = at_confirmation("hubtel", shop, web)
    UssdSession.update(working_token="busy", working_until=clock.now() + timedelta(seconds=60)).execute()
    monkeypatch.setattr(Sessions, "attempts", lambda *_: range(1))
    assert phone.type("1") == Shown(PROCESSING, ends=True)


def test_a_claim_is_released_when_the_step_fails(
    services: Services, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = at_accounts(services, web, "2", "7")
    with monkeypatch.context() as broken:
        broken.setattr(type(services.balances), "get", _fail)
        assert phone.type("1").screen.startswith("Sorry")
    monkeypatch.setattr(service_clock, "sleep", _fail)
    assert replace(phone, session="call-2").dial().screen.startswith("Continue where you stopped?")


def test_a_payment_that_was_refused_after_the_subscriber_hung_up_is_not_said_to_be_processed(
    services: Services, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout = shop_document()["nodes"]["pay"] | {"kind": "disbursement"}
    phone = at_confirmation("hubtel", Shop(services, shop_document(nodes={"pay": payout})), web)
    with before_first(monkeypatch, TransactionService, "create", phone.hang_up):
        assert PROCESSING not in phone.type("1").screen
    assert Transaction.select().count() == 0


def test_a_claim_is_kept_while_it_is_unknown_whether_the_payment_was_created(
    shop: Shop, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = at_confirmation("hubtel", shop, web)
    with monkeypatch.context() as broken:
        broken.setattr(TransactionService, "create", _fail)
        assert phone.type("1") == Shown(PROCESSING, ends=True)
    monkeypatch.setattr(Sessions, "attempts", lambda *_: range(1))
    assert replace(phone, session="call-2").dial().screen == f"{PROCESSING}\n1. Continue"


def test_a_last_screen_that_was_not_delivered_and_paid_nothing_is_followed_by_the_first(
    at: Dial, shop: Shop, web: FlaskClient
) -> None:
    for text in ("", "1", "1*0", "1*0*2"):
        at(text)
    report = {"sessionId": "ATUid_1", "phoneNumber": PHONE, "status": "Failed"}
    assert web.post(f"{shop.channel.gateway_path}/events", data=report).status_code == 200
    assert at("", session="ATUid_2").startswith("CON Welcome to ACME")


def test_a_session_of_a_program_is_not_ended_by_its_phone(shop: Shop, services: Services, web: FlaskClient) -> None:
    services.api_sessions.begin(BeginSession(PHONE, shop.code, text="1*5000"), shop.call)
    UssdSession.update(turn=2).execute()
    assert phone_of("hubtel", shop, web).dial().screen.startswith("Welcome to ACME")
    assert UssdSession.select().where(UssdSession.status == "active").count() == 2


def _fail(*_: Any, **__: Any) -> Any:
    raise ValueError
