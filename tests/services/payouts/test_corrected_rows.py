"""A row of which money moved in another way than it was asked for is not paid again."""

from __future__ import annotations

import pytest

from tests.services.payouts.desk import PayoutDesk, row
from tests.services.payouts.test_retries import PAID, approve, retry
from tests.services.reconciliation.statement_files import mtn_row, reconcile
from tests.support.books import check_everything
from tests.support.money import operator
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome, PaymentOrder, ProviderAnswer
from ussd_server.services.movements.messages import CorrectMovement, EndMovement, ListMovements
from ussd_server.services.payouts.messages import PayoutView
from ussd_server.status import ServiceError

pytestmark = pytest.mark.both_databases
CASE = "MTN moved 3,000 of 5,000"


@pytest.fixture
def payout(desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch) -> PayoutView:
    """A payout of one row, of which its provider moved 3,000 of 5,000."""
    sandbox = desk.services.runtime.providers.get("sandbox")
    assert sandbox is not None

    def answer(payment: PaymentOrder, seconds: float) -> ProviderAnswer:
        return ProviderAnswer(Outcome.SUCCEEDED, provider_transaction_id="RB", amount_cents=300_000)

    monkeypatch.setattr(sandbox, "send", answer)
    monkeypatch.setattr(sandbox, "query_status", answer)
    made = desk.draft(row("b", PAID, 5000))
    desk.approve(made)
    desk.work(3)
    return made


def correct(desk: PayoutDesk) -> str:
    """Two operators book what the statement shows; return the movement."""
    reconcile(desk.services, [mtn_row(Transaction.get(Transaction.reference == "P1/b"), Id="RB", Amount="3,000.00")])
    (moved,) = desk.services.movements.list(ListMovements(is_held=True), operator()).items
    desk.services.corrections.correct(
        CorrectMovement(moved.movement_id, desk.client_id, CASE, "Mary Akello", "John Okot"), operator()
    )
    return moved.movement_id


def test_a_row_whose_attempt_was_corrected_has_no_retry_until_the_correction_is_released(
    desk: PayoutDesk, payout: PayoutView
) -> None:
    movement_id = correct(desk)
    desk.work(6)
    assert desk.states(payout) == ["failed"]
    for rows in ((), ("b",)):
        with pytest.raises(ServiceError, match="row b: operators booked what moved" if rows else "may be retried"):
            retry(desk, payout, *rows)
    desk.services.releases.release(EndMovement(movement_id, "Not its", "Mary Akello", "John Okot"), operator())
    assert retry(desk, payout).round.number == 2
    assert check_everything() == []


def test_an_attempt_is_corrected_after_its_row_was_approved_again(desk: PayoutDesk, payout: PayoutView) -> None:
    movement_id = correct(desk)
    desk.services.releases.release(EndMovement(movement_id, "Not its", "Mary Akello", "John Okot"), operator())
    desk.work(6)
    approve(desk, retry(desk, payout))
    desk.services.corrections.correct(
        CorrectMovement(movement_id, desk.client_id, CASE, "Mary Akello", "John Okot"), operator()
    )
    desk.work(6)
    attempts = Transaction.select().where(Transaction.payout_id == payout.payout_id)
    assert [each.ask_attempts for each in attempts] == [1], "nothing was sent again"
    assert check_everything() == []
