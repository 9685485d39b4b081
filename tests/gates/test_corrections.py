"""Corrections: what moved otherwise than by a payment is booked once, by two operators, and proves the payment false.

Each test ends with the invariant check.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.gates.two_records import PAYER, RECEIPT, held, main_of, seen
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, Enquired, World
from tests.services.reconciliation.statement_files import mtn_row, reconcile
from tests.support.money import balances, deposit, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.sending import Event, Mail
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.accounts.messages import GetStatement
from ussd_server.services.bank.messages import SetSettlementTerms
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.movements.messages import (
    AssignMovement,
    CorrectMovement,
    EndMovement,
    FillShortfall,
    MovementView,
    SameMovement,
)
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.reconciliation.messages import Verdict
from ussd_server.services.reports.messages import GetDailyReport
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA

pytestmark = [pytest.mark.both_databases, pytest.mark.usefixtures("books")]
MOVED = 300_000
CASE = "MTN's support, case 17"


def correct(world: World, movement: MovementView, **more: Any) -> Transaction:
    wanted = CorrectMovement(movement.movement_id, world.client.id, CASE, BY, SECOND)
    booked = world.services.corrections.correct(replace(wanted, **more), operator())
    assert booked.use is not None
    row: Transaction = Transaction.get_by_id(booked.use.transaction_id)
    return row


def refusal(world: World, movement: MovementView, **more: Any) -> str:
    with pytest.raises(ServiceError) as refused:
        correct(world, movement, **more)
    assert refused.value.code is Code.INVALID_REQUEST
    return refused.value.message


def line_held(world: World, *lines: list[str]) -> MovementView:
    """What the last line of a statement moved, held."""
    reconcile(world.services, list(lines))
    return held(world)[0]


@pytest.fixture
def sold(world: World) -> Enquired:
    """A collection of 5,000 that succeeded under the receipt S1."""
    way = Enquired(world, "sold", PAYER, "S1")
    way.prepare()
    way.report()
    return way


def taken_back(world: World, sold: Enquired) -> MovementView:
    """The provider took the money of a collection back, and its statement says so."""
    return line_held(world, mtn_row(sold.row), mtn_row(sold.row, Id="REV1", Type="Reversal"))


@pytest.mark.parametrize("names_it", [True, False])
def test_what_moved_instead_of_what_was_asked_is_booked_and_the_payment_ends_as_failed(
    world: World, ours: Enquired, names_it: bool
) -> None:
    before = main_of(world.client.id)
    ours.succeeds(RECEIPT, MOVED)
    ours.ask_now()
    world.till.pay("thanks", MOVED // 100, RECEIPT, number=PAYER)
    (movement,) = held(world)
    made = correct(world, movement, **({"payment": ours.transaction_id} if names_it else {}))
    assert (made.type, made.effect, made.corrects, made.reason) == ("correction", "credit", ours.transaction_id, CASE)
    assert (made.reference, made.fee_cents, made.status) == (f"mv/{RECEIPT}", 0, "succeeded")
    assert main_of(world.client.id) - before == MOVED
    assert (ours.row.status, ours.row.is_in_review, ours.row.due_at) == ("failed", False, None)


def test_later_answers_about_money_that_was_corrected_change_nothing(world: World, ours: Enquired) -> None:
    ours.succeeds(RECEIPT, MOVED)
    ours.ask_now()
    world.till.pay("thanks", MOVED // 100, RECEIPT, number=PAYER)
    correct(world, held(world)[0])
    books = balances(world.client.id)
    for cents in (MOVED, CENTS):
        ours.succeeds(RECEIPT, cents)
        ours.ask_now()
        world.till.pay("thanks", MOVED // 100, RECEIPT, number=PAYER)
        assert (ours.row.status, ours.row.is_in_review, ours.row.due_at) == ("failed", False, None)
    with pytest.raises(ServiceError, match="as a correction"):
        world.services.reviews.succeed_by_statement(
            EndReview(ours.transaction_id, "The statement has it", BY, SECOND, has_succeeded=True), RECEIPT, operator()
        )
    assert balances(world.client.id) == books


def test_other_money_of_a_payment_whose_first_was_corrected_counts(world: World, ours: Enquired) -> None:
    ours.succeeds(RECEIPT, MOVED)
    ours.ask_now()
    world.till.pay("thanks", MOVED // 100, RECEIPT, number=PAYER)
    correct(world, held(world)[0])
    before = main_of(world.client.id)
    ours.succeeds("another receipt")
    ours.ask_now()
    assert (ours.row.status, ours.row.late) == ("succeeded", True)
    assert main_of(world.client.id) - before == CENTS


def test_a_collection_that_its_provider_took_back_counts_as_refunded(world: World, sold: Enquired) -> None:
    before = main_of(world.client.id)
    made = correct(world, taken_back(world, sold))
    assert (made.effect, made.corrects, made.amount_cents) == ("debit", sold.transaction_id, CENTS)
    assert before - main_of(world.client.id) == CENTS
    record = seen(world, sold.transaction_id)
    assert (record.status, record.refunded_amount_cents) == ("reversed", CENTS)
    assert (record.effect, record.corrects, record.reason) == (None, None, None)
    with pytest.raises(ServiceError, match="Only a succeeded collection"):
        world.services.refunds.create(CreateRefund(sold.transaction_id, "too much"), operator_context(world.client.id))
    again = reconcile(
        world.services, [mtn_row(sold.row), mtn_row(sold.row, Id="REV1", Type="Reversal"), ours_line(sold)]
    )
    assert {Verdict.MATCHED, Verdict.REVERSAL} <= set(again.statement.lines)
    assert again.statement.ours_cents == again.statement.theirs_cents


def ours_line(sold: Enquired) -> list[str]:
    """A line that makes another file of the same statement."""
    return mtn_row(sold.row, Id="F1", Status="Failed")


def test_a_refund_that_is_not_final_comes_first(world: World, sold: Enquired) -> None:
    context = operator_context(world.client.id)
    refund = world.services.refunds.create(CreateRefund(sold.transaction_id, "back", CENTS // 2), context).transaction
    world.provider.answers[refund.transaction_id] = ProviderAnswer(Outcome.PENDING, provider_transaction_id="RF")
    world.work()
    world.processing.bring_forward(str(Transaction.get_by_id(refund.transaction_id).provider_reference))
    world.work()
    assert refusal(world, taken_back(world, sold)) == (
        f"Refund {refund.transaction_id} of it decides about the money, and is not final yet"
    )


def test_what_an_account_lacks_is_a_shortfall_that_settlements_keep_back_until_it_is_filled(
    world: World, sold: Enquired
) -> None:
    services, client_id = world.services, world.client.id
    context = operator_context(client_id)
    services.bank_accounts.set_terms(SetSettlementTerms(client_id, 0), operator())
    spent = balances(client_id)["main"][0] - 100_000
    services.transactions.create(request("disbursement", shillings=spent // 100, reference="spent"), context)
    work(services, world.clock, 2)
    correct(world, taken_back(world, sold))
    assert (balances(client_id)["main"], balances(client_id)["shortfall"]) == ((0, 0), (-400_000, 0))
    lines = services.statements.get(GetStatement(), context).items[-2:]
    assert [(line.kind, line.credit_cents, line.debit_cents) for line in lines] == [
        ("shortfall", 400_000, None),
        ("correction", None, CENTS),
    ]
    deposit(services, world.client.at_console(), 1_000, "first")
    assert services.bank_settlements.due(None, operator()) == ()
    fill = FillShortfall(client_id, "As agreed", BY, SECOND)
    assert services.corrections.fill(fill, operator()).amount_cents == 100_000
    with pytest.raises(ServiceError, match="nothing available"):
        services.corrections.fill(fill, operator())
    deposit(services, world.client.at_console(), 5_000, "second")
    assert [each.amount_cents for each in services.bank_settlements.due(None, operator())] == [200_000]
    services.corrections.fill(fill, operator())
    assert (balances(client_id)["main"], balances(client_id)["shortfall"]) == ((200_000, 0), (0, 0))
    with pytest.raises(ServiceError, match="no shortfall"):
        services.corrections.fill(fill, operator())


def test_owners_are_told_of_a_correction_by_event_and_mail(world: World, sold: Enquired) -> None:
    made = correct(world, taken_back(world, sold))
    events = Event.select(Event.type).where(Event.object_id == made.id).order_by(Event.sequence)
    assert [each.type for each in events] == ["transaction.created", "transaction.succeeded", "account.corrected"]
    (mail,) = Mail.select().where(Mail.kind == MailKind.ACCOUNT_CORRECTED)
    assert (mail.client_id, mail.parameters["why"], mail.parameters["effect"]) == (world.client.id, CASE, "taken from")


def test_reports_add_a_correction_with_its_sign(world: World, sold: Enquired) -> None:
    correct(world, taken_back(world, sold))
    report = world.services.daily_reports.get(GetDailyReport(), operator_context(world.client.id))
    assert [(row.count, row.amount_cents) for row in report.rows if row.type == "correction"] == [(1, -CENTS)]


def test_what_was_lacking_counts_in_reports_once_however_it_is_filled(
    services: Services, clock: MovableClock, world: World, sold: Enquired
) -> None:
    context = operator_context(world.client.id)
    spent = main_of(world.client.id) // 100 - 1_000
    services.transactions.create(request("disbursement", shillings=spent, reference="spent"), context)
    work(services, clock, 2)
    correct(world, taken_back(world, sold))
    clock.advance(86_400)
    deposit(services, world.client.at_console(), 3_000, "first")
    services.corrections.fill(FillShortfall(world.client.id, "As agreed", BY, SECOND), operator())
    last = clock.now().astimezone(KAMPALA).date()
    rows = services.daily_reports.add_up(last - timedelta(days=1), last, context).rows
    assert [(row.count, row.amount_cents) for row in rows if row.type == "correction"] == [(1, -CENTS)]
    assert services.daily_reports.get(GetDailyReport(), operator()).rows[0].type == "deposit"


def test_a_correction_needs_a_held_movement_a_reason_and_two_people(world: World, sold: Enquired) -> None:
    movement = taken_back(world, sold)
    assert "reason" in refusal(world, movement, reason=" ")
    assert "two different people" in refusal(world, movement, second=f" {BY.upper()}").lower()
    assert "keeps no such account" in refusal(world, movement, account="+256770000001")
    world.services.movement_uses.take_as_own(EndMovement(movement.movement_id, "Ours", BY, SECOND), operator())
    assert refusal(world, movement) == "The movement is the operator's own, no longer held"


def test_a_disbursement_that_came_back_is_credited(services: Services, clock: MovableClock, world: World) -> None:
    context = operator_context(world.client.id)
    made = services.transactions.create(request("disbursement", shillings=SHILLINGS, reference="out"), context)
    work(services, clock, 2)
    paid = Transaction.get_by_id(made.transaction.transaction_id)
    before = main_of(world.client.id)
    came = line_held(world, mtn_row(paid), mtn_row(paid, Id="REV2", Type="Reversal", Amount="5,000.00"))
    with pytest.raises(ServiceError, match=f"took transaction {paid.id} back: correct an account by it"):
        world.services.movement_uses.assign(AssignMovement(came.movement_id, "SCH1042", BY, SECOND), operator())
    back = correct(world, came)
    assert (back.effect, back.corrects) == ("credit", paid.id)
    assert main_of(world.client.id) - before == CENTS


def test_money_under_the_receipt_of_a_success_with_another_amount_is_not_booked_beside_it(
    world: World, ours: Enquired
) -> None:
    world.till.pay("thanks", MOVED // 100, RECEIPT, number=PAYER)
    ours.report()
    assert refusal(world, held(world)[0]).startswith("A payment that was asked for has this receipt")


def test_what_a_provider_takes_back_of_a_refunded_collection_is_not_its_refund(world: World, sold: Enquired) -> None:
    world.refund(sold.transaction_id)
    refund = Transaction.get(Transaction.type == "refund")
    taken = mtn_row(sold.row, Id="REV1", Type="Reversal")
    back = line_held(world, mtn_row(sold.row), taken)
    assert (back.receipts, back.direction, back.amount_cents) == (("REV1",), "out", CENTS)
    before = main_of(world.client.id)
    assert correct(world, back).corrects == sold.transaction_id
    lacking = -balances(world.client.id)["shortfall"][0] if "shortfall" in balances(world.client.id) else 0
    assert before - main_of(world.client.id) + lacking == CENTS
    compared = reconcile(world.services, [mtn_row(sold.row), taken, mtn_row(refund)])
    assert (list(compared.differences()), held(world)) == ([], ())


def test_what_a_provider_takes_back_is_not_the_refund_that_has_no_receipt(world: World, sold: Enquired) -> None:
    world.refund(sold.transaction_id, receipt=None)
    back = line_held(world, mtn_row(sold.row), mtn_row(sold.row, Id="REV1", Type="Reversal"))
    refund = Transaction.get(Transaction.type == "refund")
    assert (back.receipts, back.direction, back.amount_cents) == (("REV1",), "out", CENTS)
    assert [each.transaction_id for each in back.beside] == [refund.id], "operators say whether it is the refund"
    same = SameMovement(back.movement_id, BY, SECOND, refund.id)
    world.services.movement_uses.take_as_same(same, operator())
    assert (held(world), Transaction.get_by_id(refund.id).provider_transaction_id) == ((), "REV1")


def test_nothing_is_given_back_of_a_collection_while_its_provider_has_taken_it_back(
    world: World, sold: Enquired
) -> None:
    back = taken_back(world, sold)
    again = CreateRefund(sold.transaction_id, "again")
    with pytest.raises(ServiceError, match="The provider has taken this collection back") as refused:
        world.services.refunds.create(again, operator_context(world.client.id))
    assert refused.value.code is Code.INVALID_REQUEST
    world.services.movement_uses.take_as_own(EndMovement(back.movement_id, CASE, BY, SECOND), operator())
    world.services.refunds.create(again, operator_context(world.client.id))
