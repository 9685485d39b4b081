"""For a day after a change of place, and after a restore, earlier connections are asked before a payment is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import MovableClock
from tests.services.processing.moves import NUMBERS, Move, old_connection
from tests.support.books import check_everything
from tests.support.money import operator
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Direction, Outcome, PaymentOrder, ProviderAnswer
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.settings import Settings

_DAY_SECONDS = 86_400


@pytest.fixture(params=NUMBERS)
def move(request: pytest.FixtureRequest, settings: Settings, clock: MovableClock) -> Iterator[Move]:
    with ExitStack() as stack:
        yield Move(stack, settings, clock, request.param)


def lose(move: Move, payment: str) -> None:
    """Send a payment by the old connection as a process did whose commit was lost."""
    row = Transaction.get_by_id(payment)
    old = next(each for each in move.services.runtime.providers.connections if each.connection.endswith("-old"))
    reference = row.provider_reference.replace("-", "") if old.plain_references else row.provider_reference
    order = PaymentOrder(row.id, reference, Direction(row.type), row.phone_number, row.amount_cents, row.currency)
    old.send(order, 5.0)


@pytest.mark.parametrize("kind", ["collection", "disbursement"])
def test_a_payment_that_the_earlier_connection_has_stays_there(move: Move, kind: str) -> None:
    move.work(0)
    move.start(move.new, **old_connection(move))
    lost, other = move.pay(kind, "lost"), move.pay(kind, "other", 700)
    lose(move, lost)
    move.work(700)
    rows = [Transaction.get_by_id(each) for each in (lost, other)]
    assert [each.status for each in rows] == ["succeeded", "succeeded"]
    assert [each.sent_to.startswith(move.addresses[move.old]) for each in rows] == [True, False]
    assert (move.submits(move.old), move.submits(move.new)) == (1, 1)
    assert check_everything() == []


def test_a_payment_waits_while_the_earlier_connection_is_silent_and_goes_on_after_a_day(move: Move) -> None:
    move.start(move.new, **old_connection(move))
    move.old.switches.change({"calls": ["status"], "error_status": 500})
    first = move.pay("collection")
    move.work(90)
    row = Transaction.get_by_id(first)
    assert (row.status, row.failure_code) == ("failed", "PROVIDER_UNAVAILABLE"), "as while the provider itself is away"
    move.clock.advance(_DAY_SECONDS)
    move.pay("collection", "second", 700)
    move.work(10)
    assert (move.submits(move.old), move.submits(move.new)) == (0, 1)


def test_a_payment_is_not_taken_for_that_of_an_earlier_connection_that_was_not_reached(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    move.start(move.new, **old_connection(move))
    old = next(each for each in move.services.runtime.providers.connections if each.connection.endswith("-old"))
    monkeypatch.setattr(old, "query_status", lambda *_: ProviderAnswer(Outcome.NOT_SENT))
    first = move.pay("collection")
    move.work(20)
    assert Transaction.get_by_id(first).sent_to is None
    monkeypatch.undo()
    move.work(60)
    row = Transaction.get_by_id(first)
    new = move.services.runtime.providers.get(row.provider)
    assert (row.sent_to.startswith(move.addresses[move.new]), row.provider_account) == (True, new and new.account)


def test_after_a_restore_earlier_connections_are_asked_again(move: Move) -> None:
    move.start(move.new, **old_connection(move))
    move.work(0)
    move.clock.advance(2 * _DAY_SECONDS)
    move.start(move.new, **old_connection(move), USSD_HOLD_MONEY="1")
    move.work(0)
    move.start(move.new, **old_connection(move))
    lost = move.pay("disbursement", "lost")
    lose(move, lost)
    move.work(700)
    assert (move.submits(move.old), move.submits(move.new)) == (1, 0)
    assert Transaction.get_by_id(lost).status == "succeeded"


def test_a_refund_without_an_enquiry_is_sent_where_its_collection_was_made(move: Move) -> None:
    collection = move.pay("collection")
    move.work(200)
    move.old.clock.advance(200)
    move.work(400)
    move.start(move.new, **old_connection(move))
    back = move.services.refunds.create(CreateRefund(collection, "back"), move.client).transaction.transaction_id
    move.work(100)
    assert Transaction.get_by_id(back).sent_to.startswith(move.addresses[move.old])
    assert (move.submits(move.old), move.submits(move.new)) == (2, 0)


@pytest.mark.parametrize("move", ["airtel"], indirect=True)
def test_a_refund_that_has_no_enquiry_is_no_call_at_the_earlier_connection(move: Move) -> None:
    move.work(0)
    move.start(move.new, **old_connection(move))
    collection = move.pay("collection")
    move.work(200)
    move.new.clock.advance(200)
    move.work(400)
    before = _call_counts(move)
    move.services.refunds.create(CreateRefund(collection, "back"), move.client)
    move.work(0)
    assert move.submits(move.new) == 2
    assert _call_counts(move) == before | {"airtel": before["airtel"] + 1}


def _call_counts(move: Move) -> dict[str, int]:
    move.services.runtime.heartbeat.beat()
    return {each.connection: each.call_count for each in move.services.provider_states.list(operator())}
