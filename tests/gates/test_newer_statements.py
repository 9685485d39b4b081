"""What a newer statement tells of money about which operators have decided: nothing new, and nothing twice.

Each test ends with the invariant check.
"""

from __future__ import annotations

import pytest

from tests.gates.test_corrections import CASE, MOVED, correct
from tests.gates.test_releases import sold
from tests.gates.two_records import PAYER, RECEIPT, held, main_of
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World
from tests.services.reconciliation.statement_files import mtn_row, open_reviews, reconcile
from tests.support.money import operator, work
from ussd_server.context import operator_context
from ussd_server.models.transactions import Transaction
from ussd_server.services.movements.messages import AssignMovement, EndMovement, SameMovement, UndonePayment
from ussd_server.services.reconciliation.messages import UndoImport
from ussd_server.services.transactions.messages import CreateRefund

pytestmark = [pytest.mark.both_databases, pytest.mark.usefixtures("books")]


def other_line() -> list[str]:
    """A line of another payment, which makes a file another one."""
    return mtn_row(Transaction.get(Transaction.reference == "sold"))


def unmoved(world: World, transaction_id: str) -> None:
    world.services.releases.end_unmoved(UndonePayment(transaction_id, CASE, BY, SECOND), operator())


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("at_once", [True, False])
def test_the_providers_own_reversal_beside_a_refund_is_held_in_whichever_file_it_comes(
    world: World, ours: Enquired, at_once: bool, is_named: bool
) -> None:
    ours.report()
    # As at Airtel, the refund has the receipt of its collection, and its line another one.
    world.refund(ours.transaction_id, RECEIPT)
    refund = Transaction.get(Transaction.refund_of == ours.transaction_id)
    name = refund.provider_reference if is_named else ours.row.provider_reference
    refunded = mtn_row(refund, Id="RF", **{"External id": name})
    sale, taken = mtn_row(ours.row), mtn_row(ours.row, Id="REV1", Type="Reversal")
    for lines in [[taken, refunded]] if at_once else [[taken], [refunded, taken]]:
        reconcile(world.services, [sale, *lines])
    (second,) = held(world)
    reconcile(world.services, [refunded, taken, sale])
    assert (held(world), open_reviews(world.services)) == ((second,), ())
    before = main_of(world.client.id)
    correct(world, second)
    assert before - main_of(world.client.id) == CENTS


