"""What a revoked key or person made and approved of payouts does not leave."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from tests.services.payouts.desk import code_of
from tests.services.payouts.house import PayoutHouse
from tests.services.payouts.test_races import at_once
from tests.support.books import check_everything
from tests.support.example_client import OPERATOR
from tests.support.money import agree_fee, work
from ussd_server.context import RequestContext
from ussd_server.models.clients import AuditEvent
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.clients.keys.messages import UpdateApiKey
from ussd_server.services.clients.messages import ChangeRole
from ussd_server.services.payouts.messages import ApprovePayout
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code

_FULL = (50_000_000, 0)
_MONTH = 30


def key_of(context: RequestContext) -> str:
    assert context.caller.key_id is not None
    return context.caller.key_id


def person_of(context: RequestContext) -> str:
    assert context.caller.user_id is not None
    return context.caller.user_id


def delete(house: PayoutHouse, context: RequestContext) -> None:
    house.services.api_keys.delete(key_of(context), house.owner)


def change(house: PayoutHouse, context: RequestContext, **changes: object) -> None:
    house.services.api_keys.change(UpdateApiKey(key_of(context), **changes), house.owner)  # type: ignore[arg-type]


def disable(house: PayoutHouse, context: RequestContext) -> None:
    change(house, context, is_active=0)


def disable_by_operator(house: PayoutHouse, context: RequestContext) -> None:
    house.services.api_keys.set_active(key_of(context), False, OPERATOR)


def narrow(house: PayoutHouse, context: RequestContext) -> None:
    change(house, context, scopes=("payouts:read",))


def expire(house: PayoutHouse, context: RequestContext) -> None:
    change(house, context, expires_at=house.clock.now() + timedelta(seconds=10))
    house.clock.advance(10)
    house.services.payout_withdrawals.withdraw_expired()


REVOCATIONS = [delete, disable, disable_by_operator, narrow, expire]
Revocation = Callable[[PayoutHouse, RequestContext], None]


@pytest.mark.parametrize("revoke", REVOCATIONS)
@pytest.mark.parametrize("days", [0.5, _MONTH])
def test_an_approval_of_a_revoked_key_is_withdrawn_and_its_reservation_released(
    house: PayoutHouse, revoke: Revocation, days: float
) -> None:
    payout = house.dated(days)
    house.approve(payout)
    assert house.main()[1] == (30_000 if days < 1 else 0)
    revoke(house, house.approver)
    seen = house.see(payout)
    assert (seen.status, seen.approved_by, seen.approved_at, seen.reserved_at) == ("draft", None, None, None)
    assert (house.main(), house.states(payout), seen.approvals) == (_FULL, ["ready"] * 3, ())
    assert seen.withdrawal_reason
    assert house.events(payout) == ["needs_approval", "approval_withdrawn"]
    house.clock.advance((days + 1) * 86_400)
    house.work(1)
    assert (house.status(payout), house.main()) == ("draft", _FULL)
    assert check_everything(vault=house.services.runtime.vault) == []


def test_a_payout_that_was_withdrawn_is_approved_again_and_sent_once(house: PayoutHouse) -> None:
    payout = house.draft_of(3)
    house.approve(payout)
    delete(house, house.approver)
    house.approve_as(payout, house.admin)
    house.work(3)
    seen = house.see(payout)
    assert (seen.status, seen.succeeded_count, house.main()) == ("completed", 3, (50_000_000 - 30_000, 0))
    assert house.states(payout) == ["succeeded"] * 3
    assert {state.value: entry.count for state, entry in seen.states.items()} == {"succeeded": 3}
    sent = Transaction.select().where(Transaction.payout_id == payout.payout_id, Transaction.status == "succeeded")
    assert sorted(row.reference for row in sent) == [f"P1/r{place}/approval-2" for place in range(3)]
    assert check_everything(vault=house.services.runtime.vault) == []


def test_a_withdrawn_payout_is_withdrawn_and_cancelled_again(house: PayoutHouse) -> None:
    payout = house.draft_of(3)
    for turn in range(3):
        approver = house.key("payouts:approve", "payouts:read")
        house.approve_as(payout, approver)
        assert house.main()[1] == 30_000, turn
        delete(house, approver)
        assert house.main() == _FULL
    house.approve_as(payout, house.admin)
    house.cancel(payout)
    assert (house.status(payout), house.main(), house.states(payout)) == ("cancelled", _FULL, ["cancelled"] * 3)
    assert check_everything(vault=house.services.runtime.vault) == []


@pytest.mark.parametrize("revoke", REVOCATIONS)
def test_a_draft_of_a_revoked_key_is_cancelled_and_its_reference_is_free(
    house: PayoutHouse, revoke: Revocation
) -> None:
    draft, other = house.draft_of(2), house.draft_of(2, "P2")
    approved = house.draft_of(2, "P3")
    house.approve(approved)
    revoke(house, house.maker)
    seen = house.payouts.get(draft.payout_id, house.owner)
    assert (seen.status, house.payouts.get(other.payout_id, house.owner).status) == ("cancelled", "cancelled")
    assert seen.withdrawal_reason
    assert house.payouts.get(approved.payout_id, house.owner).status == "approved", "another has answered for it"
    house.maker = house.key("payouts:write", "payouts:read")
    again = house.draft_of(2)
    assert again.payout_id != draft.payout_id
    house.approve(again)
    house.work(2)
    assert house.status(again) == "completed"
    assert check_everything(vault=house.services.runtime.vault) == []


def test_the_reference_is_free_after_maker_and_approver_were_revoked_and_its_rows_are_paid_once(
    house: PayoutHouse,
) -> None:
    payout = house.draft_of(2)
    house.approve(payout)
    house.services.api_keys.delete(key_of(house.approver), house.owner)
    delete(house, house.maker)
    house.maker = house.key("payouts:write", "payouts:read")
    again = house.draft_of(2)
    assert (again.ready_count, again.invalid_count) == (2, 0)
    house.approve_as(again, house.admin)
    house.work(2)
    assert (house.status(again), house.main()) == ("completed", (50_000_000 - 20_000, 0))
    assert check_everything(vault=house.services.runtime.vault) == []


def test_a_draft_of_a_person_who_left_stays(house: PayoutHouse) -> None:
    clerk = house.person("clerk", "developer")
    house.maker = clerk
    draft = house.draft_of(2)
    house.services.clients.set_user_active("clerk@acme.example", False, OPERATOR)
    assert house.payouts.get(draft.payout_id, house.owner).status == "draft"
    house.approve_as(draft, house.admin)
    assert house.payouts.get(draft.payout_id, house.owner).status == "approved"


@pytest.mark.parametrize("way", ["team", "operator", "role"])
def test_the_approvals_of_a_person_who_left_are_withdrawn(house: PayoutHouse, way: str) -> None:
    ben = house.person("ben")
    payout = house.dated(_MONTH)
    house.approve_as(payout, ben)
    if way == "team":
        house.services.team.set_active(person_of(ben), False, house.owner)
    elif way == "operator":
        house.services.clients.set_user_active("ben@acme.example", False, OPERATOR)
    else:
        house.services.team.change_role(ChangeRole(person_of(ben), "developer"), house.owner)
    seen = house.see(payout)
    assert (seen.status, "ben@acme.example" in (seen.withdrawal_reason or "")) == ("draft", True)
    assert AuditEvent.select().where(AuditEvent.action == "payout.approval_withdrawn").count() == 1
    assert check_everything(vault=house.services.runtime.vault) == []


def test_approvals_by_keys_of_a_person_who_left_are_withdrawn_and_the_keys_go_on(house: PayoutHouse) -> None:
    ben = house.person("ben")
    key = house.key("payouts:*", by=ben)
    payout = house.dated(_MONTH)
    house.approve_as(payout, key)
    house.services.clients.set_user_active("ben@acme.example", False, OPERATOR)
    assert house.status(payout) == "draft"
    house.approve_as(payout, key)
    house.services.api_keys.delete(key_of(house.maker), house.owner)
    assert house.payouts.get(payout.payout_id, house.owner).status == "approved"


def test_a_key_that_expires_is_noticed_before_its_payout_is_sent(house: PayoutHouse) -> None:
    payouts = [house.dated(3, "far"), house.dated(0.5, "near")]
    for payout in payouts:
        house.approve(payout)
    change(house, house.approver, expires_at=house.clock.now() + timedelta(hours=6))
    for hours in (13, 72):
        house.clock.advance(hours * 3600)
        house.tick()
        work(house.services, house.clock)
    assert [house.status(payout) for payout in payouts] == ["draft"] * 2
    assert house.main() == _FULL
    assert check_everything(vault=house.services.runtime.vault) == []


def test_what_began_to_leave_goes_on_and_the_rest_is_cancelled(house: PayoutHouse) -> None:
    payout = house.draft_of(40)
    house.approve(payout)
    house.tick()
    first = house.services.settlement.claim(1)
    for claimed in first:
        house.services.settlement.advance(claimed)
    delete(house, house.approver)
    house.work(3)
    states = house.states(payout)
    assert (states.count("succeeded"), states.count("cancelled")) == (1, 39)
    assert (house.status(payout), house.main()) == ("cancelled", (50_000_000 - 10_000, 0))
    assert check_everything(vault=house.services.runtime.vault) == []


def test_other_payouts_and_other_rights_are_left_alone(house: PayoutHouse) -> None:
    by_admin, by_key = house.dated(_MONTH, "by-admin"), house.dated(_MONTH, "by-key")
    house.approve_as(by_admin, house.admin)
    house.approve(by_key)
    change(house, house.approver, name="renamed")
    delete(house, house.key("payouts:approve"))
    house.services.team.change_role(ChangeRole(person_of(house.admin), "owner"), house.owner)
    assert [house.status(by_admin), house.status(by_key)] == ["approved", "approved"]
    delete(house, house.approver)
    assert [house.status(by_admin), house.status(by_key)] == ["approved", "draft"]


def test_fees_that_an_approver_named_hold_until_the_payout_is_sent(house: PayoutHouse) -> None:
    named, silent = house.dated(_MONTH, "named"), house.dated(_MONTH, "silent")
    house.approve_as(named, house.admin, total_fee_cents=0)
    house.approve_as(silent, house.admin)
    agree_fee(FeeTerms(house.client_id, TransactionType.DISBURSEMENT, 3_000, 0))
    house.clock.advance(_MONTH * 86_400)
    house.tick()
    seen = house.see(named)
    assert (seen.status, seen.total_fee_cents, house.see(silent).total_fee_cents) == ("draft", 9_000, 9_000)
    assert "UGX 90" in (seen.withdrawal_reason or "")
    assert house.main() == (50_000_000, 39_000), "only the other one is reserved"
    assert code_of(lambda: house.approve_as(named, house.admin, total_fee_cents=0)) is Code.INVALID_REQUEST
    house.approve_as(named, house.admin, total_fee_cents=9_000)
    house.work(2)
    assert house.status(named) == "completed"
    assert check_everything(vault=house.services.runtime.vault) == []


def test_an_approval_at_the_moment_of_a_revocation_never_outlives_it(house: PayoutHouse) -> None:
    for turn in range(4):
        payout = house.draft_of(12, f"P{turn}")
        approver = house.key("payouts:approve", "payouts:read")
        approve = partial(house.payouts.approve, ApprovePayout(payout.payout_id), approver)
        approved, revoked = at_once(approve, partial(delete if turn % 2 else disable, house, approver))
        assert (approved in (None, Code.API_KEY_DISABLED), revoked) == (True, None)
        assert (house.status(payout), house.main()) == ("draft", _FULL)
    house.work(2)
    assert house.main() == _FULL
    assert check_everything(vault=house.services.runtime.vault) == []


def test_nothing_leaves_after_the_answer_to_a_revocation(house: PayoutHouse) -> None:
    for turn in range(4):
        payout = house.draft_of(30, f"P{turn}")
        approver = house.key("payouts:approve", "payouts:read")
        house.approve_as(payout, approver)
        sent, revoked = at_once(partial(house.work, 0.5), partial(delete, house, approver))
        assert (sent, revoked) == (None, None)
        asked = Transaction.select().where(
            Transaction.payout_id == payout.payout_id, Transaction.asked_at.is_null(False)
        )
        left = asked.count()
        house.work(2)
        assert asked.count() == left
        assert house.status(payout) == ("cancelled" if 0 < left < 30 else "completed" if left else "draft")
        assert house.main()[1] == 0
    assert check_everything(vault=house.services.runtime.vault) == []
