"""Approval of payouts: the sum and the fees of all ready rows are reserved at once, or nothing is.

A payout with a date more than a day ahead is approved without a reservation. The worker makes it when the payout is
due, or waits a day for the money.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from peewee import JOIN, IntegrityError

from ussd_server.context import APPROVE, NOT_PERMITTED, CallerKind, RequestContext, automatic_context
from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import long_unit_of_work, unit_of_work
from ussd_server.logs import Logger
from ussd_server.models.clients import Client
from ussd_server.models.ledger import read_holding
from ussd_server.models.payouts import Approval, Payout, PayoutItem, transaction_reference
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.ledger import AnotherFeeError, DailyLimitError, OverdraftError
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.gates.messages import WayOut
from ussd_server.services.gates.sending import limiting_key, person_of
from ussd_server.services.leases import end_lease
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.payouts.approval_rules import approvals_needed
from ussd_server.services.payouts.approvers import (
    caller_id,
    caller_people,
    checked_note,
    end_approvals,
    keep_approval,
    require_another_person,
    standing,
)
from ussd_server.services.payouts.digests import PayoutDigests
from ussd_server.services.payouts.drafted_rows import DraftedRows, RowSender, draft_rows, release_names, write_by_line
from ussd_server.services.payouts.drafts import MOST_LINES_NAMED, used_references
from ussd_server.services.payouts.messages import ApprovePayout, PayoutStatus
from ussd_server.services.payouts.queue import insert_queued
from ussd_server.services.payouts.records import ask_for_approval, complete, mark_cancelled, write_payout_event
from ussd_server.services.payouts.withdrawals import require_still_allowed, withdraw_approvals
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import people_behind
from ussd_server.services.transactions.create import TransactionCreator, daily_limit_reached
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, TransactionStatus
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
_Result = TypeVar("_Result")


class PayoutApproval:
    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        self._clock, self._at_kill_point, self._outbox = runtime.clock, runtime.at_kill_point, runtime.mail_outbox
        self._creator = creator
        self._digests = PayoutDigests(runtime.vault)

    def approve(self, payout: Payout, request: ApprovePayout, context: RequestContext) -> Payout:
        """Approve a payout and return it as it is now; again by the same caller, nothing changes.

        It stays a draft until it has as many approvals of different people as its client's rules ask for. Raises
        INSUFFICIENT_SCOPE for the maker and for people who count as one person with the maker or another approver,
        INVALID_REQUEST for a payout that cannot be approved, was changed since its validation, pays rows that a copy of
        it pays, or costs other fees than the request names, INSUFFICIENT_BALANCE, and DAILY_LIMIT_REACHED of the key
        with the lowest limit that approved it; nothing is reserved then.
        """
        checked_note(request.note)
        if not _must_be_approved(payout, context):
            return find_row(Payout, payout.id)
        gate = self._creator.gate
        gate.require_allowed(gate.admit(WayOut.PAYOUT, context))
        gate.require_open()
        return _with_present_fees(lambda: self._approve(payout, request, context))

    def _approve(self, payout: Payout, request: ApprovePayout, context: RequestContext) -> Payout:
        now = self._clock.now()
        earlier = standing(payout.id)
        counted_key_id, limit_cents = limiting_key([*(each.key_id for each in earlier), context.caller.key_id])
        sender = RowSender(counted_key_id, context.caller.user_id, context.request_id)
        drafted = draft_rows(self._creator, payout, sender, limit_cents)
        self._require_as_validated(payout, drafted.items_digest)
        if request.total_fee_cents not in (None, drafted.total_fee_cents):
            if drafted.total_fee_cents != payout.total_fee_cents:
                _show_fees(payout, drafted.fees, now)
            raise ServiceError(
                Code.INVALID_REQUEST,
                f"total_fee: The fees of the payout are {shillings(drafted.total_fee_cents)} now",
            )
        is_far = payout.send_at is not None and payout.send_at > now + _RESERVED_AHEAD
        if is_far:
            _refuse_used_references(payout)
        elif len(earlier) + 1 >= approvals_needed(payout, self._digests):
            _require_money(payout, drafted.total_fee_cents)
        with _refusals_of(payout), long_unit_of_work():
            # A change that takes a right from a key or a person locks the client too: one of the two sees the other.
            lock_row(Client, payout.client_id)
            row = lock_row(Payout, payout.id)
            if not _must_be_approved(row, context):
                return row
            require_still_allowed(APPROVE, context, now)
            self._require_as_validated(row, drafted.items_digest)
            _refuse_paid_copies(row)
            approvals = [
                *self._holding(row, drafted.total_fee_cents, now),
                keep_approval(request, context, self._digests, now),
            ]
            row.updated_at = now
            reason = approvals[-1].note
            _require_within_limit(row, None if is_far else drafted.total_fee_cents, approvals, limit_cents)
            if len(approvals) < approvals_needed(row, self._digests):
                row.save()
                ask_for_approval(row, self._outbox, now)
                write_audit_event(
                    "payout.approval_given", context, now, client_id=row.client_id, object_id=row.id, reason=reason
                )
                return row
            if is_far:
                write_by_line(row.id, "fee_cents", drafted.fees)
                row.total_fee_cents = drafted.total_fee_cents
            else:
                self._reserve(row, drafted, now)
            approved_fees = (each.total_fee_cents for each in approvals if each.total_fee_cents is not None)
            row.approved_fee_cents = next(approved_fees, None)
            row.status, row.approved_by, row.approved_at = PayoutStatus.APPROVED, caller_id(context), now
            row.key_id, row.counted_key_id, row.key_limit_cents = context.caller.key_id, counted_key_id, limit_cents
            row.due_at = max(now, row.send_at or now)
            end_lease(row)
            row.approval_digest = self._digests.of_approval(row)
            row.save()
            write_audit_event("payout.approved", context, now, client_id=row.client_id, object_id=row.id, reason=reason)
        self._at_kill_point("payout.approved")
        return row

    def _holding(self, row: Payout, total_fee_cents: int, now: datetime) -> list[Approval]:
        """The earlier approvals that still hold. Those that named other fees than these are withdrawn."""
        approvals = standing(row.id)
        if not all(map(self._digests.is_as_given, approvals)):
            log.error("a payout was not approved, because an approval is not what was given", object_id=row.id)
            raise ServiceError(Code.INVALID_REQUEST, "An approval of the payout was edited; cancel the payout")
        over = [each for each in approvals if each.total_fee_cents not in (None, total_fee_cents)]
        end_approvals(over, now)
        return [each for each in approvals if each not in over]

    def _require_as_validated(self, payout: Payout, items_digest: str) -> None:
        """Raise INVALID_REQUEST when a draft or its rows were changed since the draft was created."""
        if not self._digests.is_as_validated(payout, items_digest):
            log.error("a payout was not approved, because it is not what was judged", object_id=payout.id)
            raise ServiceError(
                Code.INVALID_REQUEST,
                "The payout is not what was judged when it was created; "
                "cancel it and send its rows again under another reference",
            )

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
            self._creator.gate.require_due(payout)
            _with_present_fees(lambda: self._reserve_due(payout, now))
        except ServiceError as refusal:
            _refused(payout_id, refusal, self._outbox, now)

    def _reserve_due(self, payout: Payout, now: datetime) -> None:
        # The fees are computed with the rows; a sum that is missing is found without them.
        _require_money(payout, 0)
        sender = RowSender(payout.counted_key_id or payout.key_id, person_of(payout), payout.request_id)
        drafted = draft_rows(self._creator, payout, sender, payout.key_limit_cents)
        _require_money(payout, drafted.total_fee_cents)
        with _refusals_of(payout), long_unit_of_work():
            row = lock_row(Payout, payout.id)
            if not _is_unreserved(row, now):
                return
            if not self._digests.is_as_approved(row, drafted.items_digest):
                raise ServiceError(Code.INVALID_REQUEST, "The payout is not what was approved")
            if row.approved_fee_cents not in (None, drafted.total_fee_cents):
                _withdraw_for_fees(row, drafted, self._outbox, now)
                return
            self._reserve(row, drafted, now)
            row.updated_at = row.due_at = now
            end_lease(row)
            row.save()

    def _reserve(self, row: Payout, drafted: DraftedRows, now: datetime) -> None:
        """Insert the transactions and reserve their money. Call in a `long_unit_of_work`, with the payout locked."""
        release_names(drafted.names)
        insert_queued(drafted.queued)
        self._at_kill_point("payout.reserved")
        write_by_line(row.id, "transaction_id", drafted.ids)
        row.total_fee_cents, row.reserved_at = drafted.total_fee_cents, now


def _with_present_fees(step: Callable[[], _Result]) -> _Result:
    """Run a step that drafts rows; again when another fee was agreed since it read the fees."""
    while True:
        with suppress(AnotherFeeError):
            return step()


def _must_be_approved(payout: Payout, context: RequestContext) -> bool:
    """Whether the payout is a draft that this caller may approve; False when this caller has approved it already."""
    makers, approver = people_behind(payout.client_id, payout.people), caller_id(context)
    if payout.created_by == approver or makers & people_behind(payout.client_id, caller_people(context)):
        raise ServiceError(
            Code.INSUFFICIENT_SCOPE,
            "A payout is approved by another person than the one behind its maker, and with another key"
            if context.caller.kind is CallerKind.KEY
            else NOT_PERMITTED,
        )
    approvals = standing(payout.id)
    has_approved = payout.approved_by == approver or any(each.made_by == approver for each in approvals)
    if has_approved and payout.status != PayoutStatus.CANCELLED:
        return False
    if payout.status != PayoutStatus.DRAFT:
        raise ServiceError(Code.INVALID_REQUEST, f"The payout is {payout.status} and cannot be approved")
    if not payout.ready_count:
        raise ServiceError(Code.INVALID_REQUEST, "No row of the payout is ready; correct the rows and send them again")
    require_another_person(payout, approvals, context)
    return True


def _require_within_limit(
    payout: Payout, fee_cents: int | None, approvals: Sequence[Approval], limit_cents: int | None
) -> None:
    """Raise DAILY_LIMIT_REACHED when a key that approved a payout could not pay it in a day.

    `fee_cents` None: the payout is reserved later, and its limit is looked at then. INVALID_REQUEST where the rows were
    drafted for another limit, because another approval came between.
    """
    lowest_cents = limiting_key(each.key_id for each in approvals)[1]
    if lowest_cents is None:
        return
    if fee_cents is not None and payout.total_amount_cents + fee_cents > lowest_cents:
        raise daily_limit_reached()
    if limit_cents is None or lowest_cents < limit_cents:
        raise ServiceError(Code.INVALID_REQUEST, "Another approval was given at the same time; approve it again")


def _show_fees(payout: Payout, fees: Mapping[int, int], now: datetime) -> None:
    """Keep the fees that are agreed now with a draft, so that its next reader sees them."""
    with long_unit_of_work():
        row = lock_row(Payout, payout.id)
        if row.status == PayoutStatus.DRAFT:
            write_by_line(row.id, "fee_cents", fees)
            row.total_fee_cents, row.updated_at = sum(fees.values()), now
            row.save()


def _withdraw_for_fees(row: Payout, drafted: DraftedRows, outbox: MailOutbox, now: datetime) -> None:
    """Make a payout a draft again, with the fees of now, because its approval named others."""
    reason = (
        f"Its fees are UGX {grouped(drafted.total_fee_cents)} now, and its approval named "
        f"UGX {grouped(row.approved_fee_cents)}."
    )
    write_by_line(row.id, "fee_cents", drafted.fees)
    row.total_fee_cents = drafted.total_fee_cents
    withdraw_approvals(row, standing(row.id), reason, outbox, automatic_context(), now)


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
    log.warning("a payout was cancelled when it was due", object_id=row.id, reason=reason)
    mark_cancelled(row, now)
    complete(row, outbox, now)
    write_audit_event(
        "payout.cancelled",
        automatic_context(),
        now,
        client_id=row.client_id,
        object_id=row.id,
        reason=reason,
        is_automatic=True,
    )


def _require_money(payout: Payout, fee_cents: int) -> None:
    """Raise INSUFFICIENT_BALANCE early, because the reservation is the last statement."""
    account = read_holding(payout.client_id, MAIN_ACCOUNT)
    if account.balance_cents - account.reserved_cents < payout.total_amount_cents + fee_cents:
        raise _too_little()


@contextmanager
def _refusals_of(payout: Payout) -> Iterator[None]:
    """Raise INSUFFICIENT_BALANCE, DAILY_LIMIT_REACHED or, for used references, INVALID_REQUEST for the database's."""
    try:
        yield
    except OverdraftError:
        raise _too_little() from None
    except DailyLimitError:
        raise daily_limit_reached() from None
    except IntegrityError:
        _refuse_used_references(payout)
        raise


