"""Rules of approval: how many different people approve a payout by its sum, and who may ask for less."""

from __future__ import annotations

from typing import Any

import pytest

from tests.services.payouts.desk import code_of, row
from tests.services.payouts.house import PayoutHouse
from tests.support.books import check_everything
from tests.support.example_client import OPERATOR
from ussd_server.context import RequestContext, operator_context
from ussd_server.database.unit_of_work import run_query
from ussd_server.models.clients import AuditEvent
from ussd_server.models.payouts import Approval
from ussd_server.services.payouts.messages import ApprovalRule, CancelPayout, PayoutView
from ussd_server.status import Code

_FULL = (50_000_000, 0)
TWO_ABOVE_500 = (ApprovalRule(0, 1), ApprovalRule(50_000, 2))
ONE = (ApprovalRule(0, 1),)


def set_rules(house: PayoutHouse, *rules: ApprovalRule, by: RequestContext | None = None) -> Any:
    return house.services.approval_rules.set(rules, by or house.owner)


def payout_of(house: PayoutHouse, shillings: int, reference: str = "P1") -> PayoutView:
    return house.draft(row(amount=shillings), reference=reference)


def test_a_large_payout_needs_two_people_and_a_small_one_needs_one(house: PayoutHouse) -> None:
    set_rules(house, *TWO_ABOVE_500)
    large, small = payout_of(house, 501), payout_of(house, 500, "P2")
    assert house.approve(small).status == "approved"
    kept = house.approve(large)
    assert (kept.status, [(each.by, each.note) for each in kept.approvals]) == (
        "draft",
        [(house.approver.caller.key_id, None)],
    )
    assert house.main()[1] == 50_000
    assert house.approve(large).status == "draft", "again by the same caller, nothing changes"
    approved = house.approve_as(large, house.admin, note="checked")
    assert (approved.status, [each.note for each in approved.approvals]) == ("approved", [None, "checked"])
    assert house.main()[1] == 100_100
    house.work(2)
    assert house.status(large) == "completed"
    assert check_everything(vault=house.services.runtime.vault) == []


def test_two_approvals_by_one_person_are_refused(house: PayoutHouse) -> None:
    set_rules(house, *TWO_ABOVE_500)
    payout = payout_of(house, 600)
    own_key = house.key("payouts:approve", by=house.admin)
    house.approve_as(payout, house.admin)
    assert code_of(lambda: house.approve_as(payout, own_key)) is Code.INSUFFICIENT_SCOPE
    assert code_of(lambda: house.approve_as(payout, house.owner)) is Code.INSUFFICIENT_SCOPE, "the maker's own person"
    assert house.approve(payout).status == "approved"


def test_two_pairs_of_operators_that_share_a_name_are_one_approval(house: PayoutHouse) -> None:
    set_rules(house, *TWO_ABOVE_500)
    payout = payout_of(house, 600)
    context = operator_context(house.client_id)
    request = CancelPayout(payout.payout_id)

    def approve(by: str, second: str) -> object:
        return house.payouts.approve_by_operators(approval(payout), by, second, context)

    approve("Ann", "Ben")
    assert code_of(lambda: approve("Ben", "Cid")) is Code.INSUFFICIENT_SCOPE
    approve("Cid", "Dan")
    assert house.status(payout) == "approved"
    assert house.payouts.cancel(request, house.owner).status == "cancelled"


def approval(payout: PayoutView) -> Any:
    from ussd_server.services.payouts.messages import ApprovePayout

    return ApprovePayout(payout.payout_id)


def test_one_of_two_approvals_is_withdrawn_and_given_again(house: PayoutHouse) -> None:
    set_rules(house, *TWO_ABOVE_500)
    payout, half = payout_of(house, 600), payout_of(house, 700, "P2")
    key = house.key("payouts:approve")
    for each in (payout, half):
        house.approve_as(each, key)
    house.approve_as(payout, house.admin)
    assert house.status(payout) == "approved"
    house.services.api_keys.delete(key.caller.key_id or "", house.owner)
    seen = house.see(payout)
    assert (seen.status, [each.by for each in seen.approvals]) == ("draft", [house.admin.caller.user_id])
    assert (house.see(half).approvals, house.events(half)) == ((), ["needs_approval", "approval_withdrawn"])
    assert house.main() == _FULL
    assert house.approve(payout).status == "approved"
    assert check_everything(vault=house.services.runtime.vault) == []


def test_an_approval_that_named_other_fees_does_not_count(house: PayoutHouse) -> None:
    from tests.support.money import agree_fee
    from ussd_server.services.accounts.messages import FeeTerms
    from ussd_server.services.transactions.messages import TransactionType

    set_rules(house, *TWO_ABOVE_500)
    payout = payout_of(house, 600)
    house.approve_as(payout, house.admin, total_fee_cents=0)
    agree_fee(FeeTerms(house.client_id, TransactionType.DISBURSEMENT, 3_000, 0))
    assert house.approve(payout).status == "draft"
    assert house.approve_as(payout, house.admin, total_fee_cents=3_000).status == "approved"
    assert check_everything(vault=house.services.runtime.vault) == []


