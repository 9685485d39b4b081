"""Transcripts of sessions, the same with every gateway."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.blueprints.phone.phones import Phone, every_gateway, phone_of
from tests.conftest import MovableClock
from tests.support.money import work
from tests.support.program import Program
from tests.support.shop import PHONE, VOUCHER, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession

PAYING = """
- dial
Welcome to ACME
1. Pay
2. Balance
3. Language
4. Voucher
- again
Welcome to ACME
1. Pay
2. Balance
3. Language
4. Voucher
- type 1
Enter amount (UGX)
0 Back
- again
Enter amount (UGX)
0 Back
- type 20
Enter whole shillings, 500 to 999,999.
Enter amount (UGX)
0 Back
- type 5000
Pay UGX 5,000?
1. Yes
2. No
0 Back
- again
Pay UGX 5,000?
1. Yes
2. No
0 Back
- type 1
Approve the prompt on your phone.
- the call is over
- again
Approve the prompt on your phone.
- the call is over
"""

GOING_BACK_AND_HOME = """
- dial
Welcome to ACME
1. Pay
2. Balance
3. Language
4. Voucher
- type 1
Enter amount (UGX)
0 Back
- type 0
Welcome to ACME
1. Pay
2. Balance
3. Language
4. Voucher
- type 7
Invalid choice.
Welcome to ACME
1. Pay
2. Balance
3. Language
4. Voucher
- type 1
Enter amount (UGX)
0 Back
- type 5000
Pay UGX 5,000?
1. Yes
2. No
0 Back
- type 2
Welcome to ACME
1. Pay
2. Balance
3. Language
4. Voucher
- type 2
Your balance is UGX 0
- the call is over
"""

CONTINUED = """
- dial
Continue where you stopped?
1. Yes
2. Start again
- type 1
Enter amount (UGX)
0 Back
"""


def held(phone: Phone, acts: list[str]) -> str:
    """Play the entries of a person and return what the phone shows."""
    written = [""]
    for act in acts:
        shown = phone.type(act.removeprefix("type ")) if act.startswith("type ") else getattr(phone, act)()
        written += [f"- {act}", shown.screen]
        if shown.ends:
            written.append("- the call is over")
    return "\n".join([*written, ""])


def acts_of(transcript: str) -> list[str]:
    """What the person does in a transcript."""
    lines = [line.removeprefix("- ") for line in transcript.splitlines() if line.startswith("- ")]
    return [line for line in lines if line != "the call is over"]


@every_gateway
def test_a_subscriber_goes_back_and_says_no(gateway: str, shop: Shop, web: FlaskClient) -> None:
    assert held(phone_of(gateway, shop, web), acts_of(GOING_BACK_AND_HOME)) == GOING_BACK_AND_HOME
    assert Transaction.select().count() == 0


@every_gateway
def test_a_bill_is_paid_once_though_the_gateway_repeats_its_steps(gateway: str, shop: Shop, web: FlaskClient) -> None:
    assert held(phone_of(gateway, shop, web), acts_of(PAYING)) == PAYING
    (payment,), (session,) = Transaction.select(), UssdSession.select()
    assert (payment.amount_cents, payment.type, payment.status) == (500_000, "collection", "created")
    assert (payment.phone_number, payment.client_id, payment.session_id) == (PHONE, shop.client_id, session.id)
    assert payment.reference == f"ussd-{session.id}-sure#1"
    assert (session.status, session.end_reason, session.transaction_id) == ("completed", "last_screen", payment.id)
    assert session.turn == 4
    event = Event.get(Event.type == "ussd.session.ended")
    assert (event.object_id, event.sequence, event.payload["menu_id"]) == (session.id, 1, "shop")


@every_gateway
def test_a_call_that_broke_off_is_continued_where_it_stopped(gateway: str, shop: Shop, web: FlaskClient) -> None:
    phone = phone_of(gateway, shop, web)
    held(phone, ["dial", "type 1", "type 5000"])
    phone.hang_up()
    phone.session = "call-2"
    assert held(phone, ["dial", "type 1"]) == CONTINUED
    first, second = UssdSession.select().order_by(UssdSession.id)
    reported = {"africastalking": "abandoned", "dmark": "redialled"}.get(gateway, "hung_up")
    assert (first.end_reason, second.status) == (reported, "active")


@pytest.mark.parametrize(
    ("number", "seconds_later", "shown"),
    [
        ("+256770000000", 1, "Your payment of UGX 5,000 to ACME succeeded.\n0 Menu"),
        ("+256770000002", 1, "Your payment of UGX 5,000 to ACME failed.\n0 Menu"),
        ("+256770000004", 1, "Your payment of UGX 5,000 to ACME is being processed.\n1. Continue"),
        ("+256770000004", 4, "Your payment of UGX 5,000 to ACME succeeded.\n0 Menu"),
    ],
)
def test_the_outcome_of_a_payment_is_the_first_screen_of_the_next_call(
    number: str, seconds_later: int, shown: str, services: Services, clock: MovableClock, web: FlaskClient
) -> None:
    go_on = shop_document()["nodes"]["pay"] | {"accepted": {"goto": "used"}}
    phone = phone_of("hubtel", Shop(services, shop_document(nodes={"pay": go_on})), web)
    phone.number = number
    held(phone, ["dial", "type 1", "type 5000", "type 1"])
    phone.hang_up()
    work(services, clock, seconds_later)
    phone.session = "call-2"
    assert phone.dial().screen == shown
    assert phone.type("1").screen.startswith("Welcome to ACME")


@every_gateway
def test_an_error_is_shown_in_the_subscribers_language(
    gateway: str, shop: Shop, web: FlaskClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    phone = phone_of(gateway, shop, web)
    held(phone, ["dial", "type 3", "type 2"])
    monkeypatch.setattr("ussd_server.services.ussd.conversations.enter", _fail)
    assert phone.type("1") == ("Nsonyiwa, tekisobose. Gezaako nate oluvannyuma.", True)
    assert "ValueError" in caplog.text
    assert VOUCHER not in caplog.text


@every_gateway
def test_a_secret_entry_is_in_no_log_no_table_and_no_answer_of_the_api(
    gateway: str, shop: Shop, services: Services, web: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    phone = phone_of(gateway, shop, web)
    program = Program(services, web, client_id=shop.client_id)
    held(phone, ["dial", "type 4", f"type {VOUCHER}"])
    assert phone.again().screen.startswith("Your voucher was noted."), "a repeat is known without the secret"
    assert len(UssdSession.get().turns) == 3
    session = program.get(f"/api/ussd/sessions/{UssdSession.get().id}").text
    phone.hang_up()
    assert "****" in session
    for place in (session, caplog.text, _everything_stored()):
        assert VOUCHER not in place


def _everything_stored() -> str:
    tables = database.get_tables()
    assert "ussd_sessions" in tables
    return repr([database.execute_sql(f'SELECT * FROM "{table}"').fetchall() for table in tables])


def _fail(*_: Any) -> Any:
    raise ValueError(f"the entry was {VOUCHER}")
