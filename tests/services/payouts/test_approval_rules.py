"""Rules of approval: how many different people approve a payout by its sum, and who may ask for less."""

from __future__ import annotations

from typing import Any

import pytest

from tests.services.payouts.desk import code_of, row
from tests.services.payouts.staff import StaffedDesk
from tests.support.books import check_everything
from tests.support.example_client import OPERATOR
from ussd_server.context import RequestContext, operator_context
from ussd_server.database.unit_of_work import run_query
from ussd_server.models.clients import AuditEvent
from ussd_server.models.payouts import Approval
from ussd_server.services.clients.messages import ChangeRole
from ussd_server.services.payouts.messages import ApprovalRule, CancelPayout, PayoutView, in_words
from ussd_server.services.payouts.payouts import by_operators
from ussd_server.status import Code, ServiceError

_FULL = (50_000_000, 0)
TWO_ABOVE_500 = (ApprovalRule(0, 1), ApprovalRule(50_000, 2))
ONE = (ApprovalRule(0, 1),)


def set_rules(staff: StaffedDesk, *rules: ApprovalRule, by: RequestContext | None = None) -> Any:
    return staff.services.approval_rules.set(rules, by or staff.owner)


def payout_of(staff: StaffedDesk, shillings: int, reference: str = "P1") -> PayoutView:
    return staff.draft(row(amount=shillings), reference=reference)


def test_a_large_payout_needs_two_people_and_a_small_one_needs_one(staff: StaffedDesk) -> None:
    set_rules(staff, *TWO_ABOVE_500)
    large, small = payout_of(staff, 501), payout_of(staff, 500, "P2")
    assert staff.approve(small).status == "approved"
    kept = staff.approve(large)
    assert (kept.status, [(each.by, each.note) for each in kept.approvals]) == (
        "draft",
        [(staff.approver.caller.key_id, None)],
    )
    assert staff.main()[1] == 50_000
    assert staff.approve(large).status == "draft", "again by the same caller, nothing changes"
    approved = staff.approve_as(large, staff.admin, note="checked")
    assert (approved.status, [each.note for each in approved.approvals]) == ("approved", [None, "checked"])
    assert staff.approve(large).status == "approved", "again by the first approver, nothing changes"
    assert staff.main()[1] == 100_100
    staff.work(2)
    assert staff.status(large) == "completed"
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_two_approvals_by_one_person_are_refused(staff: StaffedDesk) -> None:
    set_rules(staff, *TWO_ABOVE_500)
    payout = payout_of(staff, 600)
    own_key = staff.key("payouts:approve", by=staff.admin)
    staff.approve_as(payout, staff.admin)
    assert code_of(lambda: staff.approve_as(payout, own_key)) is Code.INSUFFICIENT_SCOPE
    assert code_of(lambda: staff.approve_as(payout, staff.owner)) is Code.INSUFFICIENT_SCOPE, "the maker's own person"
    assert staff.approve(payout).status == "approved"


def test_two_pairs_of_operators_that_share_a_name_are_one_approval(staff: StaffedDesk) -> None:
    set_rules(staff, *TWO_ABOVE_500)
    payout = payout_of(staff, 600)
    context = operator_context(staff.client_id)
    request = CancelPayout(payout.payout_id)

    def approve(by: str, second: str) -> object:
        return staff.payouts.approve(approval(payout), by_operators(context, by, second))

    approve("Ann", "Ben")
    assert code_of(lambda: approve("Ben", "Cid")) is Code.INSUFFICIENT_SCOPE
    approve("Cid", "Dan")
    assert staff.status(payout) == "approved"
    assert staff.payouts.cancel(request, staff.owner).status == "cancelled"


def test_one_pair_of_operators_is_one_approval_however_their_names_are_typed(staff: StaffedDesk) -> None:
    set_rules(staff, ApprovalRule(0, 3))
    payout, context = payout_of(staff, 600), operator_context(staff.client_id)

    def approve(by: str, second: str) -> PayoutView:
        return staff.payouts.approve(approval(payout), by_operators(context, by, second))

    assert len(approve("Ann", "Ben").approvals) == 1
    for pair in (("ANN", "BEN"), ("ben", "ann"), (" ANN ", "BEN "), ("\uff21nn", "Ben")):
        assert (approve(*pair).status, len(approve(*pair).approvals)) == ("draft", 1), pair
    for pair in (("ANN", "Cid"), ("Cid", "ben"), ("Ann AND Ben", "Cid")):
        assert code_of(lambda pair=pair: approve(*pair)) is Code.INSUFFICIENT_SCOPE
    assert staff.approve(payout).status == "draft"
    assert staff.approve_as(payout, staff.admin).status == "approved"


def approval(payout: PayoutView) -> Any:
    from ussd_server.services.payouts.messages import ApprovePayout

    return ApprovePayout(payout.payout_id)


