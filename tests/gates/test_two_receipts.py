"""Payments to which their provider gives two receipts, as Airtel does: both name the same money."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from tests.gates.two_records import HASHED, PAYER, RECEIPT, held, main_of, named_by_check, other_client, seen, settle
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Assigned, Enquired, World
from tests.services.reconciliation.statement_files import reconcile
from tests.support.books import check_everything
from tests.support.crowd import at_once
from tests.support.money import operator
from ussd_server.context import operator_context
from ussd_server.models.movements import Movement
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.gates.likeness import WITH_TWO_RECEIPTS
from ussd_server.services.movements.messages import AssignMovement, EndMovement, ListMovements, SameMovement
from ussd_server.services.search.messages import Search
from ussd_server.services.transactions.messages import ListTransactions
from ussd_server.status import ServiceError

IN_MESSAGE = "TR-77001"
WRITTEN = (IN_MESSAGE, " tr77\u200b001")


def succeed(world: World, ours: Enquired) -> None:
    """Let the collection succeed under both receipts."""
    world.provider.answers[ours.transaction_id] = ProviderAnswer(
        Outcome.SUCCEEDED, provider_transaction_id=RECEIPT, amount_cents=CENTS, receipt=IN_MESSAGE
    )
    ours.ask_now()


@pytest.mark.parametrize("written", WRITTEN)
def test_a_notice_under_the_second_receipt_of_a_collection_is_not_booked(
    world: World, ours: Enquired, written: str
) -> None:
    succeed(world, ours)
    for receipt in (written, RECEIPT, written):
        assert world.notify(receipt, PAYER).transaction_id == ours.transaction_id
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []
    context = operator_context(world.client.id)
    listed = world.services.transactions.list(ListTransactions(provider_transaction_id=written), context).items
    assert [each.transaction_id for each in listed] == [ours.transaction_id]
    assert ours.transaction_id in [hit.id for hit in world.services.search.find(Search(written), operator()).items]
    assert reconcile(world.services, [ours.line(written, "")]).statement.difference_count == 0


@pytest.fixture
def gives_two_receipts() -> Iterator[None]:
    """The sandbox as a provider whose payments may have a second receipt."""
    WITH_TWO_RECEIPTS.add("sandbox")
    yield
    WITH_TWO_RECEIPTS.discard("sandbox")


@pytest.mark.usefixtures("gives_two_receipts")
def test_a_payers_payment_under_the_only_receipt_that_is_known_is_given_back(world: World, ours: Enquired) -> None:
    paid = world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=HASHED)
    ours.report()
    assert (seen(world, paid.transaction_id).status, main_of(world.client.id)) == ("reversed", 2 * CENTS)
    assert check_everything() == []


@pytest.mark.usefixtures("gives_two_receipts")
def test_operators_say_that_what_is_held_beside_the_only_receipt_is_the_second_one(
    world: World, ours: Enquired
) -> None:
    ours.report()
    for receipt in (IN_MESSAGE, "N3"):
        world.till.pay("SCH1042", SHILLINGS, receipt, number=PAYER)
    third, second = held(world)
    assert [each.transaction_id for each in second.beside] == [ours.transaction_id]
    world.services.movement_uses.take_as_same(SameMovement(second.movement_id, BY, SECOND), operator())
    assert world.notify(IN_MESSAGE, PAYER).transaction_id == ours.transaction_id
    say = SameMovement(third.movement_id, BY, SECOND, ours.transaction_id)
    with pytest.raises(ServiceError, match="no payment of its amount"):
        world.services.movement_uses.take_as_same(say, operator())
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


@pytest.mark.usefixtures("gives_two_receipts")
def test_a_payers_payment_under_another_receipt_than_the_one_that_is_known_is_reviewed(
    world: World, ours: Enquired
) -> None:
    paid = world.till.pay("SCH1042", SHILLINGS, IN_MESSAGE, number=HASHED)
    ours.report()
    assert main_of(world.client.id) == 2 * CENTS
    (review,) = world.services.reviews.list(operator())
    assert str(paid.transaction_id) in str(review.reason)


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("way", ["notice", "statement"])
def test_a_payers_payment_under_the_second_receipt_is_given_back(
    world: World, ours: Enquired, written: str, way: str
) -> None:
    if way == "notice":
        world.till.pay("SCH1042", SHILLINGS, written, number=HASHED)
    else:
        # Of the same number, it would wait for the collection.
        Assigned(world, "held", "+256772000009", written).report()
    paid = Movement.get().transaction_id
    assert main_of(world.client.id) == 2 * CENTS
    succeed(world, ours)
    assert (seen(world, paid).status, seen(world, paid).same_money_as) == ("reversed", ours.transaction_id)
    for receipt in (RECEIPT, written):
        assert world.notify(receipt, PAYER).status == "booked"
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_notices_under_both_receipts_wait_for_the_collection_and_prove_to_be_one(world: World, ours: Enquired) -> None:
    for receipt in (IN_MESSAGE, RECEIPT):
        assert world.notify(receipt, PAYER).status == "held"
    succeed(world, ours)
    assert held(world) == ()
    assert world.services.notices.decide_waiting() == 0
    for receipt in (IN_MESSAGE, RECEIPT):
        assert world.notify(receipt, PAYER).transaction_id == ours.transaction_id
    (used,) = world.services.movements.list(ListMovements(), operator()).items
    assert sorted(used.receipts) == sorted((IN_MESSAGE, RECEIPT))
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_the_second_receipt_of_another_clients_payment_goes_to_review(world: World, ours: Enquired) -> None:
    other_client(world.services)
    paid = world.till.pay("TEA1", SHILLINGS, IN_MESSAGE, number=HASHED)
    succeed(world, ours)
    assert main_of(world.client.id) == CENTS
    assert named_by_check() == {ours.transaction_id, paid.transaction_id}
    settle(world, ours.transaction_id, has_succeeded=True)
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_a_second_receipt_that_was_marked_for_return_goes_to_review(world: World, ours: Enquired) -> None:
    world.till.pay("unknown", SHILLINGS, IN_MESSAGE, number=HASHED)
    (unknown,) = held(world)
    marked = EndMovement(unknown.movement_id, "The payer asked for it", BY, SECOND)
    world.services.movement_uses.mark_returned(marked, operator())
    succeed(world, ours)
    assert main_of(world.client.id) == CENTS
    assert [each.transaction.transaction_id for each in world.services.reviews.list(operator())] == [
        ours.transaction_id
    ]


def test_money_of_another_amount_under_the_second_receipt_is_not_booked_beside_the_collection(
    world: World, ours: Enquired
) -> None:
    world.till.pay("unknown", 3000, IN_MESSAGE, number=HASHED)
    succeed(world, ours)
    (moved,) = held(world)
    with pytest.raises(ServiceError, match="has this receipt"):
        world.services.movement_uses.assign(AssignMovement(moved.movement_id, "SCH1042", BY, SECOND), operator())
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_receipts_of_two_payers_payments_are_not_one_collection(world: World, ours: Enquired) -> None:
    for receipt in (RECEIPT, IN_MESSAGE):
        world.till.pay("SCH1042", SHILLINGS, receipt, number=HASHED)
    succeed(world, ours)
    assert main_of(world.client.id) == 3 * CENTS
    assert len(named_by_check()) == 2


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize("number", [PAYER, HASHED])
def test_both_receipts_and_the_success_at_the_same_moment_are_one_money(
    world: World, ours: Enquired, number: str | None
) -> None:
    def report(receipt: str) -> None:
        world.till.pay("SCH1042", SHILLINGS, receipt, number=number)

    answers = at_once([partial(report, IN_MESSAGE), partial(succeed, world, ours), partial(report, IN_MESSAGE)])
    assert answers == [None] * 3
    world.work()
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []
