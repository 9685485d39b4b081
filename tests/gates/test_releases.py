"""Releases: what a notice or operators used by mistake is held again; a success that never moved counts nowhere.

Each test ends with the invariant check.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.gates.test_corrections import CASE, MOVED, correct, taken_back
from tests.gates.two_records import PAYER, RECEIPT, held, main_of, seen
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World, succeed_between_two
from tests.services.reconciliation.days.closing import at_hour
from tests.services.reconciliation.statement_files import mtn_row, open_reviews, reconcile
from tests.support.money import balances, deposit, operator, request, work
from ussd_server.context import operator_context
from ussd_server.models.movements import Movement
from ussd_server.models.statements import ProviderStatement
from ussd_server.models.transactions import Transaction
from ussd_server.services.incoming.messages import PutPaymentCode
from ussd_server.services.movements.messages import AssignMovement, EndMovement, UndonePayment
from ussd_server.services.reconciliation.messages import UndoImport
from ussd_server.services.reports.messages import GetDailyReport
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.status import ServiceError
from ussd_server.values import KAMPALA

pytestmark = [pytest.mark.both_databases, pytest.mark.usefixtures("books")]


def release(world: World, movement_id: str) -> None:
    world.services.releases.release(EndMovement(movement_id, CASE, BY, SECOND), operator())


def booked(world: World) -> tuple[str, str]:
    """A payer's payment: the ids of its movement and its transaction."""
    told = world.notify(RECEIPT, PAYER)
    movement = Movement.get(Movement.transaction_id == told.transaction_id)
    return movement.id, told.transaction_id or ""


def test_a_payment_booked_for_the_wrong_code_is_released_and_booked_anew_once(world: World) -> None:
    context = operator_context(world.client.id)
    world.services.payment_codes.put(PutPaymentCode("SCH7", "Meals", single_use=True), context)
    before = main_of(world.client.id)
    movement_id, first = booked(world)
    release(world, movement_id)
    assert main_of(world.client.id) == before
    assert (seen(world, first).status, [each.movement_id for each in held(world)]) == ("reversed", [movement_id])
    assert world.notify(RECEIPT, PAYER).status == "held", "a repeated notice does not book it again by itself"
    world.services.movement_uses.assign(AssignMovement(movement_id, "SCH7", BY, SECOND), operator())
    second = Transaction.get_by_id(Movement.get_by_id(movement_id).transaction_id)
    assert (second.reference, second.client_id) == (f"in/{RECEIPT}/2", world.client.id)
    assert main_of(world.client.id) - before == CENTS
    release(world, movement_id)
    told = world.till.pay("SCH7", SHILLINGS, "R9", number="+256772999999")
    assert told.status == "booked", "the code's one payment was none"


def test_a_code_for_one_payment_stays_used_while_another_payment_has_it(world: World) -> None:
    context = operator_context(world.client.id)
    world.services.payment_codes.put(PutPaymentCode("SCH7", "Meals", single_use=True), context)
    ids = []
    for receipt in ("R1", "R2"):
        world.till.pay("no code", SHILLINGS, receipt, number="+256772999998")
        ids.append(held(world)[0].movement_id)
        world.services.movement_uses.assign(AssignMovement(ids[-1], "SCH7", BY, SECOND), operator())
        world.clock.advance(600)
    for receipt, movement_id, state in (("R3", ids[0], "held"), ("R4", ids[1], "booked")):
        release(world, movement_id)
        assert world.till.pay("SCH7", SHILLINGS, receipt, number="+256772999997").status == state


def test_a_payment_with_refunds_and_a_movement_without_a_use_are_not_released(world: World) -> None:
    movement_id, first = booked(world)
    context = operator_context(world.client.id)
    world.services.refunds.create(CreateRefund(first, "back", CENTS // 2), context)
    with pytest.raises(ServiceError, match="Refunds or corrections of it stand"):
        release(world, movement_id)
    world.till.pay("no code", SHILLINGS, "R2", number="+256772999998")
    (movement,) = held(world)
    with pytest.raises(ServiceError, match="no use"):
        release(world, movement.movement_id)


def test_what_was_spent_before_a_release_is_a_shortfall(world: World) -> None:
    movement_id, _ = booked(world)
    services, client_id = world.services, world.client.id
    spent = balances(client_id)["main"][0] // 100
    context = operator_context(client_id)
    services.transactions.create(request("disbursement", shillings=spent, reference="spent"), context)
    work(services, world.clock, 2)
    release(world, movement_id)
    assert (balances(client_id)["main"], balances(client_id)["shortfall"]) == ((0, 0), (-CENTS, 0))


def test_what_was_returned_or_our_own_is_held_again(world: World) -> None:
    world.till.pay("no code", SHILLINGS, RECEIPT)
    (movement,) = held(world)
    uses = world.services.movement_uses
    for end in (uses.mark_returned, uses.take_as_own):
        end(EndMovement(movement.movement_id, CASE, BY, SECOND), operator())
        release(world, movement.movement_id)
        assert [each.held_because for each in held(world)] == [f"Operators released it: {CASE}"]
    history = world.services.movements.show(movement.movement_id, operator()).history
    assert [use.kind for use in history] == ["returned", "release", "own", "release"]


def test_a_correction_is_released_and_booked_anew(world: World, ours: Enquired) -> None:
    before = main_of(world.client.id)
    world.till.pay("no code", MOVED // 100, RECEIPT)
    (movement,) = held(world)
    made = correct(world, movement)
    release(world, movement.movement_id)
    assert main_of(world.client.id) == before
    assert correct(world, movement).reference == f"{made.reference}/2"


def sold(world: World) -> Enquired:
    way = Enquired(world, "sold", PAYER, "S1")
    way.prepare()
    way.report()
    return way


def test_a_collection_has_its_money_again_when_what_took_it_back_is_released(world: World) -> None:
    sale = sold(world)
    back = taken_back(world, sale)
    correct(world, back)
    release(world, back.movement_id)
    record = seen(world, sale.transaction_id)
    assert (record.status, record.refunded_amount_cents) == ("succeeded", 0)
    assert [event.status for event in record.events][-2:] == ["reversed", "succeeded"]


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_full_refund_that_moved_another_amount_is_corrected_and_the_rest_can_be_given_back(
    world: World, in_parts: bool
) -> None:
    sale, context = sold(world), operator_context(world.client.id)
    amounts = [100_000, CENTS - 100_000] if in_parts else [CENTS]
    for number, cents in enumerate(amounts):
        world.services.refunds.create(CreateRefund(sale.transaction_id, f"back/{number}", cents), context)
        work(world.services, world.clock, 2)
    refunds = list(Transaction.select().where(Transaction.refund_of == sale.transaction_id).order_by(Transaction.id))
    assert sale.row.status == "reversed"
    before = main_of(world.client.id)
    lines = [mtn_row(each) for each in (sale.row, *refunds[:-1])]
    reconcile(world.services, [*lines, mtn_row(refunds[-1], Amount="3,000.00")])
    never = UndonePayment(refunds[-1].id, CASE, BY, SECOND)
    world.services.releases.end_unmoved(never, operator())
    record = seen(world, sale.transaction_id)
    assert (record.status, record.refunded_amount_cents) == ("succeeded", CENTS - amounts[-1])
    (moved,) = held(world)
    made = correct(world, moved)
    assert (made.effect, made.amount_cents, made.corrects) == ("debit", MOVED, refunds[-1].id)
    assert main_of(world.client.id) - before == amounts[-1] - MOVED
    assert seen(world, sale.transaction_id).refunded_amount_cents == CENTS - amounts[-1] + MOVED
    world.services.refunds.create(CreateRefund(sale.transaction_id, "the rest"), context)
    work(world.services, world.clock, 2)
    assert sale.row.status == "reversed"


def test_a_mistaken_deposit_is_taken_back_once_and_what_was_spent_is_a_shortfall(world: World) -> None:
    services, client_id = world.services, world.client.id
    context = operator_context(client_id)
    deposit(services, world.client.at_console(), 7_000, "slip-18")
    mistaken = Transaction.get(Transaction.reference == "slip-18")
    spent = (balances(client_id)["main"][0] - 200_000) // 100
    services.transactions.create(request("disbursement", shillings=spent, reference="spent"), context)
    work(services, world.clock, 2)
    request_ = UndonePayment(mistaken.id, CASE, BY, SECOND)
    assert services.releases.undo_deposit(request_, operator()).status == "reversed"
    assert (balances(client_id)["main"], balances(client_id)["shortfall"]) == ((0, 0), (-500_000, 0))
    assert "out of the books" in seen(world, mistaken.id).explanation
    with pytest.raises(ServiceError, match="taken back before"):
        services.releases.undo_deposit(request_, operator())
    with pytest.raises(ServiceError, match="Only what an operator credited"):
        services.releases.undo_deposit(UndonePayment(booked(world)[1], CASE, BY, SECOND), operator())


def test_a_success_that_no_statement_has_is_reversed_and_counts_nowhere(world: World, ours: Enquired) -> None:
    services = world.services
    before = main_of(world.client.id)
    without = succeed_between_two(ours, ours.receipt)
    request_ = UndonePayment(ours.transaction_id, CASE, BY, SECOND)
    with pytest.raises(ServiceError, match="No statement"):
        services.releases.end_unmoved(request_, operator())
    reconcile(services, without)
    ended = services.releases.end_unmoved(request_, operator())
    assert (ended.status, main_of(world.client.id) - before) == ("reversed", 2 * CENTS)
    assert "out of the books" in seen(world, ours.transaction_id).explanation
    now = world.clock.now().astimezone(KAMPALA)
    days = {now.date(), (now - timedelta(minutes=30)).date()}
    reports = [services.daily_reports.get(GetDailyReport(day), operator_context(world.client.id)) for day in days]
    rows = [row for report in reports for row in report.rows if row.status == "succeeded" and row.type == "collection"]
    assert sum(row.amount_cents for row in rows) == 2 * CENTS


@pytest.mark.parametrize("refunded_cents", [CENTS // 2, CENTS])
def test_a_success_that_never_moved_counts_nowhere_and_what_was_given_back_of_it_does(
    world: World, ours: Enquired, refunded_cents: int
) -> None:
    before, context = main_of(world.client.id), operator_context(world.client.id)
    reconcile(world.services, succeed_between_two(ours, ours.receipt))
    world.services.refunds.create(CreateRefund(ours.transaction_id, "back", refunded_cents), context)
    never = UndonePayment(ours.transaction_id, CASE, BY, SECOND)
    with pytest.raises(ServiceError, match="is not final yet"):
        world.services.releases.end_unmoved(never, operator())
    work(world.services, world.clock, 2)
    assert world.services.releases.end_unmoved(never, operator()).status == "reversed"
    assert main_of(world.client.id) - before == 2 * CENTS - refunded_cents
    record = seen(world, ours.transaction_id)
    assert (record.refunded_amount_cents, [each.status for each in record.events][-2:]) == (
        refunded_cents,
        ["succeeded", "reversed"],
    )
    with pytest.raises(ServiceError, match="Only a payment of ours that succeeded"):
        world.services.releases.end_unmoved(never, operator())


@pytest.mark.parametrize("is_newer", [True, False])
def test_a_success_that_a_statement_has_did_move_until_its_import_is_undone(
    world: World, ours: Enquired, is_newer: bool
) -> None:
    without = succeed_between_two(ours, ours.receipt)
    files = [without, [without[0], mtn_row(ours.row), without[1]]]
    for lines in files if is_newer else reversed(files):
        told = reconcile(world.services, lines).statement
        world.clock.advance(600)
    request_ = UndonePayment(ours.transaction_id, CASE, BY, SECOND)
    with pytest.raises(ServiceError, match="A statement has it"):
        world.services.releases.end_unmoved(request_, operator())
    (lacking,) = open_reviews(world.services)
    (having,) = ProviderStatement.select().where(ProviderStatement.id != lacking.statement_id)
    assert is_newer == (having.id == told.statement_id)
    world.services.provider_statements.undo(UndoImport(having.id, BY, SECOND), operator())
    assert world.services.releases.end_unmoved(request_, operator()).status == "reversed"


def test_the_report_of_a_past_day_shows_a_collection_as_it_was_before_its_refund_was_taken_back(world: World) -> None:
    at_hour(world.clock, 9)
    day, sale, context = world.clock.now().astimezone(KAMPALA).date(), sold(world), operator_context(world.client.id)
    world.services.refunds.create(CreateRefund(sale.transaction_id, "back"), context)
    work(world.services, world.clock, 2)
    refund = Transaction.get(Transaction.refund_of == sale.transaction_id)
    world.clock.advance(86_400)
    reconcile(world.services, [mtn_row(sale.row), mtn_row(refund, Amount="3,000.00")])
    world.services.releases.end_unmoved(UndonePayment(refund.id, CASE, BY, SECOND), operator())
    assert sale.row.status == "succeeded"
    report = world.services.daily_reports.get(GetDailyReport(day), context)
    found = [(row.type, row.status, row.count) for row in report.rows if row.type in ("collection", "refund")]
    assert found == [("collection", "reversed", 1), ("refund", "succeeded", 1)]


def test_an_undone_statement_that_lacked_a_success_counts_no_more(world: World, ours: Enquired) -> None:
    without = succeed_between_two(ours, ours.receipt)
    reconcile(world.services, without)
    world.clock.advance(600)
    reconcile(world.services, [without[0], mtn_row(ours.row), without[1]])
    world.clock.advance(600)
    lines = [without[0], without[1], Enquired(world, "", PAYER, "").line("L9", "")]
    undone = reconcile(world.services, lines).statement.statement_id
    world.services.provider_statements.undo(UndoImport(undone, BY, SECOND), operator())
    with pytest.raises(ServiceError, match="A statement has it"):
        world.services.releases.end_unmoved(UndonePayment(ours.transaction_id, CASE, BY, SECOND), operator())


_NEVER_MOVED = "has its receipt, and operators said that it never moved"


def unmoved(world: World, ours: Enquired, receipt: str | None = RECEIPT) -> None:
    """Let a collection succeed that no statement has, and two operators say that it never moved."""
    reconcile(world.services, succeed_between_two(ours, receipt))
    world.services.releases.end_unmoved(UndonePayment(ours.transaction_id, CASE, BY, SECOND), operator())


@pytest.mark.parametrize("shillings", [SHILLINGS, SHILLINGS - 1])
@pytest.mark.parametrize("way", ["notice", "line"])
def test_what_came_although_it_never_moved_is_held_and_booked(
    world: World, ours: Enquired, way: str, shillings: int
) -> None:
    unmoved(world, ours)
    before = main_of(world.client.id)
    assert held(world) == (), "nothing tells of it yet"
    if way == "notice":
        assert world.till.pay("SCH1042", shillings, RECEIPT, number=PAYER).status == "held"
        assert world.till.pay("SCH1042", shillings, RECEIPT, number=PAYER).status == "held"
    else:
        reconcile(world.services, [mtn_row(ours.row, Amount=f"{shillings:,}.00")])
    (came,) = held(world)
    assert (came.receipts, came.amount_cents) == ((RECEIPT,), shillings * 100)
    assert came.held_because == f"Transaction {ours.transaction_id} {_NEVER_MOVED}"
    world.services.movement_uses.assign(AssignMovement(came.movement_id, "SCH1042", BY, SECOND), operator())
    assert (held(world), main_of(world.client.id) - before) == ((), shillings * 100)
    assert ours.row.status == "reversed"


def test_what_was_told_of_a_success_that_never_moved_is_not_told_of_it_again(world: World, ours: Enquired) -> None:
    world.till.pay("nobody", SHILLINGS, RECEIPT, number=PAYER)
    unmoved(world, ours)
    (left,) = held(world)
    assert (left.receipts, left.held_because) == ((RECEIPT,), f"Transaction {ours.transaction_id} {_NEVER_MOVED}")
