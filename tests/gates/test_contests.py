"""A contested payment stays contested until operators have decided, whatever becomes of the other payment."""

from __future__ import annotations

from functools import partial

import pytest

from tests.gates.two_records import HASHED, PAYER, RECEIPT, held, main_of, other_client, seen, settle
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, WAYS, Enquired, World
from tests.services.reconciliation.statement_files import mtn_row, open_reviews, reconcile
from tests.support.books import check_everything
from tests.support.money import agree_fee, operator
from ussd_server.context import operator_context
from ussd_server.models.movements import Movement
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.gates.messages import WayIn
from ussd_server.services.movements.messages import AssignMovement, EndMovement, SameMovement
from ussd_server.services.processing.outcomes import REVIEW_RELEASED
from ussd_server.services.processing.processor import PaymentProcessor
from ussd_server.services.reconciliation.messages import ConcludeFromStatement
from ussd_server.services.reports.messages import GetDailyReport
from ussd_server.services.transactions import refunds
from ussd_server.services.transactions.messages import CreateRefund, Source, TransactionType
from ussd_server.status import ServiceError
from ussd_server.values import KAMPALA

DAY = 86_400


def contested(world: World, ours: Enquired) -> str:
    """Let a payer's payment be booked, and a collection succeed without a receipt beside it; give the payer's id."""
    paid = world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=HASHED)
    Movement.update(phone_number=PAYER).execute()
    ours.succeeds()
    ours.ask_now()
    assert main_of(world.client.id) == 2 * CENTS
    assert paid.transaction_id is not None
    return paid.transaction_id


def learn(world: World, ours: Enquired, receipt: str) -> None:
    """Let a second enquiry about a collection that succeeded name its receipt."""
    answer = ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id=receipt, amount_cents=CENTS)
    processor: PaymentProcessor = world.processing
    processor.apply_answer(ours.transaction_id, world.provider.schedule, answer, Source.POLL, world.clock.now())


@pytest.mark.parametrize("is_late", [True, False], ids=["late check", "callback"])
def test_what_operators_found_to_be_the_same_money_is_not_credited_later(
    world: World, ours: Enquired, is_late: bool
) -> None:
    contested(world, ours)
    settle(world, ours.transaction_id, has_succeeded=False)
    if is_late:
        world.clock.advance(3 * DAY)
        world.work()
    else:
        ours.ask_now()
    assert ours.row.status == "failed"
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_what_operators_found_to_be_the_same_money_may_have_been_told_with_another_amount(
    world: World, ours: Enquired
) -> None:
    world.till.pay("SCH1042", SHILLINGS - 1, RECEIPT, number=PAYER)
    ours.report()
    settle(world, ours.transaction_id, has_succeeded=False)
    assert (ours.row.same_money_as, main_of(world.client.id)) == (ours.row.contested_id, 2 * CENTS - 100)
    assert check_everything() == []


def test_a_contest_outlasts_the_refund_of_the_other_payment(world: World) -> None:
    paid, ours = paid_before(world)
    ours.succeeds()
    ours.ask_now()
    refund = world.services.refunds.create(CreateRefund(paid, "back"), operator_context(world.client.id)).transaction
    world.work()
    world.provider.answers[refund.transaction_id] = ProviderAnswer(
        Outcome.SUCCEEDED, provider_transaction_id="RF1", amount_cents=CENTS
    )
    world.processing.bring_forward(str(refund.provider_reference))
    world.work()
    ours.ask_now()
    assert Transaction.get_by_id(paid).status == "reversed"
    assert ours.row.status not in ("succeeded", "reversed")
    assert main_of(world.client.id) == CENTS


def test_a_notice_of_a_collection_that_was_given_back_since_is_held(world: World, ours: Enquired) -> None:
    ours.succeeds()
    ours.ask_now()
    world.refund(ours.transaction_id)
    assert (ours.row.status, main_of(world.client.id)) == ("reversed", CENTS)
    assert world.notify(RECEIPT, PAYER).status == "held"
    services = world.services
    services.movement_uses.take_as_same(SameMovement(held(world)[0].movement_id, BY, SECOND), operator())
    assert (held(world), main_of(world.client.id), check_everything()) == ((), CENTS, [])


def test_a_success_beside_a_payers_payment_that_was_given_back_since_awaits_a_review(world: World) -> None:
    paid, ours = paid_before(world)
    world.refund(paid)
    assert (Transaction.get_by_id(paid).status, main_of(world.client.id)) == ("reversed", CENTS)
    ours.succeeds()
    ours.ask_now()
    assert ours.row.is_in_review
    assert main_of(world.client.id) == CENTS


def paid_before(world: World) -> tuple[str, Enquired]:
    """A payer's payment that was booked, and a collection from the same payer that was made afterwards."""
    paid = world.notify(RECEIPT, PAYER).transaction_id or ""
    ours = Enquired(world, "public", PAYER, RECEIPT)
    ours.prepare()
    return paid, ours


def test_a_contest_outlasts_the_replacement_of_the_other_payment(world: World, ours: Enquired) -> None:
    contested(world, ours)
    other = Enquired(world, "public-2", PAYER, RECEIPT)
    other.prepare()
    other.report()
    ours.ask_now()
    assert (other.row.status, main_of(world.client.id)) == ("succeeded", 2 * CENTS)
    assert ours.row.status not in ("succeeded", "reversed")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_payers_payment_that_gave_way_names_what_has_its_money_whatever_else_was_found_to_be_it(
    world: World, ours: Enquired, is_first: bool
) -> None:
    paid = contested(world, ours)
    other = Enquired(world, "public-2", PAYER, RECEIPT)
    other.prepare()
    steps = [other.report, partial(settle, world, ours.transaction_id, has_succeeded=False)]
    for step in steps if is_first else reversed(steps):
        step()
    assert (seen(world, paid).same_money_as, ours.row.same_money_as) == (other.transaction_id, paid)
    assert (main_of(world.client.id), check_everything()) == (2 * CENTS, [])


def test_a_repeated_notice_is_not_booked_a_day_later(world: World, ours: Enquired) -> None:
    ours.succeeds()
    ours.ask_now()
    assert world.notify(RECEIPT, PAYER).status == "held"
    world.clock.advance(DAY + 60)
    world.work()
    assert world.notify(RECEIPT, PAYER).status == "held"
    assert main_of(world.client.id) == 2 * CENTS


def test_of_two_alike_notices_the_second_waits_for_the_second_collection_however_late_operators_decide(
    world: World, ours: Enquired
) -> None:
    two = Enquired(world, "public-2", PAYER, "R2")
    two.prepare()
    for receipt in ("R1", "R2"):
        world.notify(receipt, PAYER)
    for each in (ours, two):
        each.succeeds()
        each.ask_now()
    world.clock.advance(2 * DAY)
    world.work()
    first = held(world)[0]
    with pytest.raises(ServiceError, match="name the other money"):
        world.services.movement_uses.take_as_same(SameMovement(first.movement_id, BY, SECOND), operator())
    same = SameMovement(first.movement_id, BY, SECOND, ours.transaction_id)
    world.services.movement_uses.take_as_same(same, operator())
    world.work()
    assert main_of(world.client.id) == 3 * CENTS
    (left,) = held(world)
    assert [each.transaction_id for each in left.beside] == [two.transaction_id]


def test_money_that_operators_return_is_not_recovered(world: World) -> None:
    lost = WAYS[WayIn.RECOVERY](world, "lost", PAYER, RECEIPT)
    world.till.pay("nothing", SHILLINGS, RECEIPT, number=HASHED)
    (waiting,) = held(world)
    request = EndMovement(waiting.movement_id, "The payer asked for it", BY, SECOND)
    world.services.movement_uses.mark_returned(request, operator())
    before = main_of(world.client.id)
    lost.report()
    assert main_of(world.client.id) == before


def test_a_late_receipt_that_a_payers_payment_has_opens_a_review(world: World, ours: Enquired) -> None:
    ours.succeeds()
    ours.ask_now()
    other_client(world.services)
    world.notify(RECEIPT, PAYER)
    (waiting,) = held(world)
    assign = AssignMovement(waiting.movement_id, "TEA1", BY, SECOND)
    use = world.services.movement_uses.assign(assign, operator()).use
    assert use is not None
    learn(world, ours, RECEIPT)
    assert ours.row.provider_transaction_id is None
    assert ours.row.review_reason == f"its receipt is that of transaction {use.transaction_id}"
    assert ours.row.review_closed_at is None