def test_rules_that_ask_for_more_hold_at_once_and_for_less_wait_for_another_person(house: PayoutHouse) -> None:
    rules = house.services.approval_rules
    view = set_rules(house, *TWO_ABOVE_500)
    assert (view.approval_rules, view.proposed_approval_rules) == (TWO_ABOVE_500, None)
    less = (ApprovalRule(0, 1), ApprovalRule(60_000, 2))
    view = set_rules(house, *less)
    assert (view.approval_rules, view.proposed_approval_rules) == (TWO_ABOVE_500, less)
    assert code_of(lambda: rules.confirm(house.owner)) is Code.INSUFFICIENT_SCOPE
    assert set_rules(house, *less).approval_rules == TWO_ABOVE_500, "the proposer confirms nothing by repeating"
    assert rules.confirm(house.admin).approval_rules == less
    set_rules(house, *ONE)
    assert rules.confirm(operator_context(house.client_id)).approval_rules == ONE
    assert code_of(lambda: rules.confirm(house.admin)) is Code.INVALID_REQUEST
    actions = [row.action for row in AuditEvent.select().where(AuditEvent.action.startswith("approval_rules."))]
    assert sorted(actions) == sorted(
        ["approval_rules.changed", *["approval_rules.proposed"] * 3, *["approval_rules.confirmed"] * 2]
    )


def test_an_admin_confirms_by_sending_the_proposed_rules_and_sets_none(house: PayoutHouse) -> None:
    assert code_of(lambda: set_rules(house, *TWO_ABOVE_500, by=house.admin)) is Code.INSUFFICIENT_SCOPE
    set_rules(house, *TWO_ABOVE_500)
    set_rules(house, *ONE)
    assert set_rules(house, *ONE, by=house.admin).approval_rules == ONE


def test_a_second_mailbox_of_the_owner_confirms_no_rules(house: PayoutHouse) -> None:
    from dataclasses import replace

    from ussd_server.services.clients.messages import InvitePerson

    link = house.services.team.invite(InvitePerson("second@acme.example", "owner"), house.owner)
    second = replace(house.owner, caller=replace(house.owner.caller, user_id=link.person.user_id))
    set_rules(house, *TWO_ABOVE_500)
    set_rules(house, *ONE)
    assert code_of(lambda: house.services.approval_rules.confirm(second)) is Code.INSUFFICIENT_SCOPE
    assert code_of(lambda: set_rules(house, *ONE, by=second)) is Code.INSUFFICIENT_SCOPE
    house.services.clients.confirm_user("second@acme.example", OPERATOR)
    assert house.services.approval_rules.confirm(second).approval_rules == ONE


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
def test_malformed_rules_are_refused(house: PayoutHouse, rules: tuple[tuple[int, int], ...]) -> None:
    assert code_of(lambda: set_rules(house, *(ApprovalRule(*rule) for rule in rules))) is Code.INVALID_REQUEST


def test_notes_are_kept_and_a_long_one_is_refused(house: PayoutHouse) -> None:
    payout, other = house.draft_of(1), house.draft_of(1, "P2")
    for note in ("x" * 201, "line\nbreak"):
        assert code_of(lambda note=note: house.approve_as(payout, house.admin, note=note)) is Code.INVALID_REQUEST
        request = CancelPayout(payout.payout_id, note)
        assert code_of(lambda request=request: house.payouts.cancel(request, house.owner)) is Code.INVALID_REQUEST
    house.approve_as(payout, house.admin, note=" November ")
    assert house.payouts.cancel(CancelPayout(other.payout_id, "wrong file"), house.owner).cancel_note == "wrong file"
    assert [each.note for each in house.see(payout).approvals] == ["November"]
    reasons = {row.action: row.reason for row in AuditEvent.select().where(AuditEvent.reason.is_null(False))}
    assert (reasons["payout.approved"], reasons["payout.cancelled"]) == ("November", "wrong file")


def test_an_approval_that_was_edited_does_not_count_and_the_check_names_it(house: PayoutHouse) -> None:
    set_rules(house, *TWO_ABOVE_500)
    payout = payout_of(house, 600)
    house.approve(payout)
    kept = Approval.get(Approval.payout_id == payout.payout_id)
    run_query(
        "INSERT INTO payout_approvals (id, payout_id, made_by, people, created_at, digest) "
        "SELECT :id, payout_id, :by, '', created_at, digest FROM payout_approvals",
        id=payout.payout_id,
        by=house.client_id,
    )
    assert code_of(lambda: house.approve_as(payout, house.admin)) is Code.INVALID_REQUEST
    assert [str(each) for each in check_everything(vault=house.services.runtime.vault)] == [
        f"Payout {payout.payout_id} is not what was judged and approved."
    ]
    assert kept.note is None
