"""What becomes of money that two of our records have: it counts once, and both records say which of them counts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.gates.two_records import HASHED, PAYER, RECEIPT, held, main_of, named_by_check, other_client, seen, settle
from tests.gates.ways_in import BY, CENTS, SECOND, SHILLINGS, WAYS, Enquired, World
from tests.services.reconciliation.statement_files import mtn_row, reconcile
from tests.support.books import check_everything
from tests.support.money import agree_fee, balances, deposit, operator
from ussd_server.context import operator_context
from ussd_server.models.clients import AuditEvent
from ussd_server.models.movements import Movement
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.gates.messages import WayIn
from ussd_server.services.incoming.messages import PutPaymentCode
from ussd_server.services.movements.messages import AssignMovement, EndMovement, SameMovement
from ussd_server.services.transactions.messages import CreateRefund, CreateTransaction, TransactionType
from ussd_server.status import ServiceError


def test_a_payers_payment_gives_back_what_our_collection_is_credited_with(world: World, ours: Enquired) -> None:
    agree_fee(FeeTerms(world.client.id, TransactionType.COLLECTION, 100_00, 0))
    paid = world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=HASHED)
    assert main_of(world.client.id) == 2 * CENTS - 100_00
    ours.report()
    counted, given_back = seen(world, ours.transaction_id), seen(world, paid.transaction_id)
    assert (counted.status, counted.same_money_as) == ("succeeded", given_back.transaction_id)
    assert (given_back.status, given_back.same_money_as) == ("reversed", counted.transaction_id)
    assert (given_back.refunded_amount_cents, given_back.fee_cents) == (0, 100_00)
    assert [(each.account, each.amount_cents, each.purpose) for each in given_back.events[-1].ledger] == [
        ("fees", -100_00, "fee"),
        ("main", 100_00, "fee"),
        ("main", -CENTS, "amount"),
        ("provider:sandbox", CENTS, "amount"),
    ]
    assert counted.transaction_id in (given_back.events[-1].detail.note or "")
    assert counted.transaction_id in given_back.explanation
    # The fee of the collection was agreed after it was created.
    assert balances(world.client.id)["fees"] == (0, 0)
    assert main_of(world.client.id) == 2 * CENTS
    for reported, other in ((counted, given_back), (given_back, counted)):
        event = Event.select().where(Event.object_id == reported.transaction_id).order_by(Event.id.desc()).first()
        assert (event.type, event.payload["same_money_as"]) == (
            f"transaction.{reported.status}",
            other.transaction_id,
        )
    assert check_everything() == []
    assert world.notify(RECEIPT, PAYER).transaction_id == counted.transaction_id
    assert main_of(world.client.id) == 2 * CENTS


def test_a_payment_that_was_given_back_is_not_in_a_report_or_a_statement_twice(world: World, ours: Enquired) -> None:
    paid = world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=HASHED)
    ours.report()
    with pytest.raises(ServiceError):
        world.services.refunds.preview(paid.transaction_id or "", None, operator())
    assert world.services.refunds.preview(ours.transaction_id, None, operator()).amount_cents == CENTS


def test_a_notice_that_may_be_our_collections_money_waits_for_its_end(world: World, ours: Enquired) -> None:
    assert world.notify(RECEIPT, PAYER).status == "held"
    (waiting,) = held(world)
    assert waiting.waits_for == ours.transaction_id
    ours.report()
    assert held(world) == ()
    assert main_of(world.client.id) == 2 * CENTS
    assert world.notify(RECEIPT, PAYER).transaction_id == ours.transaction_id
    assert check_everything() == []


def test_a_notice_of_other_money_is_booked_when_the_collection_is_final(world: World, ours: Enquired) -> None:
    assert world.notify("another", PAYER).status == "held"
    ours.report()
    assert held(world) == ()
    assert main_of(world.client.id) == 3 * CENTS
    assert check_everything() == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_notice_that_waits_for_a_collection_is_booked_when_that_fails(world: World, ours: Enquired) -> None:
    assert world.notify(RECEIPT, PAYER).status == "held"
    world.provider.answers[ours.transaction_id] = ProviderAnswer(Outcome.FAILED, FailureCode.PAYER_DECLINED)
    ours.ask_now()
    assert held(world) == ()
    assert main_of(world.client.id) == 2 * CENTS


def test_a_code_that_is_unknown_stays_held_when_the_collection_is_final(world: World, ours: Enquired) -> None:
    assert world.notify("another", PAYER, "SCH1").status == "held"
    world.clock.advance(60)
    ours.report()
    (waiting,) = held(world)
    assert (waiting.waits_for, waiting.held_because) == (None, "This code is not known")
    (event,) = AuditEvent.select().where(AuditEvent.action == "incoming.held")
    assert event.created_at >= waiting.created_at + timedelta(seconds=60)


def test_another_number_amount_or_provider_does_not_wait(world: World, ours: Enquired) -> None:
    till = world.till
    assert till.pay("SCH1042", SHILLINGS + 1, "A", number=PAYER).status == "booked"
    assert till.pay("SCH1042", SHILLINGS, "B", number="+256772000009").status == "booked"
    assert till.pay("SCH1042", SHILLINGS, "C", number=PAYER, provider="airtel").status == "booked"


def test_equal_receipts_of_two_providers_are_two_payments(world: World, ours: Enquired) -> None:
    assert world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=HASHED, provider="airtel").status == "booked"
    ours.report()
    assert seen(world, ours.transaction_id).same_money_as is None
    assert main_of(world.client.id) == 3 * CENTS
    assert check_everything() == []


@pytest.mark.parametrize("is_other_money", [True, False])
def test_the_payment_of_another_client_is_not_reversed_until_operators_have_said(
    world: World, ours: Enquired, is_other_money: bool
) -> None:
    tea = other_client(world.services)
    paid = world.till.pay("TEA1", SHILLINGS, RECEIPT, number=HASHED)
    ours.report()
    assert (main_of(world.client.id), main_of(tea.id)) == (CENTS, CENTS)
    (review,) = world.services.reviews.list(operator())
    assert review.transaction.transaction_id == ours.transaction_id
    assert paid.transaction_id in (review.reason or "")
    assert named_by_check() == {ours.transaction_id, paid.transaction_id}
    for _ in range(2):
        # What the provider repeats decides nothing.
        ours.ask_now()
    settle(world, ours.transaction_id, has_succeeded=is_other_money)
    assert world.services.reviews.list(operator()) == ()
    assert (main_of(world.client.id), main_of(tea.id)) == ((2 if is_other_money else 1) * CENTS, CENTS)
    assert seen(world, ours.transaction_id).same_money_as is None
    ours.ask_now()
    assert check_everything() == []
    assert (main_of(world.client.id), main_of(tea.id)) == ((2 if is_other_money else 1) * CENTS, CENTS)


def test_operators_who_find_one_clients_payments_to_be_the_same_name_each_in_the_other(
    world: World, ours: Enquired
) -> None:
    paid = spent_account(world)
    ours.report()
    settle(world, ours.transaction_id, has_succeeded=False)
    failed, kept = seen(world, ours.transaction_id), seen(world, paid)
    assert (failed.status, failed.same_money_as) == ("failed", kept.transaction_id)
    assert (kept.status, kept.same_money_as) == ("succeeded", failed.transaction_id)
    world.clock.advance(3600)
    ours.ask_now()
    assert seen(world, ours.transaction_id).status == "failed"
    assert world.services.reviews.list(operator()) == ()
    assert check_everything() == []


def spent_account(world: World) -> str:
    """A payer's payment into a subscriber's account, whose money is moved on at once."""
    context = operator_context(world.client.id)
    world.services.payment_codes.put(PutPaymentCode("SCH2", "Savings", account=PAYER), context)
    paid = world.till.pay("SCH2", SHILLINGS, RECEIPT, number=HASHED)
    moved = CreateTransaction(TransactionType.TRANSFER, PAYER, 1_00, "spent", to_phone_number="+256772000002")
    world.services.transactions.create(moved, context)
    assert paid.transaction_id is not None
    return paid.transaction_id


def test_what_an_account_cannot_give_back_is_not_reversed(world: World, ours: Enquired) -> None:
    paid = spent_account(world)
    ours.report()
    assert seen(world, paid).status == "succeeded"
    assert main_of(world.client.id) == CENTS
    assert named_by_check() == {ours.transaction_id, paid}
    settle(world, ours.transaction_id, has_succeeded=True)
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_a_payment_whose_account_has_spent_all_but_the_amount_is_reversed(world: World, ours: Enquired) -> None:
    agree_fee(FeeTerms(world.client.id, TransactionType.COLLECTION, 500_00, 0))
    paid = world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=HASHED)
    context = operator_context(world.client.id)
    away = CreateTransaction(TransactionType.DISBURSEMENT, PAYER, 2 * CENTS - 500_00, "all of it")
    world.services.transactions.create(away, context)
    ours.report()
    assert seen(world, paid.transaction_id).status == "reversed"
    assert balances(world.client.id)["main"] == (2 * CENTS, 2 * CENTS - 500_00)
    assert check_everything() == []


def test_a_payment_that_was_partly_refunded_is_not_reversed(world: World, ours: Enquired) -> None:
    paid = world.notify(RECEIPT, "+256772000009")
    deposit(world.services, world.client.at_console(), SHILLINGS, "more")
    refund = CreateRefund(paid.transaction_id or "", "back", 100)
    world.services.refunds.create(refund, operator_context(world.client.id))
    ours.report()
    assert seen(world, paid.transaction_id).status == "succeeded"
    assert named_by_check() == {ours.transaction_id, paid.transaction_id}


def test_of_two_collections_under_one_receipt_the_second_is_not_credited(world: World, ours: Enquired) -> None:
    second = Enquired(world, "public-2", "+256772000009", RECEIPT.lower())
    second.prepare()
    ours.report()
    second.report()
    assert main_of(world.client.id) == 2 * CENTS
    (review,) = world.services.reviews.list(operator())
    assert review.transaction.transaction_id == second.transaction_id
    assert named_by_check() == {ours.transaction_id, second.transaction_id}


def test_a_success_without_a_receipt_beside_a_payers_payment_goes_to_review(world: World, ours: Enquired) -> None:
    paid = world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=HASHED)
    Movement.update(phone_number=PAYER).execute()
    ours.succeeds()
    ours.ask_now()
    assert main_of(world.client.id) == 2 * CENTS
    assert named_by_check() == {ours.transaction_id, paid.transaction_id}
    settle(world, ours.transaction_id, has_succeeded=True)
    assert main_of(world.client.id) == 3 * CENTS
    assert check_everything() == []


def test_a_success_without_a_receipt_is_no_payers_payment_of_another_number(world: World, ours: Enquired) -> None:
    world.till.pay("SCH1042", SHILLINGS, RECEIPT, number="+256772000009")
    ours.succeeds()
    ours.ask_now()
    assert main_of(world.client.id) == 3 * CENTS
    assert check_everything() == []


def test_a_notice_beside_a_success_without_a_receipt_stays_listed_with_it(world: World, ours: Enquired) -> None:
    ours.succeeds()
    ours.ask_now()
    assert world.notify(RECEIPT, PAYER).status == "held"
    world.work()
    (waiting,) = held(world)
    assert [each.transaction_id for each in waiting.beside] == [ours.transaction_id]
    with pytest.raises(ServiceError, match="Two different people"):
        world.services.movement_uses.take_as_same(SameMovement(waiting.movement_id, BY, BY), operator())
    taken = world.services.movement_uses.take_as_same(SameMovement(waiting.movement_id, BY, SECOND), operator())
    assert taken.use is not None
    assert (taken.use.kind, taken.use.transaction_id) == ("payment", ours.transaction_id)
    assert seen(world, ours.transaction_id).provider_transaction_id == RECEIPT
    assert world.notify(RECEIPT, PAYER).transaction_id == ours.transaction_id
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


@pytest.mark.parametrize("number", [PAYER, HASHED])
def test_a_notice_two_days_after_a_success_without_a_receipt_is_other_money(
    world: World, ours: Enquired, number: str | None
) -> None:
    ours.succeeds()
    ours.ask_now()
    world.clock.advance(timedelta(days=2).total_seconds() - 60)
    assert world.till.pay("SCH1042", SHILLINGS, "A", number=number).status == "held"
    world.clock.advance(120)
    assert world.till.pay("SCH1042", SHILLINGS, "B", number=number).status == "booked"


def test_operators_decide_nothing_about_what_waits_for_a_collection(world: World, ours: Enquired) -> None:
    world.notify(RECEIPT, PAYER)
    (waiting,) = held(world)
    uses, decision = world.services.movement_uses, (waiting.movement_id, "It is ours", BY, SECOND)
    for decide in (
        lambda: uses.take_as_same(SameMovement(waiting.movement_id, BY, SECOND), operator()),
        lambda: uses.assign(AssignMovement(waiting.movement_id, "SCH1042", BY, SECOND), operator()),
        lambda: uses.mark_returned(EndMovement(*decision), operator()),
        lambda: uses.take_as_own(EndMovement(*decision), operator()),
    ):
        with pytest.raises(ServiceError, match=f"{ours.transaction_id} decides about it"):
            decide()
    ours.report()
    assert held(world) == ()
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_a_success_whose_receipt_was_marked_for_return_goes_to_review(world: World, ours: Enquired) -> None:
    world.till.pay("nothing", SHILLINGS, RECEIPT, number=HASHED)
    (waiting,) = held(world)
    back = EndMovement(waiting.movement_id, "The payer asked for it", BY, SECOND)
    world.services.movement_uses.mark_returned(back, operator())
    ours.report()
    assert main_of(world.client.id) == CENTS
    (review,) = world.services.reviews.list(operator())
    assert review.reason == "operators used the money of its receipt otherwise"
    settle(world, ours.transaction_id, has_succeeded=False)
    assert (seen(world, ours.transaction_id).status, main_of(world.client.id)) == ("failed", CENTS)


def test_a_held_payment_of_another_amount_stays_listed_until_operators_end_it(world: World, ours: Enquired) -> None:
    world.till.pay("nothing", SHILLINGS + 1, RECEIPT, number=HASHED)
    ours.report()
    (waiting,) = held(world)
    with pytest.raises(ServiceError, match="was asked for has this receipt"):
        world.services.movement_uses.assign(AssignMovement(waiting.movement_id, "SCH1042", BY, SECOND), operator())
    ended = EndMovement(waiting.movement_id, "The provider says that it was a mistake", BY, SECOND)
    world.services.movement_uses.take_as_own(ended, operator())
    assert held(world) == ()
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_a_held_payment_that_recovery_books_leaves_the_list(world: World) -> None:
    recovered = WAYS[WayIn.RECOVERY](world, "lost", PAYER, RECEIPT)
    world.till.pay("nothing", SHILLINGS, RECEIPT.lower(), number=HASHED)
    recovered.report()
    assert held(world) == ()
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_operators_see_the_other_payment_before_they_settle_one_whose_outcome_was_unknown(
    world: World, ours: Enquired
) -> None:
    second = Enquired(world, "public-2", "+256772000009", RECEIPT)
    second.prepare()
    second.succeeds(RECEIPT, CENTS - 1)
    second.ask_now()
    ours.report()
    settle(world, second.transaction_id, has_succeeded=True)
    (review,) = world.services.reviews.list(operator())
    assert (review.transaction.transaction_id, review.note) == (second.transaction_id, None)
    assert ours.transaction_id in (review.reason or "")
    assert main_of(world.client.id) == 2 * CENTS
    settle(world, second.transaction_id, has_succeeded=True)
    assert main_of(world.client.id) == 3 * CENTS
    assert check_everything() == []


def test_a_refund_under_a_payers_receipt_reverses_nothing(world: World, ours: Enquired) -> None:
    paid = world.till.pay("SCH1042", SHILLINGS, "R9", number=HASHED)
    ours.report()
    refund = CreateRefund(ours.transaction_id, "back")
    made = world.services.refunds.create(refund, operator_context(world.client.id)).transaction.transaction_id
    world.work()
    world.provider.answers[made] = ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id="R9", amount_cents=CENTS)
    world.processing.bring_forward(str(Transaction.get_by_id(made).provider_reference))
    world.work()
    assert (seen(world, paid.transaction_id).status, seen(world, made).status) == ("succeeded", "succeeded")
    # The same letters are another receipt for money that goes out.
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_a_contest_ends_when_the_provider_reports_failure(world: World, ours: Enquired) -> None:
    paid = spent_account(world)
    ours.report()
    assert named_by_check() == {ours.transaction_id, paid}
    failed = ProviderAnswer(Outcome.FAILED, FailureCode.PAYER_DECLINED)
    world.provider.answers[ours.transaction_id] = failed
    ours.ask_now()
    assert seen(world, ours.transaction_id).status == "failed"
    assert world.services.reviews.list(operator()) == ()
    assert check_everything() == []


def test_a_code_for_one_payment_is_free_again_when_its_payment_was_our_collection(world: World, ours: Enquired) -> None:
    once = PutPaymentCode("SCH1", "Bill", single_use=True)
    world.services.payment_codes.put(once, operator_context(world.client.id))
    world.till.pay("SCH1", SHILLINGS, RECEIPT, number=HASHED)
    ours.report()
    assert ours.row.same_money_as is not None
    assert world.till.pay("SCH1", SHILLINGS, "R2", number="+256772999999").status == "booked"


def test_money_whose_receipt_a_failed_collection_named_can_be_ended(world: World, ours: Enquired) -> None:
    failed = ProviderAnswer(Outcome.FAILED, FailureCode.PAYER_TIMEOUT, provider_transaction_id=RECEIPT)
    world.provider.answers[ours.transaction_id] = failed
    ours.ask_now()
    assert world.notify(RECEIPT, PAYER).status == "held"
    (waiting,) = held(world)
    booked = world.services.movement_uses.assign(AssignMovement(waiting.movement_id, "SCH1042", BY, SECOND), operator())
    assert booked.use is not None
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


@pytest.mark.parametrize("after", [60, 25 * 3600])
@pytest.mark.parametrize("number", [PAYER, HASHED])
def test_a_collection_that_operators_settled_and_its_notice_count_once(
    world: World, ours: Enquired, after: int, number: str | None
) -> None:
    ours.succeeds(None, CENTS - 1)
    ours.ask_now()
    settle(world, ours.transaction_id, has_succeeded=True)
    world.clock.advance(after)
    assert world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=number).status == "held"
    assert main_of(world.client.id) == 2 * CENTS


@pytest.mark.parametrize("number", [PAYER, HASHED])
def test_a_receipt_that_a_statement_has_matched_with_our_collection_is_not_booked_again(
    world: World, ours: Enquired, number: str | None
) -> None:
    ours.succeeds()
    ours.ask_now()
    reconcile(world.services, [mtn_row(ours.row, Id=RECEIPT)])
    assert ours.row.provider_transaction_id == RECEIPT
    world.clock.advance(3 * 86_400)
    assert world.till.pay("SCH1042", SHILLINGS, RECEIPT, number=number).transaction_id == ours.transaction_id
    assert main_of(world.client.id) == 2 * CENTS
    assert check_everything() == []


def test_a_statement_that_shows_the_collection_to_be_other_money_books_what_was_held_beside_it(
    world: World, ours: Enquired
) -> None:
    ours.succeeds()
    ours.ask_now()
    assert world.till.pay("SCH1042", SHILLINGS, "R2", number=HASHED).status == "held"
    reconcile(world.services, [mtn_row(ours.row, Id=RECEIPT)])
    world.work()
    assert held(world) == ()
    assert main_of(world.client.id) == 3 * CENTS
    assert check_everything() == []
