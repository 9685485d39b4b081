"""The judged rows of a payout are what is approved and sent, whatever is edited at the database prompt between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peewee import IntegrityError

from tests.services.payouts.desk import PayoutDesk, code_of, row
from tests.support.books import check_everything
from tests.support.money import operator
from tests.support.unguarded import without_triggers
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import database, unit_of_work
from ussd_server.models.clients import AuditEvent
from ussd_server.models.payouts import Payout
from ussd_server.models.transactions import Transaction
from ussd_server.services.payouts.approval.digests import PayoutDigests
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout, ReplacePayout
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id

_EDITS = [
    "UPDATE payout_items SET phone_number = '+256770000099' WHERE payout_id = '{draft}' AND line = 1",
    "UPDATE payout_items SET amount_cents = 9900000 WHERE payout_id = '{draft}' AND line = 1;; "
    "UPDATE payouts SET total_amount_cents = 9950000 WHERE id = '{draft}'",
    "UPDATE payout_items SET provider = 'mtn' WHERE payout_id = '{draft}' AND line = 1",
    "UPDATE payout_items SET reference = 'other' WHERE payout_id = '{draft}' AND line = 1",
    "UPDATE payout_items SET description = 'gift' WHERE payout_id = '{draft}' AND line = 1",
    "UPDATE payout_items SET name = 'Eve' WHERE payout_id = '{draft}' AND line = 1",
    "UPDATE payout_items SET line = 7 WHERE payout_id = '{draft}' AND line = 1",
    "UPDATE payout_items SET is_ready = TRUE, problems = NULL, fee_cents = 0, provider = 'sandbox' "
    "WHERE payout_id = '{draft}' AND line = 3",
    "UPDATE payout_items SET problems = '[]' WHERE payout_id = '{draft}' AND line = 3",
    "UPDATE payout_items SET payout_id = '{draft}' WHERE payout_id = '{foreign}' AND line = 9",
    "DELETE FROM payout_items WHERE payout_id = '{draft}' AND line = 2",
    "UPDATE payouts SET client_id = '{other}' WHERE id = '{draft}'",
    "UPDATE payouts SET created_by = client_id WHERE id = '{draft}'",
    "UPDATE payouts SET reference = 'X' WHERE id = '{draft}'",
    "UPDATE payouts SET description = 'X' WHERE id = '{draft}'",
    "UPDATE payouts SET created_at = '2020-01-01T00:00:00.000Z' WHERE id = '{draft}'",
    "UPDATE payouts SET items_digest = 'x' WHERE id = '{draft}'",
    "UPDATE payouts SET round_amount_cents = 100 WHERE id = '{draft}'",
    "UPDATE payouts SET round_count = 1 WHERE id = '{draft}'",
]
_UNGUARDED_EDITS = [
    "UPDATE payouts SET draft_digest = NULL WHERE id = '{draft}'",
    "UPDATE payouts SET draft_digest = '{digest}' WHERE id = '{draft}'",
]
_BACK = "UPDATE payouts SET status = 'draft', cancelled_at = NULL WHERE id = '{draft}'"


def _two_drafts(desk: PayoutDesk) -> dict[str, str]:
    draft = desk.draft(row("a"), row("b"), row("c", amount=0), description="November")
    stranger = PayoutDesk(desk.services, desk.clock, 0)
    foreign = stranger.draft(*(row(f"f{line}") for line in range(9)), reference="F")
    (digest,) = database.execute_sql(f"SELECT draft_digest FROM payouts WHERE id = '{foreign.payout_id}'").fetchone()
    names = {"draft": draft.payout_id, "foreign": foreign.payout_id, "other": stranger.client_id}
    return names | {"digest": digest}


def test_rows_that_were_judged_are_never_edited(desk: PayoutDesk) -> None:
    names = _two_drafts(desk)
    deletions = ["DELETE FROM payouts WHERE id = '{draft}'", "DELETE FROM payout_items WHERE payout_id = '{draft}'"]
    for edit in [*_EDITS, *deletions]:
        with pytest.raises(IntegrityError):
            _run(edit, names)
    assert check_everything() == []


def test_the_status_of_a_payout_never_goes_back(desk: PayoutDesk) -> None:
    draft, sent = desk.draft(row("a")), desk.draft(row("b"), reference="P2")
    desk.cancel(draft)
    desk.approve(sent)
    desk.work(2)
    again = "UPDATE payouts SET status = 'running', completed_at = NULL, due_at = created_at WHERE id = '{draft}'"
    person = "UPDATE payouts SET approved_by = client_id WHERE id = '{draft}'"
    for edit, payout in ((_BACK, draft), (again, sent), (person, sent)):
        with pytest.raises(IntegrityError):
            _run(edit, {"draft": payout.payout_id})
    assert check_everything() == []


@pytest.mark.both_databases
@pytest.mark.parametrize("edit", [*_EDITS, *_UNGUARDED_EDITS])
def test_a_draft_that_was_edited_without_its_triggers_is_not_approved(desk: PayoutDesk, edit: str) -> None:
    names = _two_drafts(desk)
    with without_triggers():
        _run(edit, names)
    (client_id,) = database.execute_sql(f"SELECT client_id FROM payouts WHERE id = '{names['draft']}'").fetchone()
    approver = replace(desk.approver, caller=replace(desk.approver.caller, client_id=str(client_id)))
    with pytest.raises(ServiceError) as refused:
        desk.payouts.approve(ApprovePayout(names["draft"]), approver)
    assert refused.value.code is Code.INVALID_REQUEST
    assert refused.value.message.startswith("The payout is not what was judged when it was created")
    assert Transaction.select().where(Transaction.type == "disbursement").count() == 0


def test_a_cancelled_draft_that_was_made_a_draft_again_is_not_approved(desk: PayoutDesk) -> None:
    draft = desk.draft(row("a"))
    desk.cancel(draft)
    with without_triggers():
        _run(_BACK, {"draft": draft.payout_id})
    assert code_of(lambda: desk.approve(draft)) is Code.INVALID_REQUEST
    assert desk.main() == (50_000_000, 0)


def test_a_draft_outlives_the_rotation_of_the_master_keys(desk: PayoutDesk) -> None:
    draft, approved = desk.draft(row("a")), desk.draft(row("b"), reference="P2")
    desk.approve(approved)
    master_keys, digests = desk.services.master_keys, PayoutDigests(desk.services.runtime.vault)
    master_keys.add(operator())
    with pytest.raises(ServiceError):
        master_keys.retire(operator())
    master_keys.rekey(operator())
    master_keys.retire(operator())
    assert all(map(digests.is_true, Payout.select()))
    assert desk.approve(draft).status == "approved"
    assert check_everything() == []


def _run(statements: str, names: dict[str, str]) -> None:
    with unit_of_work():
        for statement in statements.split(";; "):
            database.execute_sql(statement.format_map(names))


def test_a_correction_keeps_the_people_behind_the_draft_and_blesses_no_edit(desk: PayoutDesk) -> None:
    draft = desk.draft(row("a"), row("b", amount="abc"))
    fields = {"phone_number": "0770000000", "amount": "50", "reference": "b", "name": "", "description": ""}
    correction = ReplacePayout(draft.payout_id, corrections={2: fields})
    assert code_of(lambda: desk.payouts.replace(correction, desk.approver)) is Code.INSUFFICIENT_SCOPE
    with without_triggers():
        database.execute_sql(
            f"UPDATE payout_items SET amount_cents = 999 WHERE payout_id = '{draft.payout_id}' AND line = 1"
        )
    assert code_of(lambda: desk.payouts.replace(correction, desk.maker)) is Code.INVALID_REQUEST
    with without_triggers():
        database.execute_sql(
            f"UPDATE payout_items SET amount_cents = 100000 WHERE payout_id = '{draft.payout_id}' AND line = 1"
        )
    person, other = new_id(desk.clock.now()), new_id(desk.clock.now())
    first = desk.payouts.create(CreatePayout("P2", items=(row("a"), row("b", amount=0))), _with_people(desk, person))
    second = desk.payouts.replace(
        ReplacePayout(first.payout.payout_id, corrections={2: fields}), _with_people(desk, other)
    ).payout
    assert Payout.get_by_id(second.payout_id).people >= {person, other}
    assert desk.payouts.details(first.payout.payout_id, desk.maker).replaced_by == second.payout_id
    audit = AuditEvent.select(AuditEvent.action).where(AuditEvent.object_id == first.payout.payout_id)
    assert sorted(event.action for event in audit) == ["payout.created", "payout.replaced"]
    desk.approve(second)
    desk.work(2)
    assert desk.states(second) == ["succeeded", "succeeded"]
    assert check_everything() == []


def _with_people(desk: PayoutDesk, *people: str) -> RequestContext:
    return replace(desk.maker, caller=replace(desk.maker.caller, people=frozenset(people)))