def _refuse_used_references(payout: Payout) -> None:
    """Raise INVALID_REQUEST when other transactions have taken references of ready rows."""
    rows = PayoutItem.select(PayoutItem.line, PayoutItem.reference).where(
        PayoutItem.payout_id == payout.id, PayoutItem.is_ready
    )
    number = payout.reservation_number
    lines = {transaction_reference(payout.reference, row.reference, number): row.line for row in rows}
    if used := sorted(lines[reference] for reference in used_references(payout.client_id, lines)):
        named = ", ".join(map(str, used[:MOST_LINES_NAMED]))
        raise ServiceError(
            Code.INVALID_REQUEST, f"The references of these rows were used since the payout was created: {named}"
        )


def _refuse_paid_copies(payout: Payout) -> None:
    """Raise INVALID_REQUEST when the payout that this is a copy of, or another copy, has paid rows or may pay them.

    Call with the client's row locked, so that two copies are not approved at once.
    """
    first = payout.copied_from or payout.id
    same = Payout.select(Payout.id).where(
        (Payout.id == first) | (Payout.copied_from == first), Payout.id != payout.id, Payout.approved_at.is_null(False)
    )
    others = [row.id for row in same]
    if not others:
        return
    theirs, other = PayoutItem.alias("theirs"), Payout.alias("other")
    may_be_paid = (Transaction.status != TransactionStatus.FAILED) | (
        theirs.is_ready & theirs.transaction_id.is_null() & (other.status == PayoutStatus.APPROVED)
    )
    rows: Any = (
        PayoutItem.select(PayoutItem.line, other.reference)
        .join(theirs, on=(theirs.reference == PayoutItem.reference))
        .join(other, on=(other.id == theirs.payout_id))
        .join(Transaction, JOIN.LEFT_OUTER, on=(Transaction.id == theirs.transaction_id))
        .where(PayoutItem.payout_id == payout.id, PayoutItem.is_ready, theirs.payout_id.in_(others), may_be_paid)
        .tuples()
    )
    if paid := dict(rows):
        named, by = len(paid), next(iter(paid.values()))
        raise ServiceError(
            Code.INVALID_REQUEST,
            f"{named} of the payout's rows {'was' if named == 1 else 'were'} paid already, or may still be, by {by}. "
            "To pay them once more, copy the payout with again: true under another reference.",
        )


def _too_little() -> ServiceError:
    return ServiceError(Code.INSUFFICIENT_BALANCE, "Insufficient balance for the payout and its fees")
