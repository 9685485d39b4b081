"""Reviews that two operators settle as succeeded: the receipt that they name is written, or refused by name."""

from __future__ import annotations

import pytest

from tests.gates.two_records import PAYER, RECEIPT, held, main_of
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World
from tests.support.books import check_everything
from tests.support.money import operator
from ussd_server.models.transactions import Transaction
from ussd_server.services.movements.messages import EndMovement
from ussd_server.services.processing.messages import EndReview
from ussd_server.status import ServiceError

pytestmark = pytest.mark.both_databases


def silent(ours: Enquired) -> None:
    """Nobody confirms the payment in time."""
    ours.world.clock.advance(3 * 3600)
    Transaction.update(due_at=ours.world.clock.now()).where(Transaction.id == ours.transaction_id).execute()
    ours.world.work()
    assert ours.row.is_in_review


def settling(ours: Enquired, receipt: str | None) -> EndReview:
    return EndReview(
        ours.transaction_id, "MTN's support, by telephone", BY, SECOND, has_succeeded=True, receipt=receipt
    )


def test_a_settled_success_takes_the_receipt_of_its_money_which_is_never_booked_again(
    world: World, ours: Enquired
) -> None:
    silent(ours)
    before = main_of(world.client.id)
    world.services.reviews.end(settling(ours, " 3100-0000041 "), operator())
    assert main_of(world.client.id) - before == CENTS
    world.clock.advance(25 * 3600)
    told = world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=None)
    assert (told.status, told.transaction_id) == ("booked", ours.transaction_id)
    assert main_of(world.client.id) - before == CENTS


def test_a_receipt_of_other_money_settles_nothing_and_is_named(world: World, ours: Enquired) -> None:
    silent(ours)
    services = world.services
    sold = world.till.pay("SCH1042", SHILLINGS, "S1", number="+256772999999")
    for receipt, shillings, number in (("LESS", 3000, PAYER), ("OTHER", SHILLINGS, "+256772999998")):
        world.till.pay("no code", shillings, receipt, number=number)
    world.till.pay("no code", 77, "OWN", number="+256772999997")
    own = held(world)[0]
    services.movement_uses.take_as_own(EndMovement(own.movement_id, "Ours", BY, SECOND), operator())
    movements = {each.receipts[0]: each.movement_id for each in held(world)}
    for receipt, sentence in (
        ("S1", f"that of transaction {sold.transaction_id}"),
        ("LESS", f"that of movement {movements['LESS']}, which is of UGX 3,000"),
        ("OTHER", f"that of movement {movements['OTHER']}, which is of another number"),
        ("OWN", f"that of movement {own.movement_id}, which is used otherwise"),
        (" - ", "1 to 200 characters"),
    ):
        with pytest.raises(ServiceError, match=sentence):
            services.reviews.end(settling(ours, receipt), operator())
    assert ours.row.is_in_review


def test_operators_name_a_receipt_as_long_as_a_till_and_a_statement_may(world: World, ours: Enquired) -> None:
    silent(ours)
    world.till.pay("thanks", SHILLINGS, "L" * 200, number=PAYER)
    with pytest.raises(ServiceError, match="1 to 200 characters"):
        world.services.reviews.end(settling(ours, "L" * 201), operator())
    world.services.reviews.end(settling(ours, "L" * 200), operator())
    assert (held(world), ours.row.status) == ((), "succeeded")


@pytest.mark.parametrize("is_told_before", [False, True])
def test_other_money_that_operators_settle_with_a_receipt_has_it(
    world: World, ours: Enquired, is_told_before: bool
) -> None:
    booked = world.till.pay("SCH1042", SHILLINGS, "FIRST", number=None)
    ours.succeeds()
    ours.ask_now()
    assert (booked.status, ours.row.is_in_review) == ("booked", True), "it may be the same money"
    if is_told_before:
        assert world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=PAYER).status == "held"
    world.services.reviews.end(settling(ours, RECEIPT), operator())
    assert ours.row.status == "succeeded"
    told = world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=None)
    assert (told.transaction_id, held(world)) == (ours.transaction_id, ())
    assert check_everything() == []
