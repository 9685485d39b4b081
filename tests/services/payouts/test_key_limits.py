"""The daily limits of the keys that approved a payout: the lowest counts, and a lowered limit stops the rest."""

from __future__ import annotations

import pytest

from tests.services.payouts.desk import code_of
from tests.services.payouts.staff import StaffedDesk
from tests.support.books import check_everything
from ussd_server.context import RequestContext, operator_context
from ussd_server.models.transactions import Transaction
from ussd_server.services.clients.keys.messages import UpdateApiKey
from ussd_server.services.payouts.messages import ApprovalRule, RetryPayout
from ussd_server.status import Code


def lower(staff: StaffedDesk, key: RequestContext, shillings: int) -> None:
    change = UpdateApiKey(key.caller.key_id or "", daily_limit_cents=shillings * 100)
    staff.services.api_keys.change(change, operator_context(staff.client_id))


def holds(staff: StaffedDesk) -> bool:
    return check_everything(vault=staff.services.runtime.vault) == []


def test_a_limit_that_is_lowered_makes_what_has_not_left_a_draft_again(staff: StaffedDesk) -> None:
    key = staff.key("payouts:approve", "payouts:read", limit_cents=1000_00)
    first, second = staff.draft_of(3), staff.draft_of(4, "P2")
    staff.approve_as(first, key)
    staff.approve_as(second, key)
    lower(staff, key, 700)
    assert (staff.status(first), staff.status(second)) == ("approved", "approved"), "the limit is met"
    lower(staff, key, 699)
    assert (staff.status(first), staff.status(second)) == ("approved", "draft"), "the newest is withdrawn"
    assert "is UGX 699 now" in (staff.see(second).withdrawal_reason or "")
    lower(staff, key, 299)
    assert (staff.status(first), staff.main()) == ("draft", (50_000_000, 0))
    staff.work(2)
    assert code_of(lambda: staff.approve_as(first, key)) is Code.DAILY_LIMIT_REACHED
    staff.approve_as(first, staff.admin)
    staff.work(2)
    assert staff.states(first) == ["succeeded"] * 3
    assert holds(staff)


def test_a_limit_that_is_lowered_stops_the_rows_that_were_not_sent(staff: StaffedDesk) -> None:
    key = staff.key("payouts:approve", "payouts:read", limit_cents=300_00)
    payout = staff.draft_of(3)
    staff.approve_as(payout, key)
    staff.tick()
    (one,) = staff.services.processing.claim(1)
    staff.services.processing.advance(one)
    lower(staff, key, 100)
    staff.work(2)
    assert (staff.status(payout), sorted(staff.states(payout))) == (
        "cancelled",
        ["cancelled", "cancelled", "succeeded"],
    )
    assert holds(staff)


@pytest.mark.parametrize("is_dated", [False, True])
def test_the_limit_of_a_key_counts_also_when_a_person_approves_last(staff: StaffedDesk, is_dated: bool) -> None:
    staff.services.approval_rules.set((ApprovalRule(0, 2),), staff.owner)
    key = staff.key("payouts:approve", "payouts:read", limit_cents=500_00)
    payouts = [staff.dated(3 if is_dated else 0.5, reference) for reference in ("P1", "P2")]
    for each in payouts:
        assert staff.approve_as(each, key).status.value == "draft"
    assert staff.approve_as(payouts[0], staff.admin).status.value == "approved"
    if is_dated:
        staff.approve_as(payouts[1], staff.admin)
        staff.clock.advance(3 * 86_400)
        staff.work(2)
        assert [staff.states(each) for each in payouts] == [["succeeded"] * 3, ["ready"] * 3]
    else:
        assert code_of(lambda: staff.approve_as(payouts[1], staff.admin)) is Code.DAILY_LIMIT_REACHED
    assert holds(staff)


def test_what_was_cancelled_before_it_was_sent_counts_once_when_it_is_retried(staff: StaffedDesk) -> None:
    key, payout = staff.key("payouts:approve", "payouts:read", limit_cents=300_00), staff.draft_of(3)
    staff.approve_as(payout, key)
    staff.tick()
    staff.cancel(payout)
    staff.work(1)
    assert staff.states(payout) == ["cancelled"] * 3
    assert {attempt.number for item in staff.items(payout) for attempt in item.attempts} == {1}, "they were made"
    staff.payouts.retry(RetryPayout(payout.payout_id), staff.maker)
    assert staff.approve_as(payout, key, round=2).status.value == "approved"
    staff.work(3)
    assert staff.states(payout) == ["succeeded"] * 3
    assert code_of(lambda: staff.approve_as(staff.draft_of(1, "P2"), key)) is Code.DAILY_LIMIT_REACHED
    assert holds(staff)


def test_a_limit_that_a_key_gets_later_stops_what_a_person_approved_last(staff: StaffedDesk) -> None:
    staff.services.approval_rules.set((ApprovalRule(0, 2),), staff.owner)
    key, payout = staff.key("payouts:approve", "payouts:read"), staff.draft_of(3)
    staff.approve_as(payout, key)
    staff.approve_as(payout, staff.admin)
    lower(staff, key, 299)
    seen = staff.see(payout)
    assert (seen.status.value, [each.by for each in seen.approvals]) == ("draft", [staff.admin.caller.user_id])


def test_a_key_approves_nothing_that_it_could_not_pay_in_a_day(staff: StaffedDesk) -> None:
    staff.services.approval_rules.set((ApprovalRule(0, 2),), staff.owner)
    key = staff.key("payouts:approve", "payouts:read", limit_cents=299_00)
    payout = staff.draft_of(3)
    assert code_of(lambda: staff.approve_as(payout, key)) is Code.DAILY_LIMIT_REACHED
    staff.approve(payout)
    assert code_of(lambda: staff.approve_as(payout, key)) is Code.DAILY_LIMIT_REACHED
    assert staff.approve_as(payout, staff.admin).status.value == "approved"


def test_a_person_who_approved_last_is_asked_for_beside_the_key(staff: StaffedDesk) -> None:
    staff.services.approval_rules.set((ApprovalRule(0, 2),), staff.owner)
    key = staff.key("payouts:approve", "payouts:read", limit_cents=500_00)
    payout = staff.dated(3)
    staff.approve_as(payout, key)
    staff.approve_as(payout, staff.admin)
    staff.clock.advance(3 * 86_400)
    staff.work(1)
    (row, *_) = Transaction.select().where(Transaction.payout_id == payout.payout_id)
    assert (row.key_id, row.user_id) == (key.caller.key_id, staff.admin.caller.user_id)
