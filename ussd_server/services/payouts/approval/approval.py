"""Approval of payouts: the sum and the fees of all rows of a round are reserved at once, or nothing is.

A payout with a date more than a day ahead is approved without a reservation. The worker makes it when the payout is
due, or waits a day for the money.
What blocks an approval is one ordered list: the caller (`_must_be_approved`), the gate, the validated rows, the fees,
the references, earlier approvals, the key's limit, other attempts of the rows, the balance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from ussd_server.context import APPROVE, NOT_PERMITTED, CallerKind, RequestContext, automatic_context
from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import long_unit_of_work, unit_of_work
from ussd_server.logs import Logger
from ussd_server.models.clients import Client
from ussd_server.models.ledger import read_holding
from ussd_server.models.payouts import Approval, Payout, transaction_reference
from ussd_server.services.accounts.ledger import DailyLimitError, OverdraftError, agreed_fee, fee_cents
from ussd_server.services.gates.messages import WayOut
from ussd_server.services.gates.sending import SendingGate, limiting_key
from ussd_server.services.leases import end_lease
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.payouts.approval.approvers import (
    caller_id,
    caller_people,
    checked_note,
    end_approvals,
    keep_approval,
    require_another_person,
    standing,
)
from ussd_server.services.payouts.approval.digests import (
    OF_APPROVAL,
    OF_GIVEN,
    PayoutDigests,
    ValidatedRow,
    digest_of_items,
    validated_rows,
)
from ussd_server.services.payouts.approval.rules import approvals_needed
from ussd_server.services.payouts.approval.withdrawals import cancel_unsent, require_still_allowed, withdraw_approvals
from ussd_server.services.payouts.attempts import paid_lines, used_references
from ussd_server.services.payouts.holds import reserve, write_fees
from ussd_server.services.payouts.messages import MOST_LINES_NAMED, ApprovePayout, PayoutStatus
from ussd_server.services.payouts.records import (
    ask_for_approval,
    people_of_makers,
    write_payout_audit,
    write_payout_event,
)
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import people_behind
from ussd_server.services.transactions.create import daily_limit_reached
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import grouped, shillings

log = Logger(__name__)

_RESERVED_AHEAD = timedelta(days=1)
_RETRY = timedelta(minutes=1)
# The limit of a key is met last, after every row was written in vain.
_RETRY_OF_LIMIT = timedelta(hours=1)
_MONEY_WITHIN = timedelta(days=1)
_LAST_TRY_WITHIN = timedelta(minutes=5)
_MISSING = (Code.INSUFFICIENT_BALANCE, Code.DAILY_LIMIT_REACHED)


class PayoutApproval:
    def __init__(self, runtime: Runtime, gate: SendingGate) -> None:
        self._clock, self._at_kill_point, self._outbox = runtime.clock, runtime.at_kill_point, runtime.mail_outbox
        self._gate, self._digests = gate, PayoutDigests(runtime.vault)

    def approve(self, payout: Payout, request: ApprovePayout, context: RequestContext) -> Payout:
        """Approve a round of a payout and return the payout; again by the same caller, nothing changes.

        It stays a draft until it has as many approvals of different people as its client's rules ask for. Raises
        INSUFFICIENT_SCOPE for the makers and for people who count as one person with a maker or another approver,
        INVALID_REQUEST for a payout that cannot be approved, is in another round, was changed since its validation, or
        costs other fees than the request names, INSUFFICIENT_BALANCE, and DAILY_LIMIT_REACHED of the key with the
        lowest limit that approved it; nothing is reserved then.
        """
        checked_note(request.note)
        if not _must_be_approved(payout, request, context):
            return find_row(Payout, payout.id)
        self._gate.require_allowed(self._gate.admit(WayOut.PAYOUT, context))
        self._gate.require_open()
        with _refusals(), long_unit_of_work():
            # A change that takes a right from a key or a person locks the client too: one of the two sees the other.
            lock_row(Client, payout.client_id)
            row = lock_row(Payout, payout.id)
            if not _must_be_approved(row, request, context):
                return row
            require_still_allowed(APPROVE, context, self._clock.now())
            refusal = self._approve(row, request, context, self._clock.now())
        if refusal is not None:
            raise refusal
        self._at_kill_point("payout.approved")
        return row

    def _approve(
        self, row: Payout, request: ApprovePayout, context: RequestContext, now: datetime
    ) -> ServiceError | None:
        """Approve a locked payout. Returns why it is not, where the fees that the next reader sees were changed."""
        rows = self._digests.require_validated(row)
        fees = _fees_of(row, rows)
        total_fee_cents = sum(fees.values())
        row.updated_at = now
        if request.total_fee_cents not in (None, total_fee_cents):
            if total_fee_cents != row.round_fee_cents:
                write_fees(row, fees)
                row.save()
            return ServiceError(
                Code.INVALID_REQUEST, f"total_fee: The fees of the payout are {shillings(total_fee_cents)} now"
            )
        _refuse_used_references(row, rows)
        approvals = [
            *self._holding(row, total_fee_cents, now),
            keep_approval(request, row, context, self._digests, now),
        ]
        is_far = row.send_at is not None and row.send_at > now + _RESERVED_AHEAD
        counted_key_id, limit_cents = limiting_key(each.key_id for each in approvals)
        if limit_cents is not None and not is_far and row.round_amount_cents + total_fee_cents > limit_cents:
            raise daily_limit_reached()
        is_last = len(approvals) >= approvals_needed(row, self._digests)
        if is_last:
            approved_fees = (each.total_fee_cents for each in approvals if each.total_fee_cents is not None)
            row.approved_fee_cents = next(approved_fees, None)
            row.status, row.approved_by, row.approved_at = PayoutStatus.APPROVED, caller_id(context), now
            row.key_id, row.counted_key_id, row.key_limit_cents = context.caller.key_id, counted_key_id, limit_cents
            row.approval_request_id, row.due_at = context.request_id, max(now, row.send_at or now)
            end_lease(row)
            row.approval_digest = self._digests.of(OF_APPROVAL, row)
        if is_last and not is_far:
            self._reserve(row, fees, now)
        elif is_last:
            write_fees(row, fees)
        row.save()
        action = "payout.approved" if is_last else "payout.approval_given"
        write_payout_audit(action, row, approvals[-1].note, context, now)
        if not is_last:
            ask_for_approval(row, self._outbox, now)
        return None

    def _holding(self, row: Payout, total_fee_cents: int, now: datetime) -> list[Approval]:
        """The earlier approvals that still hold. Those that named other fees than these are withdrawn."""
        approvals = standing(row)
        if not all(self._digests.is_as_made(OF_GIVEN, each) for each in approvals):
            log.error("a payout was not approved, because an approval is not what was given", payout_id=row.id)
            raise ServiceError(Code.INVALID_REQUEST, "An approval of the payout was edited; cancel the payout")
        over = [each for each in approvals if each.total_fee_cents not in (None, total_fee_cents)]
        end_approvals(over, now)
        return [each for each in approvals if each not in over]

    def reserve_due(self, payout_id: str) -> None:
        """Reserve the money of a claimed payout.

        While its money is missing, or the key that approved it may not pay that much, it is tried again for a
        day, and then cancelled. A payout that is not what was approved, or whose references were used, is
        cancelled at once. One of a disabled client waits.
        """
        payout, now = find_row(Payout, payout_id), self._clock.now()
        try:
            if payout.needs_money_at is not None and now > payout.needs_money_at + _MONEY_WITHIN + _LAST_TRY_WITHIN:
                # No worker ran when its day ended, and its client counts on its being cancelled.
                raise ServiceError(Code.INSUFFICIENT_BALANCE, "The money did not come within a day")
            self._gate.require_due(payout)
            _require_money(payout)
            with _refusals(), long_unit_of_work():
                self._reserve_due(lock_row(Payout, payout_id), now)
        except ServiceError as refusal:
            _refused(payout_id, refusal, self._outbox, now)

    def _reserve_due(self, row: Payout, now: datetime) -> None:
        if not _is_unreserved(row, now):
            return
        rows = validated_rows(row.id)
        if not self._digests.is_as_approved(row, digest_of_items(rows)):
            raise ServiceError(Code.INVALID_REQUEST, "The payout is not what was approved")
        _refuse_used_references(row, rows)
        fees = _fees_of(row, rows)
        if row.approved_fee_cents not in (None, sum(fees.values())):
            _withdraw_for_fees(row, fees, self._outbox, now)
            return
        row.updated_at = row.due_at = now
        end_lease(row)
        self._reserve(row, fees, now)

    def _reserve(self, row: Payout, fees: Mapping[int, int], now: datetime) -> None:
        """Reserve the money of the round. Call in a `long_unit_of_work`, with the payout locked."""
        reserve(row, fees, paid_lines(row.id, fees) if row.round > 1 else (), now)
        self._at_kill_point("payout.reserved")


def _must_be_approved(payout: Payout, request: ApprovePayout, context: RequestContext) -> bool:
    """Whether the payout is a draft that this caller may approve; False when this caller has approved it already."""
    makers, approver = people_behind(payout.client_id, people_of_makers(payout)), caller_id(context)
    if approver in (payout.created_by, payout.round_by) or makers & people_behind(
        payout.client_id, caller_people(context)
    ):
        raise ServiceError(
            Code.INSUFFICIENT_SCOPE,
            "A payout is approved by another person than the one behind its maker, and with another key"
            if context.caller.kind is CallerKind.KEY
            else NOT_PERMITTED,
        )
    if request.round != payout.round:
        raise ServiceError(Code.INVALID_REQUEST, f"round: The payout is in round {payout.round}; approve that one")
    approvals = standing(payout)
    has_approved = payout.approved_by == approver or any(each.made_by == approver for each in approvals)
    if has_approved and payout.status != PayoutStatus.CANCELLED:
        return False
    if payout.status != PayoutStatus.DRAFT:
        raise ServiceError(Code.INVALID_REQUEST, f"The payout is {payout.status} and cannot be approved")
    if not payout.round_count:
        raise ServiceError(Code.INVALID_REQUEST, "No row of the payout is ready; correct the rows and send them again")
    require_another_person(payout, approvals, context)
    return True


def _fees_of(payout: Payout, rows: Sequence[ValidatedRow]) -> dict[int, int]:
    """The fees that are agreed now for the rows of the round, by their lines."""
    terms = agreed_fee(payout.client_id, TransactionType.DISBURSEMENT)
    of_round = (row for row in rows if row.is_ready and row.round == payout.round)
    return {row.line: fee_cents(terms, row.amount_cents or 0) for row in of_round}


def _withdraw_for_fees(row: Payout, fees: Mapping[int, int], outbox: MailOutbox, now: datetime) -> None:
    """Make a payout a draft again, with the fees of now, because its approval named others."""
    write_fees(row, fees)
    reason = (
        f"Its fees are UGX {grouped(row.round_fee_cents)} now, and its approval named "
        f"UGX {grouped(row.approved_fee_cents)}."
    )
    withdraw_approvals(row, standing(row), reason, outbox, automatic_context(), now)


def _refused(payout_id: str, refusal: ServiceError, outbox: MailOutbox, now: datetime) -> None:
    """Cancel a payout or put it off, by the reason why it was not reserved."""
    with unit_of_work():
        row = lock_row(Payout, payout_id)
        if not _is_unreserved(row, now):
            return
        end_lease(row)
        is_short = refusal.code in _MISSING
        is_over = row.needs_money_at is not None and now >= row.needs_money_at + _MONEY_WITHIN
        if refusal.code is Code.INVALID_REQUEST or (is_short and is_over):
            _cancel(row, refusal.message, outbox, now)
            return
        row.due_at = now + (_RETRY_OF_LIMIT if refusal.code is Code.DAILY_LIMIT_REACHED else _RETRY)
        begins_to_wait = is_short and row.needs_money_at is None
        if begins_to_wait:
            row.needs_money_at = row.updated_at = now
        row.save()
        if begins_to_wait:
            write_payout_event(row, "payout.needs_money", outbox, now)


def _is_unreserved(row: Payout, now: datetime) -> bool:
    """Whether a payout is due and not reserved; another worker or a cancellation may have changed it."""
    return row.status == PayoutStatus.APPROVED and row.reserved_at is None and row.send_at <= now


def _cancel(row: Payout, reason: str, outbox: MailOutbox, now: datetime) -> None:
    log.warning("a payout was cancelled when it was due", payout_id=row.id, why=reason)
    cancel_unsent(row, outbox, now)
    write_payout_audit("payout.cancelled", row, reason, automatic_context(), now)


def _require_money(payout: Payout) -> None:
    """Raise INSUFFICIENT_BALANCE early, without the fees, because the reservation is the last statement."""
    account = read_holding(payout.client_id, MAIN_ACCOUNT)
    if account.balance_cents - account.reserved_cents < payout.round_amount_cents:
        raise _too_little()


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise INSUFFICIENT_BALANCE and DAILY_LIMIT_REACHED for the database's refusals."""
    try:
        yield
    except OverdraftError:
        raise _too_little() from None
    except DailyLimitError:
        raise daily_limit_reached() from None


def _refuse_used_references(payout: Payout, rows: Sequence[ValidatedRow]) -> None:
    """Raise INVALID_REQUEST when other transactions have taken references of rows of the round."""
    lines = {
        transaction_reference(payout.reference, row.reference, row.attempt): row.line
        for row in rows
        if row.is_ready and row.round == payout.round
    }
    if used := sorted(lines[reference] for reference in used_references(payout.client_id, lines)):
        named = ", ".join(map(str, used[:MOST_LINES_NAMED]))
        raise ServiceError(
            Code.INVALID_REQUEST, f"The references of these rows were used since the payout was created: {named}"
        )


def _too_little() -> ServiceError:
    return ServiceError(Code.INSUFFICIENT_BALANCE, "Insufficient balance for the payout and its fees")
