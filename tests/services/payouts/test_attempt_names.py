"""Attempts have names: what was never sent leaves its own to the next, and what is told belongs to who has it."""

from __future__ import annotations

import pytest

from tests.services.payouts.desk import PayoutDesk, row
from tests.services.payouts.test_retries import DECLINED, PAID, answers, approve, attempts, holds, retry
from tests.support.money import work
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.providers.sandbox.adapter import SandboxProvider
from ussd_server.services.transactions.messages import Source, TransactionType
from ussd_server.status import ServiceError

pytestmark = pytest.mark.both_databases

_FULL = 50_000_000
# The sandbox asks once more four seconds after a failure.
_DEFINITE = 6


def test_what_was_cancelled_unsent_is_retried_under_its_old_names(desk: PayoutDesk) -> None:
    payout = desk.draft_of(120)
    desk.approve(payout)
    desk.tick()
    work(desk.services, desk.clock)
    desk.cancel(payout)
    desk.work(_DEFINITE)
    states = desk.states(payout)
    sent = states.count("succeeded")
    assert (desk.see(payout).status, 0 < sent < 120, states.count("cancelled")) == ("cancelled", True, 120 - sent)
    assert retry(desk, payout).round.item_count == 120 - sent
    approve(desk, payout)
    desk.work(3)
    assert (desk.see(payout).status, desk.main()) == ("completed", (_FULL - 1_200_000, 0))
    made = Transaction.select(Transaction.reference).where(Transaction.payout_id == payout.payout_id)
    assert sorted(each.reference for each in made) == sorted(f"P1/r{place}" for place in range(120))
    assert holds(desk)


def test_an_attempt_that_was_never_sent_leaves_its_name_to_the_next(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = desk.services.runtime.providers.get("sandbox")
    assert sandbox is not None
    sent, send = [], sandbox.send
    monkeypatch.setattr(sandbox, "send", lambda order, seconds: (sent.append(order), send(order, seconds))[1])
    payout = desk.draft(row("a", DECLINED, 1000))
    desk.approve(payout)
    for number in (1, 2, 3):
        if number > 1:
            assert retry(desk, payout).round.number == number
            approve(desk, payout, number)
        desk.tick()
        if number < 3:
            desk.cancel(payout)
        desk.work(_DEFINITE)
    assert [(each.status, each.ask_attempts) for each in attempts(payout)] == [
        ("failed", 0),
        ("failed", 0),
        ("failed", 1),
    ]
    first, second, third = attempts(payout)
    assert (
        first.provider_reference == second.provider_reference == third.provider_reference == sent[0].provider_reference
    )
    retry(desk, payout)
    approve(desk, payout, 4)
    desk.work(_DEFINITE)
    assert [each.number for each in desk.items(payout)[0].attempts] == [1, 2, 3, 4]
    named = desk.services.runtime.references.of_reference(desk.client_id, TransactionType.DISBURSEMENT, "P1/a/2")
    assert attempts(payout)[3].provider_reference == named, "its provider declined the first name"
    desk.clock.advance(2 * 3600)
    desk.work(1)
    assert not any(each.is_in_review for each in attempts(payout))
    assert desk.main() == (_FULL, 0)
    assert holds(desk)


def test_a_success_that_is_told_under_a_name_belongs_to_the_attempt_that_has_it_now(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout = desk.draft(row("a", DECLINED, 1000))
    desk.approve(payout)
    desk.tick()
    desk.cancel(payout)
    desk.work(1)
    retry(desk, payout)
    approve(desk, payout)
    desk.work(2 * _DEFINITE)
    answers(desk, monkeypatch, {"": Outcome.SUCCEEDED})
    desk.clock.advance(2 * 3600)
    desk.work(1)
    first, second = attempts(payout)
    assert (first.status, first.provider_transaction_id) == ("failed", None)
    assert (second.status, second.late, desk.main()) == ("succeeded", True, (_FULL - 100_000, 0))
    assert holds(desk)


@pytest.mark.parametrize(("outcome", "source"), [(Outcome.FAILED, Source.POLL), (Outcome.PENDING, Source.SUBMIT)])
def test_an_answer_shows_that_an_attempt_was_sent_whose_commit_was_lost(
    desk: PayoutDesk, outcome: Outcome, source: Source
) -> None:
    payout = desk.draft(row("a", DECLINED, 1000))
    desk.approve(payout)
    desk.tick()
    (made,) = attempts(payout)
    answer = ProviderAnswer(outcome, FailureCode.PAYER_DECLINED)
    desk.services.processing.apply_answer(made.id, SandboxProvider.schedule, answer, source, desk.clock.now())
    desk.work(_DEFINITE)
    assert [(each.status, each.ask_attempts, each.asked_at is None) for each in attempts(payout)] == [
        ("failed", 1, False)
    ]
    assert holds(desk)


def test_of_rows_whose_attempts_have_one_name_one_is_paid_and_no_hold_is_left(desk: PayoutDesk) -> None:
    rows = [row("a", DECLINED, 1000), *(row(f"r{place}", PAID, 100) for place in range(119)), row("a/2", PAID, 2000)]
    payout = desk.draft(*rows)
    desk.approve(payout)
    desk.tick()
    work(desk.services, desk.clock)
    desk.cancel(payout)
    desk.work(_DEFINITE)
    retry(desk, payout, "a", "a/2")
    approve(desk, payout)
    desk.work(_DEFINITE)
    assert [desk.states(payout)[place] for place in (0, -1)] == ["failed", "cancelled"]
    assert (desk.see(payout).status, desk.main()[1]) == ("completed", 0)
    with pytest.raises(ServiceError, match="row a/2: another payment has its reference"):
        retry(desk, payout, "a/2")
    assert retry(desk, payout).round.item_count == desk.states(payout).count("ready"), "all others may be retried"
    assert holds(desk)