@pytest.mark.parametrize("receipt", ["P1", "P2", None, "other"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_second_payment_under_our_own_name_is_held_in_whichever_file_it_comes(
    world: World, ours: Enquired, at_once: bool, receipt: str | None
) -> None:
    ours.succeeds(receipt)
    ours.ask_now()
    first, second = mtn_row(ours.row, Id="P1"), mtn_row(ours.row, Id="P2")
    for lines in [[first, second]] if at_once else [[first], [second]]:
        found = reconcile(world.services, lines)
    (twice,) = held(world)
    assert found.statement.theirs_cents - found.statement.ours_cents == CENTS
    reconcile(world.services, [second, first])
    assert [each.movement_id for each in held(world)] == [twice.movement_id]
    assert open_reviews(world.services) == ()


@pytest.mark.parametrize("at_once", [True, False])
def test_a_second_refund_under_the_receipt_of_its_collection_is_held(
    world: World, ours: Enquired, at_once: bool
) -> None:
    ours.report()
    world.refund(ours.transaction_id, RECEIPT)
    sale, refunded = mtn_row(ours.row), mtn_row(ours.row, Type="Reversal")
    for lines in [[sale, refunded, refunded]] if at_once else [[sale, refunded], [refunded, sale, refunded]]:
        reconcile(world.services, lines)
    (lost,) = held(world)
    reconcile(world.services, [refunded, refunded, sale])
    assert ([each.movement_id for each in held(world)], open_reviews(world.services)) == ([lost.movement_id], ())


def test_a_line_that_names_one_success_under_the_receipt_of_another_is_reviewed(world: World, ours: Enquired) -> None:
    sold(world)
    before = main_of(world.client.id)
    ours.succeeds()
    ours.ask_now()
    world.notify(RECEIPT, PAYER)
    (beside,) = held(world)
    world.services.movement_uses.assign(AssignMovement(beside.movement_id, "SCH1042", BY, SECOND), operator())
    reconcile(world.services, [other_line(), mtn_row(ours.row, Id=RECEIPT)])
    paid = Transaction.get(Transaction.origin == "payer")
    assert ours.row.review_reason == f"its receipt is that of transaction {paid.id}"
    world.services.releases.release(EndMovement(beside.movement_id, CASE, BY, SECOND), operator())
    same = SameMovement(beside.movement_id, BY, SECOND, ours.transaction_id)
    world.services.movement_uses.take_as_same(same, operator())
    assert (main_of(world.client.id) - before, held(world)) == (CENTS, ())


def test_what_replaced_a_success_of_another_amount_is_not_held_again(world: World, ours: Enquired) -> None:
    sold(world)
    before = main_of(world.client.id)
    ours.report()
    line = mtn_row(ours.row, Amount="3,000.00")
    reconcile(world.services, [other_line(), line])
    (moved,) = held(world)
    unmoved(world, ours.transaction_id)
    correct(world, moved)
    reconcile(world.services, [line, other_line()])
    assert (held(world), open_reviews(world.services)) == ((), ())
    shown = world.services.movements.show(moved.movement_id, operator())
    assert (shown.receipts, main_of(world.client.id) - before) == ((RECEIPT,), MOVED)


@pytest.mark.parametrize("amounts", [("3,000.00", "4,000.00"), ("4,000.00", "3,000.00")])
def test_what_replaced_a_success_is_not_held_again_beside_a_third_amount(
    world: World, ours: Enquired, amounts: tuple[str, str]
) -> None:
    sold(world)
    ours.report()
    for amount in amounts:
        reconcile(world.services, [other_line(), mtn_row(ours.row, Amount=amount)])
    unmoved(world, ours.transaction_id)
    (moved,) = (each for each in held(world) if each.amount_cents == MOVED)
    correct(world, moved)
    reconcile(world.services, [mtn_row(ours.row, Amount="3,000.00"), other_line()])
    assert [each.amount_cents for each in held(world)] == [400_000]


def test_what_moved_of_a_collection_and_of_a_refund_under_its_receipt_is_found_by_its_direction(world: World) -> None:
    sale = sold(world)
    world.refund(sale.transaction_id, None)
    refund = Transaction.get(Transaction.refund_of == sale.transaction_id)
    lines = [mtn_row(sale.row, Amount="3,000.00"), mtn_row(refund, Id="S1", Type="Reversal", Amount="3,000.00")]
    reconcile(world.services, lines)
    for transaction_id in (refund.id, sale.transaction_id):
        unmoved(world, transaction_id)
    for each in held(world):
        correct(world, each)
    newer = reconcile(world.services, [*lines, Enquired(world, "", PAYER, "").line("L9", "")])
    assert [each.provider_id for each in newer.differences()] == ["L9"]
    assert newer.statement.theirs_cents == CENTS


def test_a_correction_is_matched_before_the_failed_payment_that_it_corrects(world: World, ours: Enquired) -> None:
    sold(world)
    ours.succeeds(RECEIPT, MOVED)
    ours.ask_now()
    line = mtn_row(ours.row, Id=RECEIPT, Amount="3,000.00")
    reconcile(world.services, [other_line(), line])
    correct(world, held(world)[0])
    found = reconcile(world.services, [line, other_line()])
    assert [each.verdict for each in found.differences()] == []
    assert (held(world), open_reviews(world.services)) == ((), ())


def test_a_correction_that_got_its_receipt_later_is_found_by_it(world: World) -> None:
    sale = sold(world)
    world.till.pay("no code", SHILLINGS, "N1")
    line = mtn_row(sale.row, Id="N1", **{"External id": "", "Amount": "3,000.00"})
    reconcile(world.services, [other_line(), line])
    moved, told = held(world)
    correct(world, moved)
    world.services.movement_uses.take_as_same(SameMovement(told.movement_id, BY, SECOND, moved.movement_id), operator())
    found = reconcile(world.services, [line, other_line()])
    assert ([each.verdict for each in found.differences()], held(world)) == ([], ())


def test_a_correction_of_what_left_is_not_what_came_under_its_receipt(world: World) -> None:
    sale = sold(world)
    ours, theirs = "FRI:41000001/MM", f"FRI:{PAYER.removeprefix('+')}/MSISDN"
    nameless = {"Id": "R1", "External id": ""}
    left = mtn_row(sale.row, Type="Transfer", From=ours, To=theirs, **nameless)
    reconcile(world.services, [other_line(), left])
    correct(world, held(world)[0])
    reconcile(world.services, [other_line(), left, mtn_row(sale.row, **nameless)])
    (came,) = held(world)
    correct(world, came)
    reconcile(world.services, [left, other_line(), mtn_row(sale.row, **nameless)])
    assert (came.direction, held(world), open_reviews(world.services)) == ("in", (), ())


def test_a_refund_that_came_back_is_money_to_us(world: World) -> None:
    sale = sold(world)
    context = operator_context(world.client.id)
    world.services.refunds.create(CreateRefund(sale.transaction_id, "back"), context)
    work(world.services, world.clock, 2)
    refund = Transaction.get(Transaction.reference == "back")
    back = mtn_row(refund, Id="REV1", Type="Reversal")
    reconcile(world.services, [mtn_row(sale.row), mtn_row(refund), back])
    (came_back,) = held(world)
    assert (came_back.direction, came_back.amount_cents) == ("in", refund.amount_cents)


@pytest.mark.parametrize("own_line", [None, 0, 1])
def test_what_a_provider_takes_back_is_a_refund_under_the_receipt_of_its_collection_if_no_other_line_is(
    world: World, own_line: int | None
) -> None:
    sale = sold(world)
    world.refund(sale.transaction_id, "S1")
    refund = Transaction.get(Transaction.refund_of == sale.transaction_id)
    lines = [mtn_row(sale.row), mtn_row(sale.row, Id="REV1", Type="Reversal")]
    if own_line is not None:
        lines.insert(1 + own_line, mtn_row(refund, Type="Reversal"))
    reconcile(world.services, lines)
    found = [(each.receipts, each.direction) for each in held(world)]
    assert found == ([] if own_line is None else [(("REV1",), "out")])


def test_what_a_provider_takes_back_is_not_a_refund_that_has_a_line_of_its_own(world: World) -> None:
    sale = sold(world)
    context = operator_context(world.client.id)
    made = world.services.refunds.create(CreateRefund(sale.transaction_id, "back", 100_000), context)
    refund = Enquired(world, "back", PAYER, "B1")
    refund.transaction_id = made.transaction.transaction_id
    refund.succeeds(None, 100_000)
    refund.ask_now()
    taken = mtn_row(sale.row, Id="REV1", Type="Reversal")
    reconcile(world.services, [mtn_row(sale.row), taken, mtn_row(refund.row, Id="B1")])
    assert [(each.receipts, each.amount_cents) for each in held(world)] == [(("REV1",), CENTS)]


@pytest.mark.parametrize("tells", ["a notice", "a collection"])
def test_what_a_right_line_told_has_its_receipt_once_the_wrong_one_is_undone(
    world: World, ours: Enquired, tells: str
) -> None:
    sold(world)
    before = main_of(world.client.id)
    line = Enquired(world, "", "+256772999998", "").line(RECEIPT, "")
    wrong = reconcile(world.services, [other_line(), [*line[:7], "3,000.00", *line[8:]]])
    reconcile(world.services, [other_line(), line])
    world.services.provider_statements.undo(UndoImport(wrong.statement.statement_id, BY, SECOND, CASE), operator())
    (right,) = held(world)
    assert (right.receipts, right.amount_cents) == ((RECEIPT,), CENTS)
    world.services.movement_uses.assign(AssignMovement(right.movement_id, "SCH1042", BY, SECOND), operator())
    if tells == "a notice":
        world.notify(RECEIPT, PAYER)
    else:
        ours.report()
    assert (main_of(world.client.id) - before, held(world)) == (CENTS, ())
