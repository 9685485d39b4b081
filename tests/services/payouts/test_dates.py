"""Payouts with a date: they are reserved a day ahead or when they are due, wait a day for money, and are sent once."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk, code_of, row
from tests.services.payouts.test_races import at_once
from tests.support.books import check_everything
from tests.support.money import agree_fee, deposit, operator, request
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.payouts.messages import PayoutView, ReplacePayout
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code

_HOUR, _DAY = 3600.0, 86_400.0
_FULL = (50_000_000, 0)


def approved(desk: PayoutDesk, seconds: float, count: int = 2, shillings: int = 100) -> PayoutView:
    """An approved payout of some equal rows that is due in so many seconds."""
    send_at = desk.clock.now() + timedelta(seconds=seconds)
    rows = (row(f"r{place}", amount=shillings) for place in range(count))
    return desk.approve(desk.draft(*rows, send_at=send_at))


def pass_time(desk: PayoutDesk, seconds: float) -> None:
    """Let time pass, and the worker look once."""
    desk.clock.advance(seconds)
    desk.tick()


def test_a_payout_due_within_a_day_is_reserved_at_once_and_sent_when_it_is_due(desk: PayoutDesk) -> None:
    payout = approved(desk, _DAY)
    assert (payout.status, desk.main()) == ("approved", (50_000_000, 20_000))
    desk.work(1)
    pass_time(desk, _DAY - 60)
    desk.work()
    assert desk.states(payout) == ["queued"] * 2
    desk.clock.advance(60)
    desk.work(2)
    assert desk.see(payout).status == "completed"
    assert desk.main() == (50_000_000 - 20_000, 0)
    assert check_everything() == []


def test_a_payout_due_later_is_reserved_when_it_is_due_with_the_fees_of_then(desk: PayoutDesk) -> None:
    payout = approved(desk, 30 * _DAY)
    assert (payout.status, payout.reserved_at, desk.main()) == ("approved", None, _FULL)
    assert (desk.states(payout), desk.see(payout).queued_count) == (["ready"] * 2, 0)
    agree_fee(FeeTerms(desk.client_id, TransactionType.DISBURSEMENT, 1_000, 0))
    pass_time(desk, 30 * _DAY - 1)
    assert (desk.main(), check_everything()) == (_FULL, [])
    pass_time(desk, 1)
    assert (desk.see(payout).total_fee_cents, desk.main()) == (2_000, (50_000_000, 22_000))
    desk.work(2)
    assert desk.see(payout).status == "completed"
    assert desk.events(payout) == ["needs_approval", "completed"]
    assert check_everything() == []


def test_without_money_nothing_is_sent_and_money_within_the_day_sends_it(desk: PayoutDesk, services: Services) -> None:
    payout = approved(desk, 2 * _DAY, shillings=300_000)
    for seconds in (2 * _DAY, 60, 60):
        pass_time(desk, seconds)
    waiting = desk.see(payout)
    assert (waiting.status, waiting.reserved_at) == ("approved", None)
    assert (desk.main(), check_everything()) == (_FULL, [])
    pass_time(desk, _DAY - 180)
    deposit(services, desk.maker, 200_000, "late")
    pass_time(desk, 60)
    desk.work(2)
    assert desk.see(payout).status == "completed"
    assert desk.events(payout) == ["needs_approval", "needs_money", "completed"]
    assert desk.main() == (10_000_000, 0)
    assert check_everything() == []


@pytest.mark.parametrize("hours", [24, 72])
def test_a_payout_whose_money_does_not_come_within_the_day_is_cancelled(
    desk: PayoutDesk, services: Services, hours: int
) -> None:
    payout = approved(desk, 2 * _DAY, shillings=300_000)
    pass_time(desk, 2 * _DAY)
    if hours > 24:
        # No worker runs for three days. The money of then comes too late.
        deposit(services, desk.maker, 200_000, "too late")
    pass_time(desk, hours * _HOUR)
    ended = desk.see(payout)
    assert (ended.status, desk.states(payout)) == ("cancelled", ["cancelled"] * 2)
    assert desk.events(payout) == ["needs_approval", "needs_money", "completed"]
    (cancelled,) = AuditEvent.select().where(AuditEvent.action == "payout.cancelled")
    assert (cancelled.actor, bool(cancelled.reason)) == ("service", True)
    deposit(services, desk.maker, 200_000, "later still")
    pass_time(desk, 120)
    assert Transaction.select().where(Transaction.payout_id == payout.payout_id).count() == 0
    assert check_everything() == []


def test_a_payout_that_waits_for_its_date_is_cancelled_and_never_sent(desk: PayoutDesk) -> None:
    far, near = approved(desk, 3 * _DAY), desk.draft_of(2, "P2")
    assert desk.cancel(far).completed_at is not None
    assert desk.cancel(far).status == desk.cancel(near).status == "cancelled"
    assert desk.states(far) == ["cancelled"] * 2
    pass_time(desk, 4 * _DAY)
    desk.work(1)
    assert (desk.events(far), desk.main()) == (["needs_approval", "completed"], _FULL)
    assert check_everything() == []


def test_a_date_lies_ahead_by_a_year_at_most_and_belongs_to_the_payout(desk: PayoutDesk, clock: MovableClock) -> None:
    now = clock.now()
    for days in (-1, 0, 367):
        assert code_of(partial(desk.draft, row(), send_at=now + timedelta(days=days))) is Code.INVALID_REQUEST
    tomorrow = now + timedelta(days=1)
    draft = desk.draft(row(), send_at=tomorrow)
    assert code_of(partial(desk.draft, row())) is Code.IDEMPOTENCY_KEY_REUSED
    clock.advance(2 * _DAY)
    assert desk.draft(row(), send_at=tomorrow).payout_id == draft.payout_id
    corrected = desk.payouts.replace(
        ReplacePayout(draft.payout_id, b"phone_number,amount,reference\n0770000000,5,a\n"), desk.maker
    ).payout
    assert corrected.send_at == tomorrow
    # A date that passed before the approval holds nothing up.
    desk.approve(corrected)
    desk.work(2)
    assert desk.see(corrected).status == "completed"


def test_a_payout_whose_references_were_used_or_that_was_edited_is_cancelled_when_it_is_due(
    desk: PayoutDesk, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = approved(desk, 2 * _DAY)
    services.transactions.create(request("disbursement", shillings=1, reference="P1/r1"), desk.maker)
    pass_time(desk, 2 * _DAY)
    assert desk.see(used).status == "cancelled"
    (event,) = AuditEvent.select().where(AuditEvent.action == "payout.cancelled")
    assert event.reason == "The references of these rows were used since the payout was created: 2"
    assert code_of(lambda: desk.approve(used)) is Code.INVALID_REQUEST
    edited = desk.approve(desk.draft(row(), reference="P2", send_at=desk.clock.now() + timedelta(days=2)))
    monkeypatch.setattr("ussd_server.services.payouts.approval.digests.PayoutDigests.is_as_approved", lambda *_: False)
    pass_time(desk, 2 * _DAY)
    assert (desk.see(edited).status, desk.states(edited)) == ("cancelled", ["cancelled"])


def test_a_payout_of_a_disabled_client_waits(desk: PayoutDesk, services: Services) -> None:
    payout = approved(desk, 2 * _DAY)
    services.clients.set_active(desk.client_id, False, operator(), "a stolen laptop")
    pass_time(desk, 5 * _DAY)
    assert (desk.see(payout).status, desk.see(payout).needs_money_at, desk.main()) == ("approved", None, _FULL)
    services.clients.set_active(desk.client_id, True, operator(), "found again")
    pass_time(desk, 60)
    desk.work(2)
    assert desk.see(payout).status == "completed"


def test_a_worker_that_dies_while_it_reserves_leaves_nothing_and_two_reserve_once(
    desk: PayoutDesk, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout = approved(desk, 2 * _DAY)
    desk.clock.advance(2 * _DAY)
    (claimed,) = services.payout_sender.claim(5)
    advance = partial(services.payout_sender.advance, claimed)
    with monkeypatch.context() as dying:
        dying.setattr("ussd_server.services.payouts.approval.approval.reserve", _die)
        with pytest.raises(SystemExit):
            advance()
    assert (desk.see(payout).status, desk.main()) == ("approved", _FULL)
    assert at_once(advance, advance) == [None, None]
    assert desk.main() == (50_000_000, 20_000)
    desk.work(2)
    assert (desk.see(payout).status, desk.main()) == ("completed", (50_000_000 - 20_000, 0))
    assert check_everything() == []


def _die(*_: object) -> None:
    raise SystemExit


def test_a_draft_that_is_approved_for_a_later_date_while_names_are_looked_up_is_not_sent_early(
    desk: PayoutDesk, services: Services
) -> None:
    for days in (0.5, 3):
        reference = f"P{days}"
        send_at = desk.clock.now() + timedelta(days=days)
        draft = desk.draft(row(name="Ann"), reference=reference, send_at=send_at)
        (claimed,) = services.payout_sender.claim(5)
        desk.approve(draft)
        services.payout_sender.advance(claimed)
        desk.work(1)
        assert desk.states(draft) == (["queued"] if days < 1 else ["ready"])
