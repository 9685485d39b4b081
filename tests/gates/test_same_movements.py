"""Two operators say that a held movement is known money: only money that it can be, and that counts."""

from __future__ import annotations

import pytest

from tests.gates.two_records import PAYER, held, main_of
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World, succeed_between_two
from tests.services.reconciliation.days.closing import at_hour, close, cover
from tests.services.reconciliation.statement_files import mtn_row, reconcile
from tests.support.money import operator, request
from ussd_server.context import operator_context
from ussd_server.models.movements import Movement
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.movements.messages import (
    AssignMovement,
    EndMovement,
    MovementView,
    SameMovement,
    UndonePayment,
)
from ussd_server.status import ServiceError
from ussd_server.values import KAMPALA

pytestmark = [pytest.mark.both_databases, pytest.mark.usefixtures("books")]


def say_same(world: World, transaction_id: str, movement_id: str | None = None) -> None:
    same = SameMovement(movement_id or held(world)[0].movement_id, BY, SECOND, transaction_id)
    world.services.movement_uses.take_as_same(same, operator())


def test_a_success_that_never_moved_gets_no_money(world: World, ours: Enquired) -> None:
    reconcile(world.services, succeed_between_two(ours, None))
    world.services.releases.end_unmoved(UndonePayment(ours.transaction_id, "Case 17", BY, SECOND), operator())
    world.till.pay("thanks", SHILLINGS, "N1", number=PAYER)
    with pytest.raises(ServiceError, match="It waits for no payment"):
        say_same(world, ours.transaction_id)


def test_money_that_came_in_is_not_that_of_a_payment_that_left(world: World) -> None:
    made = world.services.transactions.create(
        request("disbursement", shillings=SHILLINGS, reference="out"), operator_context(world.client.id)
    ).transaction
    world.provider.answers[made.transaction_id] = ProviderAnswer(Outcome.SUCCEEDED, amount_cents=CENTS)
    world.work()
    world.processing.bring_forward(str(Transaction.get_by_id(made.transaction_id).provider_reference))
    world.work()
    world.till.pay("thanks", SHILLINGS, "N1", number=None)
    with pytest.raises(ServiceError, match="It waits for no payment"):
        say_same(world, made.transaction_id)


@pytest.mark.parametrize("has_code", [True, False])
def test_what_the_payer_typed_stays_with_the_money_whichever_movement_goes(world: World, has_code: bool) -> None:
    world.till.pay("thanks a lot", SHILLINGS, "N1", number=PAYER, name="JANE")
    line = Enquired(world, "", "+256772000001", "").line("L1", "")
    reconcile(world.services, [line])
    of_line, of_till = held(world)
    goes, stays = (of_till, of_line) if has_code else (of_line, of_till)
    same = SameMovement(goes.movement_id, BY, SECOND, stays.movement_id)
    world.services.movement_uses.take_as_same(same, operator())
    (left,) = held(world)
    assert (left.code, left.name, set(left.receipts)) == ("thanks a lot", "JANE", {"N1", "L1"})
    assert left.phone_number == stays.phone_number


