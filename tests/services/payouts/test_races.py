"""Approvals, cancellations and the worker act on one payout at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Barrier
from typing import Any

import pytest

from tests.services.payouts.desk import PayoutDesk, code_of, row
from tests.support.books import check_everything
from tests.support.money import work
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.payouts.messages import ApprovePayout, ItemState, PayoutView, RetryPayout
from ussd_server.status import Code
from ussd_server.values import new_id

pytestmark = pytest.mark.both_databases

_ROUNDS = 3
_ROWS = 12


def at_once(*actions: Callable[[], object]) -> list[Code | None]:
    """Run actions at the same moment; give the code with which each was refused."""
    together = Barrier(len(actions))

    def act(action: Callable[[], object]) -> Code | None:
        together.wait()
        try:
            return code_of(action)
        finally:
            release_connection()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(act, actions))


def test_of_simultaneous_approvals_one_counts(desk: PayoutDesk) -> None:
    approvers = [
        replace(desk.approver, caller=replace(desk.approver.caller, key_id=new_id(desk.clock.now()))) for _ in range(4)
    ]
    for turn in range(1, _ROUNDS + 1):
        draft = desk.draft_of(_ROWS, f"P{turn}")
        codes = at_once(*(partial(desk.payouts.approve, ApprovePayout(draft.payout_id), who) for who in approvers))
        assert sorted(map(str, codes)) == [str(Code.INVALID_REQUEST)] * 3 + ["None"]
        assert desk.main() == (50_000_000, turn * _ROWS * 10_000)
        assert desk.states(draft) == ["queued"] * _ROWS
    assert check_everything() == []


def test_the_same_approval_many_times_at_once_is_always_answered_with_what_it_did(desk: PayoutDesk) -> None:
    answered: list[str] = []

    def approve(payout: PayoutView) -> None:
        answered.append(desk.approve(payout).status)

    for turn in range(_ROUNDS):
        draft = desk.draft_of(1, f"P{turn}")
        assert at_once(*[partial(approve, draft)] * 6) == [None] * 6
    assert set(answered) == {"approved"}


def test_of_simultaneous_retries_one_opens_a_round_and_of_its_approvals_one_counts(desk: PayoutDesk) -> None:
    payout = desk.draft(row("a"), row("b", "+256770000002"))
    desk.approve(payout)
    desk.work(8)
    approvers = [
        replace(desk.approver, caller=replace(desk.approver.caller, key_id=new_id(desk.clock.now()))) for _ in range(3)
    ]
    for number in (2, 3):
        assert at_once(*[partial(desk.payouts.retry, RetryPayout(payout.payout_id), desk.maker)] * 3) == [None] * 3
        assert desk.see(payout).round.number == number
        approval = ApprovePayout(payout.payout_id, number)
        codes = at_once(*(partial(desk.payouts.approve, approval, who) for who in approvers))
        assert sorted(map(str, codes)) == [str(Code.INVALID_REQUEST)] * 2 + ["None"]
        assert desk.main() == (50_000_000 - 100_000, 100_000)
        at_once(partial(desk.work, 1), partial(desk.cancel, payout))
        desk.work(8)
        assert (desk.main()[1], desk.states(payout)[0]) == (0, "succeeded")
        assert check_everything() == []


def test_of_an_approval_and_a_cancellation_in_any_order_the_cancellation_wins(desk: PayoutDesk) -> None:
    for turn in range(_ROUNDS):
        draft = desk.draft_of(_ROWS, f"P{turn}")
        approved, cancelled = at_once(partial(desk.approve, draft), partial(desk.cancel, draft))
        # A cancellation after the approval releases all of it; one before the approval refuses it.
        assert (approved in (None, Code.INVALID_REQUEST), cancelled) == (True, None)
        assert set(desk.states(draft)) == {"cancelled"}
        assert (desk.see(draft).approved_by is None) == (approved is not None)
        assert desk.main() == (50_000_000, 0)
    desk.work(2)
    assert check_everything() == []


def test_a_row_is_sent_or_cancelled_while_the_worker_sends(desk: PayoutDesk, monkeypatch: Any) -> None:
    sandbox = desk.services.runtime.providers.get("sandbox")
    asked: list[str] = []
    ask = sandbox.send

    def counted(payment: Any, timeout_seconds: float) -> Any:
        asked.append(payment.provider_reference)
        return ask(payment, timeout_seconds)

    monkeypatch.setattr(sandbox, "send", counted)
    for turn in range(_ROUNDS):
        asked.clear()
        draft = desk.draft_of(_ROWS, f"P{turn}")
        desk.approve(draft)
        desk.tick()
        sent, cancelled = at_once(partial(desk.work, 1), partial(desk.cancel, draft))
        assert sent is None
        assert cancelled in (None, Code.INVALID_REQUEST)
        desk.work(2)
        seen = desk.see(draft)
        paid = [item.transaction_id for item in desk.items(draft, ItemState.SUCCEEDED)]
        references = Transaction.select(Transaction.provider_reference).where(Transaction.id.in_(paid))
        assert sorted(asked) == sorted(each.provider_reference for each in references)
        assert {state: entry.count for state, entry in seen.states.items()} in (
            {ItemState.SUCCEEDED: len(paid), ItemState.CANCELLED: _ROWS - len(paid)},
            {ItemState.SUCCEEDED: _ROWS},
            {ItemState.CANCELLED: _ROWS},
        )
        assert seen.completed_at is not None
        assert (seen.status == "cancelled") == (cancelled is None)
        assert desk.main()[1] == 0
    assert check_everything() == []


def test_a_row_that_never_left_is_not_sent_after_its_payout_was_cancelled(desk: PayoutDesk, monkeypatch: Any) -> None:
    draft = desk.draft_of(3)
    desk.approve(draft)
    tried: list[str] = []

    def never_leaves(payment: Any, _: float) -> ProviderAnswer:
        tried.append(payment.transaction_id)
        if len(tried) == 1:
            # The row counts as sent until this call ends.
            assert desk.cancel(draft).status == "cancelled"
        return ProviderAnswer(Outcome.NOT_SENT)

    with monkeypatch.context() as away:
        away.setattr(desk.services.runtime.providers.get("sandbox"), "send", never_leaves)
        desk.tick()
        work(desk.services, desk.clock)
    assert (len(tried), desk.main()[1] > 0) == (1, True)
    desk.work(8)
    seen = desk.see(draft)
    assert (desk.states(draft), desk.main()) == (["cancelled"] * 3, (50_000_000, 0))
    assert (seen.status, seen.completed_at is not None) == ("cancelled", True)
    assert check_everything() == []
