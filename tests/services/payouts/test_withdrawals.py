"""What a revoked key or person made and approved of payouts does not leave."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from tests.services.payouts.desk import code_of
from tests.services.payouts.staff import StaffedDesk
from tests.services.payouts.test_races import at_once
from tests.support.books import check_everything
from tests.support.competitors import Compete
from tests.support.example_client import OPERATOR
from tests.support.money import agree_fee, work
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import AuditEvent
from ussd_server.models.sending import Mail
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Outcome, PaymentOrder, ProviderAnswer
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.clients.keys.messages import UpdateApiKey
from ussd_server.services.clients.messages import ChangeRole
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout, ListPayouts, PayoutStatus, RetryPayout
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


def delete(staff: StaffedDesk, context: RequestContext) -> None:
    staff.services.api_keys.delete(key_of(context), staff.owner)


def change(staff: StaffedDesk, context: RequestContext, **changes: object) -> None:
    staff.services.api_keys.change(UpdateApiKey(key_of(context), **changes), staff.owner)  # type: ignore[arg-type]


def disable(staff: StaffedDesk, context: RequestContext) -> None:
    change(staff, context, is_active=0)


def disable_by_operator(staff: StaffedDesk, context: RequestContext) -> None:
    staff.services.api_keys.set_active(key_of(context), False, OPERATOR)


def narrow(staff: StaffedDesk, context: RequestContext) -> None:
    change(staff, context, scopes=("payouts:read",))


def expire(staff: StaffedDesk, context: RequestContext) -> None:
    change(staff, context, expires_at=staff.clock.now() + timedelta(seconds=10))
    staff.clock.advance(10)
    staff.services.payout_withdrawals.withdraw_expired()


REVOCATIONS = [delete, disable, disable_by_operator, narrow, expire]
Revocation = Callable[[StaffedDesk, RequestContext], None]


@pytest.mark.parametrize("revoke", REVOCATIONS)
@pytest.mark.parametrize("days", [0.5, _MONTH])
def test_an_approval_of_a_revoked_key_is_withdrawn_and_its_reservation_released(
    staff: StaffedDesk, revoke: Revocation, days: float
) -> None:
    payout = staff.dated(days)
    staff.approve(payout)
    assert staff.main()[1] == (30_000 if days < 1 else 0)
    revoke(staff, staff.approver)
    seen = staff.see(payout)
    assert (seen.status, seen.approved_by, seen.approved_at, seen.reserved_at) == ("draft", None, None, None)
    assert (staff.main(), staff.states(payout), seen.approvals) == (_FULL, ["ready"] * 3, ())
    assert seen.withdrawal_reason
    assert staff.events(payout) == ["needs_approval", "approval_withdrawn"]
    staff.clock.advance((days + 1) * 86_400)
    staff.work(1)
    assert (staff.status(payout), staff.main()) == ("draft", _FULL)
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_a_payout_that_was_withdrawn_is_approved_again_and_sent_once(staff: StaffedDesk) -> None:
    payout = staff.draft_of(3)
    staff.approve(payout)
    delete(staff, staff.approver)
    staff.approve_as(payout, staff.admin)
    staff.work(3)
    seen = staff.see(payout)
    assert (seen.status, seen.succeeded_count, staff.main()) == ("completed", 3, (50_000_000 - 30_000, 0))
    assert staff.states(payout) == ["succeeded"] * 3
    assert {state.value: entry.count for state, entry in seen.states.items()} == {"succeeded": 3}
    sent = Transaction.select().where(Transaction.payout_id == payout.payout_id, Transaction.status == "succeeded")
    assert sorted(row.reference for row in sent) == [f"P1/r{place}" for place in range(3)]
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_a_withdrawn_payout_is_withdrawn_and_cancelled_again(staff: StaffedDesk) -> None:
    payout = staff.draft_of(3)
    for turn in range(3):
        approver = staff.key("payouts:approve", "payouts:read")
        staff.approve_as(payout, approver)
        assert staff.main()[1] == 30_000, turn
        delete(staff, approver)
        assert staff.main() == _FULL
    staff.approve_as(payout, staff.admin)
    staff.cancel(payout)
    assert (staff.status(payout), staff.main(), staff.states(payout)) == ("cancelled", _FULL, ["cancelled"] * 3)
    assert check_everything(vault=staff.services.runtime.vault) == []


@pytest.mark.parametrize("revoke", REVOCATIONS)
def test_a_draft_of_a_revoked_key_is_cancelled_and_its_reference_is_free(
    staff: StaffedDesk, revoke: Revocation
) -> None:
    draft, other = staff.draft_of(2), staff.draft_of(2, "P2")
    approved = staff.draft_of(2, "P3")
    staff.approve(approved)
    revoke(staff, staff.maker)
    seen = staff.payouts.get(draft.payout_id, staff.owner)
    assert (seen.status, staff.payouts.get(other.payout_id, staff.owner).status) == ("cancelled", "cancelled")
    assert seen.withdrawal_reason
    assert staff.payouts.get(approved.payout_id, staff.owner).status == "approved", "another has answered for it"
    staff.maker = staff.key("payouts:write", "payouts:read")
    again = staff.draft_of(2)
    assert again.payout_id != draft.payout_id
    staff.approve(again)
    staff.work(2)
    assert staff.status(again) == "completed"
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_the_reference_is_free_after_maker_and_approver_were_revoked_and_its_rows_are_paid_once(
    staff: StaffedDesk,
) -> None:
    payout = staff.draft_of(2)
    staff.approve(payout)
    staff.services.api_keys.delete(key_of(staff.approver), staff.owner)
    delete(staff, staff.maker)
    staff.maker = staff.key("payouts:write", "payouts:read")
    again = staff.draft_of(2)
    assert (again.ready_count, again.invalid_count) == (2, 0)
    staff.approve_as(again, staff.admin)
    staff.work(2)
    assert (staff.status(again), staff.main()) == ("completed", (50_000_000 - 20_000, 0))
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_a_draft_of_a_person_who_left_stays(staff: StaffedDesk) -> None:
    clerk = staff.person("clerk", "developer")
    staff.maker = clerk
    draft = staff.draft_of(2)
    staff.services.clients.set_user_active("clerk@acme.example", False, OPERATOR)
    assert staff.payouts.get(draft.payout_id, staff.owner).status == "draft"
    staff.approve_as(draft, staff.admin)
    assert staff.payouts.get(draft.payout_id, staff.owner).status == "approved"


@pytest.mark.parametrize("way", ["team", "operator", "role"])
def test_the_approvals_of_a_person_who_left_are_withdrawn(staff: StaffedDesk, way: str) -> None:
    ben = staff.person("ben")
    payout = staff.dated(_MONTH)
    staff.approve_as(payout, ben)
    if way == "team":
        staff.services.people.set_active(person_of(ben), False, staff.owner)
    elif way == "operator":
        staff.services.clients.set_user_active("ben@acme.example", False, OPERATOR)
    else:
        staff.services.people.change_role(ChangeRole(person_of(ben), "developer"), staff.owner)
    seen = staff.see(payout)
    assert (seen.status, "ben@acme.example" in (seen.withdrawal_reason or "")) == ("draft", True)
    assert AuditEvent.select().where(AuditEvent.action == "payout.approval_withdrawn").count() == 1
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_approvals_by_keys_of_a_person_who_left_are_withdrawn_and_the_keys_go_on(staff: StaffedDesk) -> None:
    ben = staff.person("ben")
    key = staff.key("payouts:*", by=ben)
    payout = staff.dated(_MONTH)
    staff.approve_as(payout, key)
    staff.services.clients.set_user_active("ben@acme.example", False, OPERATOR)
    assert staff.status(payout) == "draft"
    staff.approve_as(payout, key)
    staff.services.api_keys.delete(key_of(staff.maker), staff.owner)
    assert staff.payouts.get(payout.payout_id, staff.owner).status == "approved"


def test_a_key_that_expires_is_noticed_before_its_payout_is_sent(staff: StaffedDesk) -> None:
    payouts = [staff.dated(3, "far"), staff.dated(0.5, "near")]
    for payout in payouts:
        staff.approve(payout)
    change(staff, staff.approver, expires_at=staff.clock.now() + timedelta(hours=6))
    for hours in (13, 72):
        staff.clock.advance(hours * 3600)
        staff.tick()
        work(staff.services, staff.clock)
    assert [staff.status(payout) for payout in payouts] == ["draft"] * 2
    assert staff.main() == _FULL
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_what_began_to_leave_goes_on_and_the_rest_is_cancelled(staff: StaffedDesk) -> None:
    payout = staff.draft_of(40)
    staff.approve(payout)
    staff.tick()
    first = staff.services.processing.claim(1)
    for claimed in first:
        staff.services.processing.advance(claimed)
    delete(staff, staff.approver)
    staff.work(3)
    states = staff.states(payout)
    assert (states.count("succeeded"), states.count("cancelled")) == (1, 39)
    assert (staff.status(payout), staff.main()) == ("cancelled", (50_000_000 - 10_000, 0))
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_a_payout_whose_rows_have_all_left_is_completed(staff: StaffedDesk) -> None:
    payout = staff.draft_of(3, number="+256770000004")
    staff.approve(payout)
    staff.tick()
    work(staff.services, staff.clock)
    delete(staff, staff.approver)
    staff.work(5)
    seen = staff.see(payout)
    assert (seen.status, seen.succeeded_count, seen.withdrawal_reason) == ("completed", 3, None)
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_a_row_that_did_not_leave_after_all_is_not_sent_again(
    staff: StaffedDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout = staff.draft_of(2)
    staff.approve(payout)
    staff.tick()
    asked: list[str] = []

    def never_leaves(payment: PaymentOrder, _: float) -> ProviderAnswer:
        asked.append(payment.transaction_id)
        if len(asked) == 2:
            delete(staff, staff.approver)
        return ProviderAnswer(Outcome.NOT_SENT)

    claimed = staff.services.processing.claim(2)
    with monkeypatch.context() as away:
        away.setattr(staff.services.runtime.providers.get("sandbox"), "send", never_leaves)
        for each in claimed:
            staff.services.processing.advance(each)
    staff.work(8)
    assert (len(asked), set(staff.states(payout)) <= {"cancelled", "ready"}, staff.main()) == (2, True, _FULL)
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_other_payouts_and_other_rights_are_left_alone(staff: StaffedDesk) -> None:
    by_admin, by_key = staff.dated(_MONTH, "by-admin"), staff.dated(_MONTH, "by-key")
    staff.approve_as(by_admin, staff.admin)
    staff.approve(by_key)
    change(staff, staff.approver, name="renamed")
    delete(staff, staff.key("payouts:approve"))
    staff.services.people.change_role(ChangeRole(person_of(staff.admin), "owner"), staff.owner)
    assert [staff.status(by_admin), staff.status(by_key)] == ["approved", "approved"]
    delete(staff, staff.approver)
    assert [staff.status(by_admin), staff.status(by_key)] == ["approved", "draft"]


def test_fees_that_an_approver_named_hold_until_the_payout_is_sent(staff: StaffedDesk) -> None:
    named, silent = staff.dated(_MONTH, "named"), staff.dated(_MONTH, "silent")
    staff.approve_as(named, staff.admin, total_fee_cents=0)
    staff.approve_as(silent, staff.admin)
    agree_fee(FeeTerms(staff.client_id, TransactionType.DISBURSEMENT, 3_000, 0))
    staff.clock.advance(_MONTH * 86_400)
    staff.tick()
    seen = staff.see(named)
    assert (seen.status, seen.total_fee_cents, staff.see(silent).total_fee_cents) == ("draft", 9_000, 9_000)
    assert "UGX 90" in (seen.withdrawal_reason or "")
    assert staff.main() == (50_000_000, 39_000), "only the other one is reserved"
    assert code_of(lambda: staff.approve_as(named, staff.admin, total_fee_cents=0)) is Code.INVALID_REQUEST
    staff.approve_as(named, staff.admin, total_fee_cents=9_000)
    staff.work(2)
    assert staff.status(named) == "completed"
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_an_approval_at_the_moment_of_a_revocation_never_outlives_it(staff: StaffedDesk) -> None:
    for turn in range(4):
        payout = staff.draft_of(12, f"P{turn}")
        approver = staff.key("payouts:approve", "payouts:read")
        approve = partial(staff.payouts.approve, ApprovePayout(payout.payout_id), approver)
        approved, revoked = at_once(approve, partial(delete if turn % 2 else disable, staff, approver))
        assert (approved in (None, Code.API_KEY_DISABLED), revoked) == (True, None)
        assert (staff.status(payout), staff.main()) == ("draft", _FULL)
    staff.work(2)
    assert staff.main() == _FULL
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_nothing_leaves_after_the_answer_to_a_revocation(staff: StaffedDesk) -> None:
    for turn in range(4):
        payout = staff.draft_of(30, f"P{turn}")
        approver = staff.key("payouts:approve", "payouts:read")
        staff.approve_as(payout, approver)
        sent, revoked = at_once(partial(staff.work, 0.5), partial(delete, staff, approver))
        assert (sent, revoked) == (None, None)
        asked = Transaction.select().where(
            Transaction.payout_id == payout.payout_id, Transaction.asked_at.is_null(False)
        )
        left = asked.count()
        staff.work(2)
        assert asked.count() == left
        # A row whose transaction was made, but not sent, has begun, too.
        ends = {0: ("draft", "cancelled"), 30: ("completed",)}.get(left, ("cancelled",))
        assert staff.status(payout) in ends
        assert staff.main()[1] == 0
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_an_approval_at_the_moment_a_person_is_disabled_never_outlives_it(staff: StaffedDesk) -> None:
    for turn in range(4):
        payout, ben = staff.draft_of(12, f"P{turn}"), staff.person(f"ben{turn}")
        approve = partial(staff.payouts.approve, ApprovePayout(payout.payout_id), ben)
        disable_person = partial(staff.services.people.set_active, person_of(ben), False, staff.owner)
        approved, disabled = at_once(approve, disable_person)
        assert (approved in (None, Code.INSUFFICIENT_SCOPE), disabled) == (True, None)
        assert (staff.status(payout), staff.main()) == ("draft", _FULL)
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_a_draft_at_the_moment_its_key_is_deleted_never_outlives_it(staff: StaffedDesk) -> None:
    for turn in range(4):
        maker = staff.key("payouts:write", "payouts:read")
        order = CreatePayout(f"P{turn}", None, ({"phone_number": "+256770000000", "amount": 100, "reference": "a"},))
        made, deleted = at_once(partial(staff.payouts.create, order, maker), partial(delete, staff, maker))
        assert (made in (None, Code.API_KEY_DISABLED), deleted) == (True, None)
        drafts = staff.payouts.list(ListPayouts(status=PayoutStatus.DRAFT), staff.owner).items
        assert [draft.reference for draft in drafts] == []


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_round_is_not_opened_by_a_key_that_is_being_deleted(staff: StaffedDesk, compete: Compete) -> None:
    payout, maker = staff.draft_of(2), staff.key("payouts:write", "payouts:read")
    staff.approve(payout)
    staff.cancel(payout)
    with unit_of_work():
        delete(staff, maker)
        retrying = compete(partial(code_of, partial(staff.payouts.retry, RetryPayout(payout.payout_id), maker)))
    assert retrying.result() is Code.API_KEY_DISABLED


def test_the_people_of_a_client_get_mails_about_a_withdrawn_approval(
    staff: StaffedDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staff.services.runtime.mail_outbox, "is_on", True)
    payout = staff.dated(_MONTH)
    staff.approve_as(payout, staff.admin, note="for November")
    staff.services.clients.set_user_active("admin@acme.example", False, OPERATOR)
    mails = Mail.select().where(Mail.kind == "payout.approval_withdrawn")
    assert [(mail.recipient, mail.parameters["withdrawal"]) for mail in mails] == [
        ("owner@acme.example", "admin@acme.example is disabled.")
    ]
