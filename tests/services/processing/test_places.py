"""A payment belongs to the place where it was first sent: only there it is queried and sent again."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest

from tests.conftest import MovableClock
from tests.services.processing.moves import NUMBERS, Move, old_connection
from tests.support.books import check_everything
from tests.support.money import operator
from ussd_server.cli.service.doctor_database import check_places
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Direction, Outcome, PaymentOrder
from ussd_server.services.processing.messages import Callback, EndReview
from ussd_server.services.processing.outcomes import REVIEW_ELSEWHERE
from ussd_server.services.providers.messages import AdoptPlace
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.settings import Settings
from ussd_server.status import ServiceError


@pytest.fixture(params=NUMBERS)
def move(request: pytest.FixtureRequest, settings: Settings, clock: MovableClock) -> Iterator[Move]:
    with ExitStack() as stack:
        yield Move(stack, settings, clock, request.param)


@pytest.mark.parametrize("kind", ["collection", "disbursement"])
def test_a_payment_under_way_is_not_paid_again_where_the_settings_lead_now(move: Move, kind: str) -> None:
    move.old.switches.change({"approve_delay_seconds": 250.0, "disbursements_pending": True})
    payment = move.pay(kind)
    move.work(0)
    move.start(move.new)
    move.work(700)
    row = Transaction.get_by_id(payment)
    assert (move.submits(move.old), move.submits(move.new)) == (1, 0)
    assert (row.status, row.review_reason) == ("pending", REVIEW_ELSEWHERE)
    (state,) = [each for each in move.services.provider_states.list(operator()) if each.provider == move.provider]
    assert state.waiting_elsewhere == {row.sent_to: 1}
    assert row.sent_to.startswith(f"{move.addresses[move.old]}")

    (finding,) = check_places(move.services.runtime.settings, move.services.runtime.providers)
    assert finding.found == f"payments wait: 1 for {row.sent_to}, which the settings no longer have"

    later = move.pay(kind, "second", 700)
    move.work(0)
    assert (move.submits(move.old), move.submits(move.new)) == (1, 1), "what was never sent goes to the new place"
    assert Transaction.get_by_id(later).sent_to.startswith(move.addresses[move.new])

    move.start(move.old)
    move.old.clock.advance(1000)
    move.work(400)
    row = Transaction.get_by_id(payment)
    assert (row.status, row.is_in_review) == ("succeeded", False), "settings that return end it"
    assert check_everything() == []


def test_a_draining_connection_finishes_its_own_and_takes_nothing_new(move: Move) -> None:
    move.old.switches.change({"approve_delay_seconds": 30.0})
    first = move.pay("collection")
    move.work(0)
    move.old.clock.advance(60)
    move.start(move.new, **old_connection(move))
    second = move.pay("collection", "second", 700)
    move.work(700)
    move.new.clock.advance(700)
    move.work(700)
    assert [Transaction.get_by_id(each).status for each in (first, second)] == ["succeeded", "succeeded"]
    assert (move.submits(move.old), move.submits(move.new)) == (1, 1)
    states = {each.connection: each for each in move.services.provider_states.list(operator())}
    assert states[f"{move.provider}-old"].message == "It takes no new payments and finishes its own."
    assert all(not each.waiting_elsewhere for each in states.values())

    back = move.services.refunds.create(CreateRefund(first, "back"), move.client).transaction.transaction_id
    move.work(100)
    assert Transaction.get_by_id(back).sent_to.startswith(move.addresses[move.old]), "refunds go to their collection's"
    assert (move.submits(move.old), move.submits(move.new)) == (2, 1)
    assert check_everything() == []


def test_two_operators_decide_about_a_payment_whose_place_is_gone(move: Move) -> None:
    payment = move.pay("disbursement")
    move.old.switches.change({"approve_delay_seconds": 250.0, "disbursements_pending": True})
    move.work(0)
    move.start(move.new)
    move.work(560)
    assert not Transaction.get_by_id(payment).is_in_review, "not before ten minutes after the last query there"
    move.work(100)
    decision = EndReview(payment, "their statement lacks it", "Ann", "Ben", has_succeeded=False)
    assert move.services.reviews.end(decision, operator()).transaction.status == "failed"
    move.work(4000)
    assert (move.submits(move.old), move.submits(move.new)) == (1, 0)
    assert check_everything() == []


def test_two_operators_may_say_that_two_places_are_one(move: Move) -> None:
    move.old.switches.change({"approve_delay_seconds": 30.0})
    payment = move.pay("collection")
    move.work(0)
    place = Transaction.get_by_id(payment).sent_to
    move.old.clock.advance(60)
    # The same stand-in under another name.
    move.addresses[move.new] = move.addresses[move.old].replace("127.0.0.1", "localhost")
    states = move.start(move.new).provider_states
    for wrong in (
        AdoptPlace(place, move.provider, "renamed", "Ann", "ann"),
        AdoptPlace(place, "other", "renamed", "Ann", "Bob"),
        AdoptPlace("https://elsewhere:443", move.provider, "renamed", "Ann", "Bob"),
    ):
        with pytest.raises(ServiceError):
            states.adopt(wrong, operator())
    assert states.adopt(AdoptPlace(place, move.provider, "renamed", "Ann", "Bob"), operator()).payment_count == 1
    move.work(300)
    assert Transaction.get_by_id(payment).status == "succeeded"


@pytest.mark.parametrize("move", ["mtn"], indirect=True)
def test_another_user_of_the_same_address_is_another_place_and_another_password_is_not(move: Move) -> None:
    move.old.switches.change({"approve_delay_seconds": 30.0})
    payment = move.pay("collection")
    move.work(0)
    move.start(move.old, USSD_MTN_COLLECTION_API_USER="11111111-2222-4333-8444-555555555555")
    move.work(100)
    assert Transaction.get_by_id(payment).status == "pending"
    move.start(move.old, USSD_MTN_COLLECTION_API_KEY="renewed")
    assert move.services.runtime.providers.of_payment("mtn", Transaction.get_by_id(payment).sent_to, "collection")


def call_back(move: Move, reference: str) -> None:
    """The callback of either address about a reference: its body says a success, which nobody believes."""
    path = move.services.runtime.tokens.callback_path(move.provider)
    body = {"externalId": reference, "status": "SUCCESSFUL", "transaction": {"id": reference, "status_code": "TS"}}
    move.services.callbacks.receive(Callback(move.provider, path.rpartition("/")[2], json.dumps(body).encode()))


def sent_and_pending(move: Move) -> Transaction:
    """A collection that the old address works on for some minutes, when the settings have moved."""
    for each in (move.old, move.new):
        each.switches.change({"approve_delay_seconds": 200.0})
    payment = move.pay("collection")
    move.work(0)
    move.start(move.new, **old_connection(move))
    row: Transaction = Transaction.get_by_id(payment)
    assert row.status == "pending"
    return row


def test_a_callback_from_the_old_address_finishes_the_payment_that_was_sent_there(move: Move) -> None:
    row, other = sent_and_pending(move), move.pay("collection", "second", 700)
    move.work(0)
    move.old.clock.advance(400)
    Transaction.update(due_at=move.clock.now() + timedelta(hours=1)).where(Transaction.id == row.id).execute()
    call_back(move, row.provider_reference)
    move.work(0)
    rows = [Transaction.get_by_id(each) for each in (row.id, other)]
    assert [each.status for each in rows] == ["succeeded", "pending"]
    assert rows[0].sent_to.startswith(move.addresses[move.old])
    assert check_everything() == []


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_callback_about_a_payment_of_the_same_name_at_the_new_address_finishes_nothing(
    move: Move, is_gone: bool
) -> None:
    """The new address has a success under the reference of a payment that the old one works on."""
    row = sent_and_pending(move)
    new = next(each for each in move.services.runtime.providers.connections if each.connection == move.provider)
    reference = row.provider_reference.replace("-", "") if new.plain_references else row.provider_reference
    order = PaymentOrder(row.id, reference, Direction.COLLECTION, row.phone_number, row.amount_cents, "UGX")
    new.send(order, 5.0)
    move.new.clock.advance(250)
    assert new.query_status(order, 5.0).outcome is Outcome.SUCCEEDED
    if is_gone:
        move.start(move.new)
    call_back(move, row.provider_reference)
    move.work(0)
    assert Transaction.get_by_id(row.id).status == "pending"
    if is_gone:
        move.start(move.new, **old_connection(move))
    move.old.clock.advance(400)
    call_back(move, row.provider_reference)
    move.work(100)
    row = Transaction.get_by_id(row.id)
    receipts = [payment.receipt for payment in move.old.book.payments()]
    assert (row.status, [row.provider_transaction_id]) == ("succeeded", receipts)
    assert check_everything() == []


def test_the_log_says_why_a_payment_was_not_sent(move: Move, caplog: pytest.LogCaptureFixture) -> None:
    move.old.switches.change({"error_status": 401, "calls": ["token"]})
    caplog.set_level(logging.INFO, "ussd_server.services.processing.processor")
    move.pay("collection")
    move.work(0)
    (line,) = [each for each in map(json.loads, caplog.messages) if each["event"] == "a provider was called"]
    assert (line["outcome"], "HTTP 401" in line["why"]) == ("not_sent", True)
