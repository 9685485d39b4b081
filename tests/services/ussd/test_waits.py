"""Menus that wait for a payment: they tell its outcome, hold up nobody, and hold no thread."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.services.ussd.test_ussd import dial, step_of
from tests.support.eventually import eventually
from tests.support.money import work
from tests.support.shop import Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import close_connections
from ussd_server.gateways import ADAPTERS
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import ShownOutcome, UssdSession
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.ussd import actions, sessions
from ussd_server.services.ussd.messages import EndReason, EnterText, SessionStatus
from ussd_server.threads import Turns

PAID, LATER = "Paid. Thank you.", "We will send you a message."


def waiting(seconds: int = 20, **fields: Any) -> dict[str, Any]:
    """A shop that waits for its payment."""
    ways = {"succeeded": {"end": PAID}, "failed": "bye", "waiting": {"end": LATER}}
    pay = shop_document()["nodes"]["pay"] | {"accepted": "wait"}
    return shop_document(nodes={"pay": pay, "wait": {"type": "wait_for_payment", "seconds": seconds, **ways, **fields}})


def beside(act: Callable[[], Any]) -> Future[Any]:
    """Do something in a thread of its own."""

    def done() -> Any:
        try:
            return act()
        finally:
            close_connections()

    pool = ThreadPoolExecutor(1)
    future = pool.submit(done)
    pool.shutdown(wait=False)
    return future


def test_a_conversation_tells_the_outcome_of_its_payment_once(services: Services, clock: MovableClock) -> None:
    shop = Shop(services, waiting())
    session = dial(shop, "1", "5000")
    last = beside(lambda: services.api_sessions.enter(EnterText(session.session_id, "1"), shop.call))
    eventually(lambda: Transaction.select().exists())
    work(services, clock, 10)
    assert last.result(15).message == PAID
    assert ShownOutcome.get().transaction_id == last.result().transaction_id
    assert dial(shop).message.startswith("Welcome"), "the outcome is not told again"


def test_a_wait_that_ends_too_early_leaves_the_outcome_to_the_next_dial(
    services: Services, clock: MovableClock
) -> None:
    shop = Shop(services, waiting(1))
    assert dial(shop, "1", "5000", "1").message == LATER
    assert not ShownOutcome.select().exists()
    work(services, clock, 10)
    assert "UGX 5,000" in dial(shop).message


def test_a_gateway_gets_a_screen_two_seconds_before_it_gives_up(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(ADAPTERS["africastalking"]), "answer_seconds", 2.5)
    shop = Shop(services, waiting())
    for text in ("", "1", "1*5000"):
        step_of(shop, text)
    assert step_of(shop, "1*5000*1") == f"END {LATER}"
    assert step_of(shop, "1*5000*1") == f"END {LATER}", "a repeat"
    assert Transaction.select().count() == 1


def test_a_step_that_waits_keeps_its_session_until_it_is_done(services: Services, clock: MovableClock) -> None:
    shop = Shop(services, waiting())
    for text in ("", "1", "1*5000"):
        step_of(shop, text)
    last = beside(lambda: step_of(shop, "1*5000*1"))
    eventually(lambda: Transaction.select().exists())
    eventually(lambda: (UssdSession.get().working_until - clock.now()).total_seconds() > 10)
    work(services, clock, 8)
    assert last.result(15) == f"END {PAID}"
    assert UssdSession.get().working_token is None


def test_a_redial_while_a_step_waits_tells_the_outcome_once(services: Services, clock: MovableClock) -> None:
    shop = Shop(services, waiting())
    for text in ("", "1", "1*5000"):
        step_of(shop, text)
    last = beside(lambda: step_of(shop, "1*5000*1"))
    eventually(lambda: Transaction.select().exists())
    session = UssdSession.get()
    assert services.api_sessions._sessions.endings.end(session, SessionStatus.ENDED_BY_USER, EndReason.HUNG_UP)
    redial = beside(lambda: step_of(shop, session_id="b"))
    work(services, clock, 10)
    assert "processed" in last.result(15), "the subscriber has hung up"
    assert "UGX 5,000" in redial.result(15)
    assert "Welcome" in step_of(shop, session_id="c"), "the outcome is not told again"


def test_beyond_the_permits_a_menu_goes_on_at_once(
    services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services.transactions, "_waiting_phones", Bulkhead(1))
    shop, other = Shop(services, waiting()), Shop(services, waiting(), code="*384*124#")
    session = dial(shop, "1", "5000")
    first = beside(lambda: services.api_sessions.enter(EnterText(session.session_id, "1"), shop.call))
    eventually(lambda: Transaction.select().exists())
    eventually(lambda: not services.transactions._waiting_phones._free)
    assert dial(other, "1", "5000", "1").message == LATER
    work(services, clock, 10)
    assert first.result(15).message == PAID


def test_a_wait_lends_the_turn_of_its_thread(services: Services, clock: MovableClock) -> None:
    shop = Shop(services, waiting())
    session = dial(shop, "1", "5000")
    turns, is_over = Turns(1), threading.Event()

    def wait() -> str:
        with turns.working():
            return services.api_sessions.enter(EnterText(session.session_id, "1"), shop.call).message

    last = beside(wait)
    eventually(lambda: Transaction.select().exists())
    with turns.working():
        work(services, clock, 10)
        is_over.set()
    assert last.result(15) == PAID


def test_a_redial_after_the_process_of_a_wait_was_killed_tells_the_payments_state(services: Services) -> None:
    shop = Shop(services, waiting(text="Approve it, then", waiting="wait"))
    screens = [step_of(shop, text) for text in ("", "1", "1*5000", "1*5000*1")]
    assert screens[-1].startswith("CON Approve it")
    # The process of its next step was killed.
    UssdSession.update(working_token="t").execute()
    again = step_of(shop, session_id="b")
    assert "UGX 5,000" in again
    assert "being processed" in again


def test_nginx_waits_for_a_screen_longer_than_a_menu_for_a_payment() -> None:
    site = (Path(__file__).parents[3] / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    (milliseconds,) = re.findall(r"proxy_read_timeout (\d+)ms;", site)
    longest = max(gateway.answer_seconds for gateway in ADAPTERS.values()) - sessions._RESERVE_SECONDS
    assert longest + actions._SECONDS_AFTER_A_WAIT < int(milliseconds) / 1000 < 10