def test_two_movements_that_were_said_to_be_one_by_mistake_are_two_again_also_over_a_closed_day(world: World) -> None:
    at_hour(world.clock, 9)
    day, filler = world.clock.now().astimezone(KAMPALA).date(), Enquired(world, "filler", "+256772000009", "F1")
    filler.prepare()
    filler.report()
    world.till.pay("thanks", SHILLINGS, "N1", number=PAYER)
    world.till.pay("thanks", SHILLINGS, "N2", number=PAYER)
    world.till.pay("SCH1042", SHILLINGS, "N3", number=PAYER)
    line = Enquired(world, "", PAYER, "")
    lines = [mtn_row(filler.row), *(line.line(receipt, "") for receipt in ("N1", "N2", "N3"))]
    statement_id = reconcile(world.services, lines).statement.statement_id
    booked = Movement.get(Movement.receipt == "N3").id
    second, first = held(world)
    for goes, stays in ((second, first.movement_id), (first, booked)):
        same = SameMovement(goes.movement_id, BY, SECOND, stays)
        assert world.services.movement_uses.take_as_same(same, operator()).state == "same"
    world.clock.advance(86_400)
    cover(world.services, statement_id, day)
    close(world.services, day, SECOND)
    before = main_of(world.client.id)

    def part(movement_id: str) -> MovementView:
        return world.services.releases.release(EndMovement(movement_id, "A mistake", BY, SECOND), operator())

    assert set(part(first.movement_id).receipts) == {"N1", "N2"}
    assert part(second.movement_id).receipts == ("N2",)
    assert [(each.movement_id, each.receipts) for each in held(world)] == [
        (second.movement_id, ("N2",)),
        (first.movement_id, ("N1",)),
    ]
    with pytest.raises(ServiceError, match="no use that can be taken back"):
        part(second.movement_id)
    history = world.services.movements.show(second.movement_id, operator()).history
    assert [(use.kind, use.other_id, use.by) for use in history] == [
        ("same", first.movement_id, BY),
        ("release", None, BY),
    ]
    assert world.notify("N2", PAYER).status == "held"
    world.services.movement_uses.assign(AssignMovement(second.movement_id, "SCH1042", BY, SECOND), operator())
    assert main_of(world.client.id) - before == CENTS


def test_a_movement_under_whose_receipt_a_collection_succeeded_since_stays_the_same(
    world: World, ours: Enquired
) -> None:
    for receipt in ("N1", ours.receipt):
        world.till.pay("thanks", SHILLINGS, receipt, number=None)
    second, first = held(world)
    same = SameMovement(second.movement_id, BY, SECOND, first.movement_id)
    world.services.movement_uses.take_as_same(same, operator())
    ours.report()
    with pytest.raises(ServiceError, match=f"Transaction {ours.transaction_id} has its receipt"):
        world.services.releases.release(EndMovement(second.movement_id, "A mistake", BY, SECOND), operator())


def test_money_that_was_said_to_be_that_of_a_silent_success_by_mistake_is_held_again(
    world: World, ours: Enquired
) -> None:
    ours.succeeds()
    ours.ask_now()
    before = main_of(world.client.id)
    for receipt in ("N1", "N2"):
        world.till.pay("thanks", SHILLINGS, receipt, number=PAYER)
        wrong = held(world)[0]
    say_same(world, ours.transaction_id, wrong.movement_id)
    assert ours.row.provider_transaction_id == "N2"
    released = world.services.releases.release(EndMovement(wrong.movement_id, "A mistake", BY, SECOND), operator())
    assert (released.state, released.receipts, ours.row.status) == ("held", ("N2",), "succeeded")
    assert (ours.row.provider_transaction_id, main_of(world.client.id)) == (None, before)
    say_same(world, ours.transaction_id, held(world)[1].movement_id)
    assert (ours.row.provider_transaction_id, main_of(world.client.id)) == ("N1", before)
    world.services.movement_uses.assign(AssignMovement(wrong.movement_id, "SCH1042", BY, SECOND), operator())
    assert main_of(world.client.id) - before == CENTS


def test_a_payers_payment_that_a_line_without_an_id_told_gets_the_receipt_of_its_notice(world: World) -> None:
    reconcile(world.services, [Enquired(world, "", PAYER, "").line("", "")])
    assign = AssignMovement(held(world)[0].movement_id, "SCH1042", BY, SECOND)
    booked = world.services.movement_uses.assign(assign, operator()).use
    assert booked is not None
    before = main_of(world.client.id)
    world.till.pay("thanks", SHILLINGS, "N1", number=PAYER)
    say_same(world, str(booked.transaction_id))
    assert (held(world), main_of(world.client.id)) == ((), before)
    assert world.notify("N1", PAYER).transaction_id == booked.transaction_id
