"""Withdrawals: what a revoked key or person made or approved of payouts that have not left.

A payout whose approval is withdrawn is a draft again, and its reservation is released. A draft of a revoked key is
cancelled, and its reference is free. A draft of a person who left stays. Of a payout that began to leave, the rows that
were not sent are cancelled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from ussd_server.context import APPROVE, NOT_PERMITTED, RequestContext, automatic_context
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import dialect, run_query, unit_of_work
from ussd_server.models.clients import Client, User
from ussd_server.models.keys import ApiKey, DeletedApiKey, behind_secret
from ussd_server.models.payouts import Approval, Payout
from ussd_server.services.gates.sending import fault_of_key, fault_of_person, lowered_limit
from ussd_server.services.leases import end_lease
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.payouts.approval.approvers import end_approvals, standing
from ussd_server.services.payouts.attempts import has_begun, is_under_way
from ussd_server.services.payouts.holds import release
from ussd_server.services.payouts.messages import PayoutStatus
from ussd_server.services.payouts.records import (
    begin_draft,
    complete,
    mark_cancelled,
    write_payout_audit,
    write_payout_event,
)
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import MAKE
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds

_OPEN = (PayoutStatus.DRAFT, PayoutStatus.APPROVED, PayoutStatus.RUNNING)
_STATEMENT_MILLISECONDS = 30_000


class _Giver(NamedTuple):
    """A key or a person who made or approved a payout."""

    is_key: bool
    fault: str | None
    """Why it may no longer do that, in words; None while it may."""


class PayoutWithdrawals:
    """Withdraws what expired keys made and approved. All other revocations withdraw it themselves."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._outbox = runtime.clock, runtime.mail_outbox

    def withdraw_expired(self) -> None:
        """Withdraw what keys made and approved that have expired since, for every client."""
        for (client_id,) in run_query(_CLIENTS_OF_EXPIRED, now=iso_milliseconds(self._clock.now())).fetchall():
            with unit_of_work():
                lock_row(Client, str(client_id))
                withdraw_revoked(str(client_id), self._outbox, automatic_context(), self._clock.now())

    def withdraw_if_revoked(self, payout_id: str) -> None:
        """Withdraw the approval of a payout whose rows are about to be sent, if its giver may no longer give it."""
        with unit_of_work():
            row = lock_row(Payout, payout_id)
            if row.status in (PayoutStatus.APPROVED, PayoutStatus.RUNNING):
                _withdraw(row, self._outbox, automatic_context(), self._clock.now())


_CLIENTS_OF_EXPIRED = """
    SELECT DISTINCT payouts.client_id FROM api_keys JOIN payouts ON payouts.client_id = api_keys.client_id
        AND payouts.status IN ('draft', 'approved', 'running')
    WHERE api_keys.expires_at <= :now
        AND ((payouts.status = 'draft' AND payouts.round_by = api_keys.id) OR payouts.approved_by = api_keys.id
            OR EXISTS (SELECT 1 FROM payout_approvals AS given WHERE given.payout_id = payouts.id
                AND given.made_by = api_keys.id AND given.withdrawn_at IS NULL))"""


def withdraw_revoked(
    client_id: str, outbox: MailOutbox, context: RequestContext, now: datetime, *, disabled_person: str | None = None
) -> None:
    """Withdraw what keys and people of a client made and approved who may no longer do it.

    Call in the unit of work of the revocation, after it was written and with the client's row locked.
    A key whose daily limit was lowered pays no more than that: what is beyond it of reserved payouts is withdrawn.
    `disabled_person` is the id of a person who was disabled: approvals by keys behind which only this person stands are
    withdrawn as well.
    """
    alone = _keys_of_one_person(client_id, disabled_person) if disabled_person else frozenset()
    # The newest first, so that a lowered limit leaves what was approved before.
    for payout_id in reversed(_concerned(client_id, now, alone)):
        _withdraw(lock_row(Payout, payout_id), outbox, context, now, alone)


def require_still_allowed(grant: str, context: RequestContext, now: datetime) -> None:
    """Raise API_KEY_DISABLED or INSUFFICIENT_SCOPE when the caller has lost a right since the call began.

    Call with the row of the client locked, so that the answer holds until the unit of work ends.
    """
    caller = context.caller
    giver = _giver(caller.key_id or caller.user_id or "", grant, now)
    if giver.fault and giver.is_key:
        raise ServiceError(Code.API_KEY_DISABLED, "The API key is disabled or expired")
    if giver.fault:
        raise ServiceError(Code.INSUFFICIENT_SCOPE, NOT_PERMITTED)


def withdraw_approvals(
    row: Payout, approvals: Sequence[Approval], reason: str, outbox: MailOutbox, context: RequestContext, now: datetime
) -> None:
    """Make a payout a draft again without these approvals. Call in a unit of work with the payout locked.

    Of a payout of which a row has left, the others are cancelled instead; one whose rows have all left stays as it is.
    """
    dialect().allow_statements(_STATEMENT_MILLISECONDS)
    has_left = has_begun(row)
    if not release(row) and has_left and not is_under_way(row.id, unsent=True):
        return
    end_approvals(approvals, now)
    row.withdrawal_reason, row.updated_at = reason, now
    end_lease(row)
    if has_left:
        cancel_unsent(row, outbox, now)
        write_payout_audit("payout.cancelled", row, reason, context, now)
        return
    if row.status != PayoutStatus.DRAFT:
        begin_draft(row, now)
    row.withdrawn_at = now
    row.save()
    write_payout_event(row, "payout.approval_withdrawn", outbox, now)
    write_payout_audit("payout.approval_withdrawn", row, reason, context, now)


