"""A row that its provider paid twice, as only a statement shows, is booked once more by operators or not at all."""

from __future__ import annotations

import pytest

from tests.services.payouts.desk import PayoutDesk
from tests.services.payouts.test_retries import answers, approve, retried, retry, succeed_late
from tests.services.reconciliation.statement_files import mtn_row, open_reviews, reconcile
from tests.support.books import check_everything
from tests.support.money import operator
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome
from ussd_server.services.movements.messages import CorrectMovement, ListMovements, MovementView
from ussd_server.services.payouts.messages import PayoutView
from ussd_server.services.processing.outcomes import REVIEW_TWICE
from ussd_server.services.reconciliation.messages import ConcludeFromStatement, DifferenceView, UndoImport
from ussd_server.status import ServiceError

pytestmark = pytest.mark.both_databases
BOTH = "Mary Akello", "John Okot"
_LEFT = 50_000_000 - 100_000


def first_attempt() -> Transaction:
    row: Transaction = Transaction.get(Transaction.reference == "P1/b")
    return row


def retried_as(desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch, second: Outcome) -> PayoutView:
    """A payout of which one row failed, and whose second attempt has this outcome."""
    payout = retried(desk)
    approve(desk, payout)
    answers(desk, monkeypatch, {"P1/b/2": second})
    desk.work(3)
    return payout


def conclude(desk: PayoutDesk, receipt: str = "RLATE") -> DifferenceView:
    """Let the provider's statement have the first attempt, and two operators conclude it."""
    reconcile(desk.services, [mtn_row(first_attempt(), Id=receipt)])
    return conclude_again(desk)


def concludable(desk: PayoutDesk) -> list[DifferenceView]:
    return [each for each in open_reviews(desk.services) if each.transaction_id == first_attempt().id]


def conclude_again(desk: PayoutDesk, difference_id: str | None = None) -> DifferenceView:
    difference_id = difference_id or concludable(desk)[0].difference_id
    wanted = ConcludeFromStatement(difference_id, "The statement has it", *BOTH)
    return desk.services.differences.conclude(wanted, operator())


def held(desk: PayoutDesk) -> list[MovementView]:
    return list(desk.services.movements.list(ListMovements(is_held=True), operator()).items)


@pytest.mark.parametrize("receipt", ["RLATE", ""])
def test_a_second_payment_that_only_a_statement_shows_is_held_and_corrected(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch, receipt: str
) -> None:
    retried_as(desk, monkeypatch, Outcome.SUCCEEDED)
    difference = conclude(desk, receipt)
    (moved,) = held(desk)
    assert (difference.movement_id, difference.ended_at) == (moved.movement_id, None)
    assert (moved.amount_cents, moved.direction, moved.at) == (
        200_000,
        "out",
        first_attempt().completed_at.replace(microsecond=0),
    )
    assert (first_attempt().status, first_attempt().review_reason) == ("failed", REVIEW_TWICE)
    assert (concludable(desk), desk.main()) == ([], (_LEFT - 200_000, 0))
    with pytest.raises(ServiceError, match=f"end movement {moved.movement_id}"):
        conclude_again(desk, difference.difference_id)
    corrected = CorrectMovement(moved.movement_id, desk.client_id, "Paid twice", *BOTH)
    desk.services.corrections.correct(corrected, operator())
    booked = Transaction.get(Transaction.type == "correction")
    assert (booked.corrects, desk.main()) == (first_attempt().id, (_LEFT - 400_000, 0))
    assert (held(desk), first_attempt().is_in_review) == ([], False)
    assert check_everything() == []


def test_what_a_statement_shows_while_the_next_attempt_may_pay_counts_once_that_failed(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout = retried_as(desk, monkeypatch, Outcome.PENDING)
    with pytest.raises(ServiceError, match="decide once that one is final"):
        conclude(desk)
    monkeypatch.undo()
    desk.work(130)
    assert conclude_again(desk).ended_at is not None
    assert (first_attempt().status, first_attempt().late, held(desk)) == ("succeeded", True, [])
    assert (desk.states(payout), desk.main()) == (["succeeded"] * 2, (_LEFT - 200_000, 0))
    assert check_everything() == []


def test_an_undone_import_takes_back_the_second_payment_that_it_showed(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout = retried_as(desk, monkeypatch, Outcome.SUCCEEDED)
    difference = conclude(desk)
    desk.services.provider_statements.undo(UndoImport(difference.statement_id, *BOTH, "Wrong file"), operator())
    assert (held(desk), desk.main()) == ([], (_LEFT - 200_000, 0))
    with pytest.raises(ServiceError):
        retry(desk, payout)
    assert check_everything() == []


@pytest.mark.parametrize("concluded_first", [True, False])
def test_a_second_payment_that_an_answer_showed_is_held_once_beside_its_statement_and_corrected_once(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch, *, concluded_first: bool
) -> None:
    retried_as(desk, monkeypatch, Outcome.SUCCEEDED)
    answers(desk, monkeypatch, {"P1/b/2": Outcome.SUCCEEDED, "P1/b": Outcome.SUCCEEDED})
    succeed_late(desk, "P1/b")
    (moved,) = held(desk)
    reconcile(desk.services, [mtn_row(first_attempt())])
    if concluded_first:
        assert conclude_again(desk).movement_id == moved.movement_id
    assert [each.movement_id for each in held(desk)] == [moved.movement_id]
    assert check_everything() == []
    corrected = CorrectMovement(moved.movement_id, desk.client_id, "Paid twice", *BOTH)
    desk.services.corrections.correct(corrected, operator())
    assert (held(desk), first_attempt().is_in_review) == ([], False)
    if not concluded_first:
        with pytest.raises(ServiceError, match="Operators booked what moved of the transaction"):
            conclude_again(desk)
    assert (desk.main(), check_everything()) == ((_LEFT - 400_000, 0), [])
