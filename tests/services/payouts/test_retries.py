"""Rounds and attempts: a row is one intent to pay a person, however often it is tried."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.services.payouts.desk import PayoutDesk, code_of, row
from tests.services.payouts.staff import StaffedDesk
from tests.support.books import check_everything
from tests.support.example_client import OPERATOR
from tests.support.money import agree_fee, work
from ussd_server.models.payouts import PayoutHold
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome, PaymentOrder, ProviderAnswer
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.movements.messages import ListMovements, MovementView
from ussd_server.services.payouts.messages import (
    ApprovalRule,
    ApprovePayout,
    CancelPayout,
    NameMatch,
    PayoutView,
    RetryPayout,
)
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.processing.outcomes import REVIEW_BESIDE, REVIEW_LATE, REVIEW_TWICE
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds

pytestmark = pytest.mark.both_databases

PAID, DECLINED, LATE = "+256770000000", "+256770000002", "+256770000009"
_FULL = 50_000_000
# The sandbox asks once more four seconds after a failure.
_DEFINITE = 6


def holds(desk: PayoutDesk) -> bool:
    assert check_everything(vault=desk.services.runtime.vault) == []
    return True


def retry(desk: PayoutDesk, payout: PayoutView, *rows: str, **more: Any) -> PayoutView:
    return desk.payouts.retry(RetryPayout(payout.payout_id, rows or None, **more), desk.maker).payout


def approve(desk: PayoutDesk, payout: PayoutView, number: int = 2) -> PayoutView:
    return desk.payouts.approve(ApprovePayout(payout.payout_id, round=number), desk.approver)


def half_paid(desk: PayoutDesk, failing: str = DECLINED) -> PayoutView:
    """A completed payout of which one row succeeded and one failed."""
    draft = desk.draft(row("a", PAID, 1000), row("b", failing, 2000))
    desk.approve(draft)
    desk.work(2)
    return draft


def retried(desk: PayoutDesk) -> PayoutView:
    """The same payout with its failed row in the draft of the next round."""
    payout = half_paid(desk)
    desk.work(_DEFINITE)
    retry(desk, payout)
    return payout


def answers(desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch, by_name: dict[str, Outcome]) -> None:
    """Let the sandbox answer about payments by the end of their reference; others as ever."""
    sandbox = desk.services.runtime.providers.get("sandbox")
    assert sandbox is not None

    def answering(as_ever: Any) -> Any:
        def answer(payment: PaymentOrder, seconds: float) -> ProviderAnswer:
            reference = Transaction.get_by_id(payment.transaction_id).reference
            found = next((by_name[end] for end in by_name if reference.endswith(end)), None)
            if found is Outcome.SUCCEEDED:
                return ProviderAnswer(found, provider_transaction_id=f"R{reference}")
            return as_ever(payment, seconds) if found is None else ProviderAnswer(found)

        return answer

    monkeypatch.setattr(sandbox, "send", answering(sandbox.send))
    monkeypatch.setattr(sandbox, "query_status", answering(sandbox.query_status))


def held(desk: PayoutDesk) -> list[MovementView]:
    return list(desk.services.movements.list(ListMovements(is_held=True), OPERATOR).items)


def attempts(payout: PayoutView) -> list[Transaction]:
    return list(Transaction.select().where(Transaction.payout_id == payout.payout_id).order_by(Transaction.id))


def test_a_row_is_retried_only_after_its_provider_has_confirmed_the_failure(desk: PayoutDesk) -> None:
    payout = half_paid(desk)
    failed = desk.items(payout)[1]
    assert failed.retry_at is not None
    named = f"row b: not before {iso_milliseconds(failed.retry_at)}"
    for rows in ((), ("b",)):
        with pytest.raises(ServiceError, match=named):
            retry(desk, payout, *rows)
    with pytest.raises(ServiceError, match="row a: succeeded"):
        retry(desk, payout, "a")
    with pytest.raises(ServiceError, match="row c: not in the payout"):
        retry(desk, payout, "c")
    desk.work(_DEFINITE)
    assert desk.items(payout)[1].retry_at is None
    opened = retry(desk, payout)
    assert (opened.status, opened.round.number, opened.round.item_count) == ("draft", 2, 1)
    assert (opened.round.total_amount_cents, opened.item_count) == (200_000, 2)
    assert desk.states(payout) == ["succeeded", "ready"]
    again = desk.payouts.retry(RetryPayout(payout.payout_id), desk.maker)
    assert (again.replayed, again.payout.round.number) == (True, 2)
    assert desk.events(payout) == ["needs_approval", "completed", "needs_approval"]
    assert holds(desk)


def test_a_retried_row_has_attempts_with_names_of_their_own(desk: PayoutDesk) -> None:
    agree_fee(FeeTerms(desk.client_id, TransactionType.DISBURSEMENT, 500, 0))
    payout = retried(desk)
    assert code_of(lambda: desk.approve(payout)) is Code.INVALID_REQUEST, "a later round is named"
    assert code_of(lambda: approve(desk, payout, 3)) is Code.INVALID_REQUEST
    approve(desk, payout)
    assert desk.main() == (_FULL - 100_500, 200_500)
    assert approve(desk, payout).round.number == 2
    desk.work(_DEFINITE)
    first, second = desk.items(payout)
    assert [(each.number, each.status.value) for each in first.attempts] == [(1, "succeeded")]
    assert [(each.number, each.status.value) for each in second.attempts] == [(1, "failed"), (2, "failed")]
    assert (second.transaction_id, second.round, first.round) == (second.attempts[1].transaction_id, 2, 1)
    references = [Transaction.get_by_id(each.transaction_id).reference for each in second.attempts]
    assert references == ["P1/b", "P1/b/2"]
    assert (desk.see(payout).status, desk.main()) == ("completed", (_FULL - 100_500, 0))
    reported = Event.select().where(Event.object_id == payout.payout_id, Event.type == "payout.completed")
    assert reported.count() == 2
    assert retry(desk, payout).round.number == 3
    assert holds(desk)


def test_a_row_that_its_provider_pays_late_is_not_paid_by_a_retry(desk: PayoutDesk) -> None:
    payout = half_paid(desk, LATE)
    assert desk.states(payout) == ["succeeded", "failed"]
    assert code_of(lambda: retry(desk, payout)) is Code.INVALID_REQUEST, "the provider may take it back"
    desk.work(_DEFINITE)
    assert (desk.states(payout), desk.main()) == (["succeeded"] * 2, (_FULL - 300_000, 0))
    with pytest.raises(ServiceError, match=r"No row of the payout may be retried$"):
        retry(desk, payout)
    assert holds(desk)


def succeed_late(desk: PayoutDesk, reference: str) -> None:
    """The provider reports a failed payment as paid, because a callback brings its query forward."""
    found = Transaction.get(Transaction.reference == reference)
    desk.services.processing.bring_forward(found.provider_reference)
    work(desk.services, desk.clock)


def settle(desk: PayoutDesk, row: Transaction) -> None:
    """Two operators end the review of a payment as a success."""
    desk.services.reviews.end(EndReview(row.id, "The provider says so", "Ann", "Ben", True), OPERATOR)


def test_a_late_success_before_the_retry_is_approved_leaves_nothing_to_approve(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout = retried(desk)
    answers(desk, monkeypatch, {"P1/b": Outcome.SUCCEEDED})
    succeed_late(desk, "P1/b")
    assert code_of(lambda: approve(desk, payout)) is Code.INVALID_REQUEST
    desk.cancel(payout)
    assert (desk.see(payout).status, desk.states(payout)) == ("completed", ["succeeded"] * 2)
    assert desk.main() == (_FULL - 300_000, 0)
    assert holds(desk)


def test_a_late_success_while_the_retry_waits_is_paid_from_its_share(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All of the money is held, so nothing but the share can pay.
    desk = PayoutDesk(desk.services, desk.clock, shillings=3000)
    payout = retried(desk)
    approve(desk, payout)
    assert desk.main() == (200_000, 200_000)
    answers(desk, monkeypatch, {"P1/b": Outcome.SUCCEEDED})
    succeed_late(desk, "P1/b")
    assert (desk.main(), desk.states(payout)) == ((0, 0), ["succeeded"] * 2)
    desk.work(2)
    assert (desk.see(payout).status, len(desk.items(payout)[1].attempts)) == ("completed", 1)
    assert holds(desk)


@pytest.mark.parametrize("second", [Outcome.SUCCEEDED, Outcome.FAILED])
def test_a_late_success_after_the_retry_was_sent_waits_for_it_and_only_one_is_charged(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch, second: Outcome
) -> None:
    payout = retried(desk)
    approve(desk, payout)
    ended = {"P1/b": Outcome.SUCCEEDED, "P1/b/2": Outcome.PENDING}
    answers(desk, monkeypatch, ended)
    desk.work(1)
    assert desk.states(payout) == ["succeeded", "sent"]
    succeed_late(desk, "P1/b")
    first = Transaction.get(Transaction.reference == "P1/b")
    assert (first.status, first.review_reason, desk.main()) == ("failed", REVIEW_BESIDE, (_FULL - 100_000, 200_000))
    assert [each.held_because for each in held(desk)] == [f"Transaction {first.id}: {REVIEW_BESIDE}"]
    assert code_of(lambda: settle(desk, first)) is Code.INVALID_REQUEST, "the next one may still pay the row"
    ended["P1/b/2"] = second
    if second is Outcome.FAILED:
        # As the sandbox answers about this number.
        del ended["P1/b/2"]
    desk.work(130)
    first = Transaction.get(Transaction.reference == "P1/b")
    wanted = ("failed", REVIEW_TWICE) if second is Outcome.SUCCEEDED else ("succeeded", REVIEW_LATE)
    assert (first.status, first.review_reason, desk.main()) == (*wanted, (_FULL - 300_000, 0))
    assert (desk.see(payout).status, desk.items(payout)[1].retry_at) == ("completed", None)
    assert len(held(desk)) == (1 if second is Outcome.SUCCEEDED else 0)
    if second is Outcome.SUCCEEDED:
        assert code_of(lambda: settle(desk, first)) is Code.INVALID_REQUEST, "the row would be charged twice"
    assert code_of(lambda: retry(desk, payout)) is Code.INVALID_REQUEST
    assert holds(desk)


def test_a_row_of_which_an_earlier_attempt_is_in_review_has_no_retry(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout = retried(desk)
    approve(desk, payout)
    answers(desk, monkeypatch, {"P1/b": Outcome.PENDING})
    desk.work(1)
    succeed_late(desk, "P1/b")
    desk.work(_DEFINITE)
    assert [each.status.value for each in desk.items(payout)[1].attempts] == ["failed", "failed"]
    for rows in ((), ("b",)):
        with pytest.raises(ServiceError, match="retried" if not rows else "row b: in review"):
            retry(desk, payout, *rows)
    assert holds(desk)


def test_a_round_that_was_not_sent_is_cancelled_and_leaves_the_payout_as_it_was(desk: PayoutDesk) -> None:
    payout = half_paid(desk)
    desk.work(_DEFINITE)
    for number in (2, 3):
        assert retry(desk, payout).round.number == number
        if number == 3:
            approve(desk, payout, 3)
        cancelled = desk.payouts.cancel(CancelPayout(payout.payout_id), desk.maker)
        assert (cancelled.status, desk.states(payout)) == ("completed", ["succeeded", "failed"])
        assert desk.main() == (_FULL - 100_000, 0)
        assert holds(desk)
    # An approved round ends with an event, although nothing of it was sent; a draft ends without one.
    assert desk.events(payout).count("completed") == 2
    assert code_of(lambda: desk.cancel(payout)) is Code.INVALID_REQUEST
    retry(desk, payout)
    approve(desk, payout, 4)
    desk.work(_DEFINITE)
    assert [each.number for each in desk.items(payout)[1].attempts] == [1, 2]
    assert holds(desk)


def test_a_payout_that_is_not_final_or_never_was_approved_has_no_retry(desk: PayoutDesk) -> None:
    draft, running = desk.draft_of(2), desk.draft_of(2, "P2", "+256770000004")
    desk.approve(running)
    desk.work(1)
    for payout in (draft, running):
        assert code_of(lambda payout=payout: retry(desk, payout)) is Code.INVALID_REQUEST
    desk.cancel(draft)
    assert code_of(lambda: retry(desk, draft)) is Code.INVALID_REQUEST


def test_neither_maker_approves_a_round_and_rules_count_its_sum(staff: StaffedDesk) -> None:
    staff.services.approval_rules.set((ApprovalRule(0, 1), ApprovalRule(200_000, 2)), staff.owner)
    payout = staff.draft(row("a", PAID, 1000), row("b", DECLINED, 2000))
    staff.approve(payout)
    staff.approve_as(payout, staff.admin)
    staff.work(2 + _DEFINITE)
    ben = staff.person("ben")
    staff.payouts.retry(RetryPayout(payout.payout_id), ben)
    for maker in (ben, staff.maker):
        assert code_of(lambda maker=maker: staff.approve_as(payout, maker, round=2)) is Code.INSUFFICIENT_SCOPE
    seen = staff.approve_as(payout, staff.admin, round=2)
    assert (seen.status, len(seen.approvals)) == ("approved", 1), "2,000 needs one approval"
    staff.work(_DEFINITE)
    assert staff.status(payout) == "completed"
    assert holds(staff)


def approved_retry(staff: StaffedDesk) -> PayoutView:
    """A payout whose failed row is approved for a second round."""
    payout = staff.draft(row("a", PAID, 1000), row("b", DECLINED, 2000))
    staff.approve_as(payout, staff.admin)
    staff.work(2 + _DEFINITE)
    staff.payouts.retry(RetryPayout(payout.payout_id), staff.maker)
    staff.approve_as(payout, staff.approver, round=2)
    return payout


def test_an_approval_of_a_round_is_withdrawn_with_its_key(staff: StaffedDesk) -> None:
    payout = approved_retry(staff)
    assert staff.main()[1] == 200_000
    staff.services.api_keys.set_active(staff.approver.caller.key_id, False, OPERATOR)
    assert (staff.status(payout), staff.main()[1]) == ("draft", 0)
    staff.services.api_keys.set_active(staff.maker.caller.key_id, False, OPERATOR)
    seen = staff.payouts.get(payout.payout_id, staff.owner)
    assert (seen.status, seen.round.number) == ("completed", 2), "the round of a revoked key is cancelled"
    assert holds(staff)


def test_names_that_the_first_round_did_not_wait_for_are_looked_up_for_the_approver_of_the_next(
    desk: PayoutDesk,
) -> None:
    payout = desk.draft(row("a", PAID, 1000, name="Ann"), row("b", DECLINED, 2000, name="Ben"))
    desk.approve(payout)
    desk.work(2 + _DEFINITE)
    desk.clock.advance(7200)
    retry(desk, payout)
    details = desk.payouts.details
    assert details(payout.payout_id, desk.maker).name_matches == {None: 1}, "the rows of the round count"
    desk.work(1)
    assert details(payout.payout_id, desk.maker).name_matches == {NameMatch.DIFFERENT: 1}
    assert desk.see(payout).status == "draft"


def test_a_row_that_was_made_is_not_sent_once_the_key_of_its_approval_is_revoked(staff: StaffedDesk) -> None:
    payout = approved_retry(staff)
    staff.tick()
    made = Transaction.get(Transaction.reference == "P1/b/2")
    assert (made.status, staff.main()[1]) == ("created", 200_000)
    staff.services.api_keys.set_active(staff.approver.caller.key_id, False, OPERATOR)
    work(staff.services, staff.clock)
    staff.work(_DEFINITE)
    made = Transaction.get_by_id(made.id)
    assert (made.status, made.failure_code, made.ask_attempts) == ("failed", "CANCELLED", 0)
    assert (staff.status(payout), staff.states(payout)) == ("cancelled", ["succeeded", "cancelled"])
    assert staff.main() == (_FULL - 100_000, 0)
    assert retry(staff, payout).round.number == 3
    assert holds(staff)


def test_what_was_released_unsent_counts_for_no_limit_of_a_key(staff: StaffedDesk) -> None:
    key = staff.key("payouts:approve", "payouts:read", limit_cents=300_00)
    payout, other = staff.draft_of(3), staff.draft_of(3, "P2")
    staff.approve_as(payout, key)
    assert code_of(lambda: staff.approve_as(other, key)) is Code.DAILY_LIMIT_REACHED
    staff.cancel(payout)
    assert staff.approve_as(other, key).status == "approved"
    assert sorted((hold.reserved_cents, hold.released_cents) for hold in PayoutHold.select()) == [
        (30_000, 0),
        (30_000, 30_000),
    ]
    assert holds(staff)


def test_a_round_with_a_date_is_reserved_when_it_is_due(desk: PayoutDesk) -> None:
    payout = half_paid(desk)
    desk.work(_DEFINITE)
    at = desk.clock.now() + timedelta(days=3)
    assert retry(desk, payout, send_at=at).send_at == at
    approve(desk, payout)
    assert (desk.see(payout).status, desk.main()[1]) == ("approved", 0)
    desk.clock.advance(3 * 86_400)
    desk.work(_DEFINITE)
    assert (desk.see(payout).status, len(desk.items(payout)[1].attempts)) == ("completed", 2)
    assert holds(desk)


def test_a_round_with_a_date_whose_money_does_not_come_leaves_the_payout_as_it_was(desk: PayoutDesk) -> None:
    payout = half_paid(desk)
    desk.work(_DEFINITE)
    retry(desk, payout, send_at=desk.clock.now() + timedelta(days=3))
    approve(desk, payout)
    spent = desk.draft(row("x", PAID, 499_000), reference="P2")
    desk.approve(spent)
    for days in (3, 1.1):
        desk.clock.advance(days * 86_400)
        desk.work(_DEFINITE)
    assert (desk.see(payout).status, desk.states(payout)) == ("completed", ["succeeded", "failed"])
    assert desk.events(payout)[-2:] == ["needs_money", "completed"]
    assert holds(desk)
    assert retry(desk, payout).round.number == 3