def _concerned(client_id: str, now: datetime, alone: Collection[str]) -> list[str]:
    """The ids of the open payouts of which something may no longer hold, in order; each giver is looked at once."""
    is_open = (Payout.client_id == client_id) & Payout.status.in_(_OPEN)
    kept = Approval.select(Approval.payout_id, Approval.made_by).join(Payout, on=(Payout.id == Approval.payout_id))
    approvals = {(row.payout_id, row.made_by) for row in kept.where(is_open, Approval.withdrawn_at.is_null())}
    columns = (Payout.id, Payout.status, Payout.round_by, Payout.counted_key_id)
    payouts = list(Payout.select(*columns).where(is_open))
    drafts = {(row.id, row.round_by) for row in payouts if row.status == PayoutStatus.DRAFT}
    gone = {each for each in {giver for _, giver in approvals} if _giver(each, APPROVE, now).fault or each in alone}
    has_limit = (ApiKey.client_id == client_id) & ApiKey.daily_limit_cents.is_null(False)
    limited = {row.id for row in ApiKey.select(ApiKey.id).where(has_limit)}
    makers = {each: _giver(each, MAKE, now) for each in {maker for _, maker in drafts}}
    gone_makers = {each for each, maker in makers.items() if maker.is_key and maker.fault}
    return sorted(
        {payout for payout, giver in approvals if giver in gone}
        | {payout for payout, maker in drafts if maker in gone_makers}
        | {row.id for row in payouts if row.counted_key_id in limited}
    )


def _withdraw(
    row: Payout, outbox: MailOutbox, context: RequestContext, now: datetime, alone: Collection[str] = ()
) -> None:
    """Withdraw what no longer holds of a payout, which is locked."""
    approvals = standing(row)
    faults = {each.made_by: _giver(each.made_by, APPROVE, now).fault for each in approvals}
    gone = "The only person behind the API key was disabled."
    faults |= {giver: fault or gone for giver, fault in faults.items() if giver in alone}
    if row.counted_key_id is not None:
        faults[row.counted_key_id] = faults.get(row.counted_key_id) or lowered_limit(row)
    if row.status in _OPEN and (reason := next(filter(None, faults.values()), None)):
        withdraw_approvals(row, [each for each in approvals if faults[each.made_by]], reason, outbox, context, now)
    if row.status == PayoutStatus.DRAFT and (maker := _giver(row.round_by, MAKE, now)).is_key and maker.fault:
        end_approvals(standing(row), now)
        row.withdrawal_reason = maker.fault
        row.revoked_at = now if row.round == 1 else None
        cancel_unsent(row, outbox, now)
        write_payout_audit("payout.cancelled", row, maker.fault, context, now)


def cancel_unsent(row: Payout, outbox: MailOutbox, now: datetime) -> None:
    """Cancel what was not sent of a locked payout, which is completed once nothing is under way.

    A later round of which nothing was sent leaves the payout completed, and its rows as they were.
    """
    if row.round > 1 and not has_begun(row):
        end_lease(row)
        row.status, row.completed_at, row.updated_at = PayoutStatus.COMPLETED, now, now
    else:
        mark_cancelled(row, now)
    was_approved = row.approved_at is not None
    if was_approved and not is_under_way(row.id):
        complete(row, outbox, now)
        return
    row.due_at = now if was_approved else None
    row.save()


def _giver(id_: str, grant: str, now: datetime) -> _Giver:
    """The key or person with this id; operators have no row, and no fault."""
    key: ApiKey | None = ApiKey.get_or_none(ApiKey.id == id_) if id_ else None
    if key is not None:
        fault = fault_of_key(key, grant, now)
        return _Giver(True, fault and f"The API key {key.name or key.apikey} {fault}.")
    person: User | None = User.get_or_none(User.id == id_) if id_ else None
    if person is not None:
        fault = fault_of_person(person.is_active, person.role, grant)
        return _Giver(False, fault and f"{person.email} {fault}.")
    if id_ and (deleted := DeletedApiKey.get_or_none(DeletedApiKey.id == id_)) is not None:
        return _Giver(True, f"The API key {deleted.apikey} was deleted.")
    return _Giver(False, None)


def _keys_of_one_person(client_id: str, person: str) -> frozenset[str]:
    """The ids of the keys behind which no other person stands."""
    counts_readers = Client.get_by_id(client_id).counts_readers
    keys = ApiKey.select(ApiKey.id, ApiKey.people, ApiKey.readers).where(ApiKey.client_id == client_id)
    return frozenset(
        key.id for key in keys if behind_secret(key.people, key.readers, counts_readers=counts_readers) == {person}
    )
