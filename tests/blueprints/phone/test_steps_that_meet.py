"""Two steps of one session, or a step and the end of its session, at the worst moment."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.blueprints.phone.phones import Shown, phone_of
from tests.conftest import MovableClock
from tests.support.moments import before_first
from tests.support.program import Program
from tests.support.shop import CODE, PHONE, Shop, shop_document
from ussd_server import clock as service_clock
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.keys import ApiKey
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.accounts.balances import BalanceService
from ussd_server.services.ussd.sessions import LEASE_SECONDS, Sessions

pytestmark = pytest.mark.both_databases


def test_a_yes_that_was_overtaken_by_going_back_pays_nothing(
    shop: Shop, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = phone_of("madapi", shop, web)
    for act in (phone.dial, lambda: phone.type("1"), lambda: phone.type("5000")):
        act()
    faster = replace(phone, entries=list(phone.entries))
    with before_first(monkeypatch, Sessions, "claim", lambda: faster.type("0")):
        assert phone.type("1").screen.startswith("Enter whole shillings")
    assert Transaction.select().count() == 0
    assert [turn["entry"] for turn in UssdSession.get().turns] == ["", "1", "5000", "0", "1"]


def test_a_yes_whose_session_ran_out_before_it_was_claimed_pays_nothing(
    shop: Shop, web: FlaskClient, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = phone_of("hubtel", shop, web)
    for act in (phone.dial, lambda: phone.type("1"), lambda: phone.type("5000")):
        act()
    clock.advance(174)
    with before_first(monkeypatch, Sessions, "claim", lambda: clock.advance(6)):
        assert not phone.type("1").ends
    assert Transaction.select().count() == 0


def test_a_step_that_lost_its_claim_leaves_it_to_the_step_that_took_over(
    app: Flask, shop: Shop, web: FlaskClient, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = phone_of("hubtel", shop, web)
    phone.dial()
    other = replace(phone, web=app.test_client(), entries=["2"])
    working, waited_for = threading.Event(), threading.Event()
    get, sleep, calls = BalanceService.get, service_clock.sleep, []

    def take_over() -> Shown:
        try:
            return other.again()
        finally:
            release_connection()

    def get_slowly(*call: Any) -> Any:
        calls.append(call)
        if len(calls) == 1:
            clock.advance(LEASE_SECONDS + 1)
            answers.append(pool.submit(take_over))
            assert working.wait(30)
        elif len(calls) == 2:
            working.set()
            assert waited_for.wait(30)
        return get(*call)

    def note_and_sleep(seconds: float) -> None:
        waited_for.set()
        sleep(seconds)

    monkeypatch.setattr(BalanceService, "get", get_slowly)
    monkeypatch.setattr(service_clock, "sleep", note_and_sleep)
    answers: list[Future[Shown]] = []
    with ThreadPoolExecutor(1) as pool:
        shown = phone.type("2")
        waited_for.set()
        assert shown == answers[0].result(30) == Shown("Your balance is UGX 0", ends=True)
    assert len(calls) == 2


@pytest.mark.parametrize("gateway", ["madapi", "africastalking"])
def test_a_step_is_not_written_while_another_is_in_progress(
    gateway: str, app: Flask, shop: Shop, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = phone_of(gateway, shop, web)
    phone.dial()
    slow = replace(phone, web=app.test_client(), entries=[])
    working, waited_for = threading.Event(), threading.Event()
    get, sleep = BalanceService.get, service_clock.sleep

    def get_slowly(*call: Any) -> Any:
        working.set()
        assert waited_for.wait(30)
        return get(*call)

    def note_and_sleep(seconds: float) -> None:
        waited_for.set()
        sleep(seconds)

    def ask_for_balance() -> Shown:
        try:
            return slow.type("2")
        finally:
            release_connection()

    monkeypatch.setattr(BalanceService, "get", get_slowly)
    monkeypatch.setattr(service_clock, "sleep", note_and_sleep)
    answers = []
    with ThreadPoolExecutor(1) as pool:

        def overtake() -> None:
            answers.append(pool.submit(ask_for_balance))
            assert working.wait(30)

        with before_first(monkeypatch, Sessions, "write", overtake):
            phone.type("1")
        waited_for.set()
        assert answers[0].result(30) == Shown("Your balance is UGX 0", ends=True)
    first = UssdSession.select().order_by(UssdSession.id).first()
    assert (first.status, [turn["entry"] for turn in first.turns]) == ("completed", ["", "2"])


@pytest.mark.parametrize(
    ("start", "write"), [("root", "insert_answered"), ("balance", "insert_claimed")], ids=["plain", "with an action"]
)
def test_a_session_never_begins_with_a_key_that_is_deleted_during_its_first_step(
    start: str, write: str, services: Services, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(services, shop_document(start=start))
    program = Program(services, web, client_id=shop.client_id)
    key_id = ApiKey.get().id

    def delete_key() -> None:
        services.api_keys.delete(key_id, shop.call)

    with before_first(monkeypatch, Sessions, write, delete_key):
        reply = program.post("/api/ussd/sessions", {"phone_number": PHONE, "service_code": CODE})
    assert (reply.status_code, reply.json["error"]) == (404, "SESSION_NOT_FOUND")
    assert UssdSession.select().count() == 0


def test_a_session_whose_time_is_up_is_not_ended_under_its_last_step(
    shop: Shop, services: Services, web: FlaskClient, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = phone_of("madapi", shop, web)
    phone.dial()
    clock.advance(174)
    ended = []

    def let_its_time_pass() -> None:
        clock.advance(6)
        ended.append(services.api_sessions.end_expired())

    with before_first(monkeypatch, BalanceService, "get", let_its_time_pass):
        assert phone.type("2") == Shown("Your balance is UGX 0", ends=True)
    assert (ended, UssdSession.get().status) == ([0], "completed")