def test_one_of_two_approvals_is_withdrawn_and_given_again(staff: StaffedDesk) -> None:
    set_rules(staff, *TWO_ABOVE_500)
    payout, half = payout_of(staff, 600), payout_of(staff, 700, "P2")
    key = staff.key("payouts:approve")
    for each in (payout, half):
        staff.approve_as(each, key)
    staff.approve_as(payout, staff.admin)
    assert staff.status(payout) == "approved"
    staff.services.api_keys.delete(key.caller.key_id or "", staff.owner)
    seen = staff.see(payout)
    assert (seen.status, [each.by for each in seen.approvals]) == ("draft", [staff.admin.caller.user_id])
    assert (staff.see(half).approvals, staff.events(half)) == ((), ["needs_approval", "approval_withdrawn"])
    assert staff.main() == _FULL
    assert staff.approve(payout).status == "approved"
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_an_approval_that_named_other_fees_does_not_count(staff: StaffedDesk) -> None:
    from tests.support.money import agree_fee
    from ussd_server.services.accounts.messages import FeeTerms
    from ussd_server.services.transactions.messages import TransactionType

    set_rules(staff, *TWO_ABOVE_500)
    payout = payout_of(staff, 600)
    staff.approve_as(payout, staff.admin, total_fee_cents=0)
    agree_fee(FeeTerms(staff.client_id, TransactionType.DISBURSEMENT, 3_000, 0))
    assert staff.approve(payout).status == "draft"
    assert staff.approve_as(payout, staff.admin, total_fee_cents=3_000).status == "approved"
    assert check_everything(vault=staff.services.runtime.vault) == []


def test_rules_that_ask_for_more_hold_at_once_and_for_less_wait_for_another_person(staff: StaffedDesk) -> None:
    rules = staff.services.approval_rules
    view = set_rules(staff, *TWO_ABOVE_500)
    assert (view.approval_rules, view.proposed_approval_rules) == (TWO_ABOVE_500, None)
    less = (ApprovalRule(0, 1), ApprovalRule(60_000, 2))
    view = set_rules(staff, *less)
    assert (view.approval_rules, view.proposed_approval_rules) == (TWO_ABOVE_500, less)
    assert code_of(lambda: rules.confirm(in_words(less), staff.owner)) is Code.INSUFFICIENT_SCOPE
    assert set_rules(staff, *less).approval_rules == TWO_ABOVE_500, "the proposer confirms nothing by repeating"
    assert rules.confirm(in_words(less), staff.admin).approval_rules == less
    set_rules(staff, *ONE)
    assert rules.confirm(in_words(ONE), operator_context(staff.client_id)).approval_rules == ONE
    assert code_of(lambda: rules.confirm(in_words(ONE), staff.admin)) is Code.INVALID_REQUEST
    actions = [row.action for row in AuditEvent.select().where(AuditEvent.action.startswith("approval_rules."))]
    assert sorted(actions) == sorted(
        ["approval_rules.changed", *["approval_rules.proposed"] * 3, *["approval_rules.confirmed"] * 2]
    )


def test_an_admin_confirms_by_sending_the_proposed_rules_and_sets_none(staff: StaffedDesk) -> None:
    assert code_of(lambda: set_rules(staff, *TWO_ABOVE_500, by=staff.admin)) is Code.INSUFFICIENT_SCOPE
    set_rules(staff, *TWO_ABOVE_500)
    set_rules(staff, *ONE)
    assert set_rules(staff, *ONE, by=staff.admin).approval_rules == ONE


def test_rules_are_confirmed_as_they_were_shown(staff: StaffedDesk) -> None:
    rules, shown = staff.services.approval_rules, (ApprovalRule(0, 2),)
    set_rules(staff, ApprovalRule(0, 3))
    set_rules(staff, *shown)
    set_rules(staff, *ONE)
    with pytest.raises(ServiceError, match="Nothing was confirmed: the rules that wait are 1 above UGX 0"):
        rules.confirm(in_words(shown), staff.admin)
    assert rules.get(staff.owner).approval_rules == (ApprovalRule(0, 3),)
    assert rules.confirm("1 above UGX 0", staff.admin).approval_rules == ONE


@pytest.mark.parametrize("leaves", ["disabled", "demoted"])
def test_rules_wait_no_more_when_their_proposer_is_no_longer_an_owner(staff: StaffedDesk, leaves: str) -> None:
    rules, team, proposer = staff.services.approval_rules, staff.services.people, staff.person("dan", "owner")
    set_rules(staff, *TWO_ABOVE_500)
    assert set_rules(staff, *ONE, by=proposer).proposed_approval_rules == ONE
    person = proposer.caller.user_id or ""
    if leaves == "disabled":
        team.set_active(person, False, staff.owner)
    else:
        team.change_role(ChangeRole(person, "admin"), staff.owner)
    assert rules.get(staff.admin).proposed_approval_rules is None
    assert code_of(lambda: rules.confirm(in_words(ONE), staff.admin)) is Code.INVALID_REQUEST
    assert code_of(lambda: set_rules(staff, *ONE, by=staff.admin)) is Code.INSUFFICIENT_SCOPE
    assert set_rules(staff, *ONE).proposed_approval_rules == ONE, "another owner proposes them"
    assert rules.confirm(in_words(ONE), staff.admin).approval_rules == ONE