def test_a_late_receipt_that_a_held_movement_has_is_that_of_the_collection(world: World, ours: Enquired) -> None:
    ours.succeeds()
    ours.ask_now()
    assert world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=HASHED).status == "held"
    learn(world, ours, RECEIPT)
    assert (ours.row.provider_transaction_id, held(world)) == (RECEIPT, ())
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_a_late_receipt_that_was_marked_for_return_opens_a_review(world: World, ours: Enquired) -> None:
    ours.succeeds()
    ours.ask_now()
    world.notify(RECEIPT, PAYER)
    (waiting,) = held(world)
    request = EndMovement(waiting.movement_id, "The payer asked for it", BY, SECOND)
    world.services.movement_uses.mark_returned(request, operator())
    learn(world, ours, RECEIPT)
    assert ours.row.provider_transaction_id is None
    assert ours.row.review_opened_at is not None


def test_a_payment_that_is_replaced_while_its_refund_is_made_is_not_refunded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid, ours = paid_before(world)
    check = refunds.RefundService._check

    def replaced_after(*given: object) -> object:
        checked = check(*given)  # type: ignore[arg-type]
        ours.report()
        return checked

    monkeypatch.setattr(refunds.RefundService, "_check", replaced_after)
    with pytest.raises(ServiceError, match="Only a succeeded collection can be given back"):
        world.services.refunds.create(CreateRefund(paid, "back"), operator_context(world.client.id))
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_a_payers_payment_that_was_refunded_keeps_its_fee_in_the_report(world: World) -> None:
    agree_fee(FeeTerms(world.client.id, TransactionType.COLLECTION, 100_00, 0))
    paid, ours = paid_before(world)
    ours.succeeds()
    ours.ask_now()
    settle(world, ours.transaction_id, has_succeeded=False)
    world.refund(paid)
    day = world.clock.now().astimezone(KAMPALA).date()
    world.clock.advance(86_400)
    report = world.services.daily_reports.get(GetDailyReport(day), operator_context(world.client.id))
    fees = {(row.type, row.status): row.fees_cents for row in report.rows}
    assert fees["collection", "reversed"] == 100_00


@pytest.mark.parametrize("beside", ["of another amount", "of another client", "without a receipt"])
def test_operators_decide_again_once_what_had_the_money_of_a_payment_is_released(
    world: World, ours: Enquired, beside: str
) -> None:
    before = main_of(world.client.id)
    if beside == "without a receipt":
        paid = contested(world, ours)
    else:
        other_client(world.services)
        typed = ("SCH1042", SHILLINGS + 1) if beside == "of another amount" else ("TEA1", SHILLINGS)
        paid = world.till.pay(*typed, RECEIPT, number=PAYER).transaction_id or ""
        ours.report()
    settle(world, ours.transaction_id, has_succeeded=False)
    movement = Movement.get(Movement.transaction_id == paid)
    world.services.releases.release(EndMovement(movement.id, "It is the wrong one", BY, SECOND), operator())
    assert (ours.row.is_in_review, ours.row.review_reason) == (True, REVIEW_RELEASED)
    settle(world, ours.transaction_id, has_succeeded=True)
    assert (ours.row.status, main_of(world.client.id) - before) == ("succeeded", CENTS)
    assert check_everything() == []


def test_a_statement_concludes_nothing_that_operators_found_to_be_other_money(world: World, ours: Enquired) -> None:
    paid = world.till.pay("SCH1042", SHILLINGS + 1, RECEIPT, number=PAYER)
    ours.report()
    reconcile(world.services, [mtn_row(ours.row)])
    (found,) = (each for each in open_reviews(world.services) if each.transaction_id == ours.transaction_id)
    settle(world, ours.transaction_id, has_succeeded=False)
    conclude = ConcludeFromStatement(found.difference_id, "the statement has it", BY, SECOND)
    with pytest.raises(ServiceError, match=f"the money of transaction {paid.transaction_id}; release that one first"):
        world.services.differences.conclude(conclude, operator())
    assert (ours.row.status, ours.row.due_at is None) == ("failed", False)