def test_a_second_mailbox_of_the_owner_confirms_no_rules(staff: StaffedDesk) -> None:
    from dataclasses import replace

    from ussd_server.services.clients.messages import InvitePerson

    link = staff.services.people.invite(InvitePerson("second@acme.example", "owner"), staff.owner)
    second = replace(staff.owner, caller=replace(staff.owner.caller, user_id=link.person.user_id))
    set_rules(staff, *TWO_ABOVE_500)
    set_rules(staff, *ONE)
    assert code_of(lambda: staff.services.approval_rules.confirm(in_words(ONE), second)) is Code.INSUFFICIENT_SCOPE
    assert code_of(lambda: set_rules(staff, *ONE, by=second)) is Code.INSUFFICIENT_SCOPE
    staff.services.clients.confirm_user("second@acme.example", OPERATOR)
    assert staff.services.approval_rules.confirm(in_words(ONE), second).approval_rules == ONE


@pytest.mark.parametrize(
    "rules",
    [
        (),
        ((1, 1),),
        ((0, 0),),
        ((0, 6),),
        ((0, 1), (0, 2)),
        ((0, 1), (5, 2), (4, 3)),
        tuple((place, 1) for place in range(11)),
    ],
)
def test_malformed_rules_are_refused(staff: StaffedDesk, rules: tuple[tuple[int, int], ...]) -> None:
    assert code_of(lambda: set_rules(staff, *(ApprovalRule(*rule) for rule in rules))) is Code.INVALID_REQUEST


def test_notes_are_kept_and_a_long_one_is_refused(staff: StaffedDesk) -> None:
    payout, other = staff.draft_of(1), staff.draft_of(1, "P2")
    for note in ("x" * 201, "line\nbreak"):
        assert code_of(lambda note=note: staff.approve_as(payout, staff.admin, note=note)) is Code.INVALID_REQUEST
        request = CancelPayout(payout.payout_id, note)
        assert code_of(lambda request=request: staff.payouts.cancel(request, staff.owner)) is Code.INVALID_REQUEST
    november, wrong = f"November {'x' * 191}", "wrong file"
    staff.approve_as(payout, staff.admin, note=f" {november} ")
    assert staff.payouts.cancel(CancelPayout(other.payout_id, wrong), staff.owner).cancel_note == wrong
    assert [each.note for each in staff.see(payout).approvals] == [november]
    reasons = {row.action: row.reason for row in AuditEvent.select().where(AuditEvent.reason.is_null(False))}
    assert (reasons["payout.approved"], reasons["payout.cancelled"]) == (november, wrong)


def test_an_approval_that_was_edited_does_not_count_and_the_check_names_it(staff: StaffedDesk) -> None:
    set_rules(staff, *TWO_ABOVE_500)
    payout = payout_of(staff, 600)
    staff.approve(payout)
    kept = Approval.get(Approval.payout_id == payout.payout_id)
    run_query(
        "INSERT INTO payout_approvals (id, payout_id, round, made_by, people, created_at, digest) "
        "SELECT :id, payout_id, 1, :by, '', created_at, digest FROM payout_approvals",
        id=payout.payout_id,
        by=staff.client_id,
    )
    assert code_of(lambda: staff.approve_as(payout, staff.admin)) is Code.INVALID_REQUEST
    assert [str(each) for each in check_everything(vault=staff.services.runtime.vault)] == [
        f"Payout {payout.payout_id} is not what was judged and approved."
    ]
    assert kept.note is None


def test_rules_that_were_edited_approve_nothing_and_the_check_names_them(staff: StaffedDesk) -> None:
    set_rules(staff, *TWO_ABOVE_500)
    payout = payout_of(staff, 600)
    run_query("UPDATE approval_rules SET rules = :rules", rules="[[0,1]]")
    assert code_of(lambda: staff.approve(payout)) is Code.INVALID_REQUEST
    assert [str(each) for each in check_everything(vault=staff.services.runtime.vault)] == [
        f"The approval rules of {staff.client_id} are not what was set and confirmed."
    ]


def test_new_master_keys_renew_the_digests_of_approvals_and_rules(staff: StaffedDesk) -> None:
    set_rules(staff, *TWO_ABOVE_500)
    payout = payout_of(staff, 600)
    staff.approve(payout)
    master_keys = staff.services.master_keys
    master_keys.add(OPERATOR)
    master_keys.rekey(OPERATOR)
    master_keys.retire(OPERATOR)
    assert staff.approve_as(payout, staff.admin).status == "approved"
    assert check_everything(vault=staff.services.runtime.vault) == []
