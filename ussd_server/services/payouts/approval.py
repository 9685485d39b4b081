"""Approval of payouts: the sum and the fees of all ready rows are reserved at once, or nothing is.

A payout with a date more than a day ahead is approved without a reservation. The worker makes it when the payout is
due, or waits a day for the money.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import orjson
from peewee import IntegrityError

from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import dialect, long_unit_of_work, run_query, unit_of_work
from ussd_server.logs import Logger
from ussd_server.models.ledger import Holding, read_holdings
from ussd_server.models.payouts import Payout, PayoutItem
from ussd_server.models.transactions import QUEUED_UNTIL
from ussd_server.runtime import Runtime, Service
from ussd_server.services.accounts.ledger import DailyLimitError, OverdraftError, Postings
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.gates.messages import WayOut
from ussd_server.services.gates.sending import limit_of_key, person_of
from ussd_server.services.leases import end_lease
from ussd_server.services.payouts.digests import PayoutDigests, digest_of_items, judged_rows
from ussd_server.services.payouts.drafts import MOST_LINES_NAMED, caller_id, caller_people, used_references
from ussd_server.services.payouts.messages import PayoutStatus
from ussd_server.services.payouts.queue import insert_queued, queued_batch
from ussd_server.services.payouts.records import complete, mark_cancelled, write_payout_event
from ussd_server.services.payouts.rows import transaction_reference
from ussd_server.services.people import people_behind
from ussd_server.services.transactions.create import RequestIdentity, TransactionCreator, daily_limit_reached, digest_of
from ussd_server.services.transactions.history import Batch
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import shillings

log = Logger(__name__)

_RESERVED_AHEAD = timedelta(days=1)
_RETRY = timedelta(minutes=1)
# The limit of a key is met last, after every row was written in vain.
_RETRY_OF_LIMIT = timedelta(hours=1)
_MONEY_WITHIN = timedelta(days=1)
_LAST_TRY_WITHIN = timedelta(minutes=5)
_MISSING = (Code.INSUFFICIENT_BALANCE, Code.DAILY_LIMIT_REACHED)
# After so many rows, let other requests of the process run.
_ROWS_BEFORE_A_PAUSE = 50
_TYPES = {"transaction_id": "uuid", "fee_cents": "bigint"}

Result = TypeVar("Result")


@dataclass(slots=True)
class _DraftedRows:
    """The digest of all rows of a payout; of those that are ready the transactions, and ids and fees by their lines."""

    items_digest: str
    queued: list[tuple[Batch, Postings]] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)
    fees: dict[int, int] = field(default_factory=dict)

    @property
    def total_fee_cents(self) -> int:
        """The fees of all rows."""
        return sum(self.fees.values())


class _RowSender(NamedTuple):
    """The key or the person that approved a payout, and the request id for its rows."""

    key_id: str | None
    user_id: str | None
    request_id: str | None


class PayoutApproval(Service):
    """Approves drafts, and reserves their money."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        super().__init__(runtime)
        self._creator = creator
        self._digests = PayoutDigests(runtime.vault)

    def approve(self, payout: Payout, context: RequestContext, shown_fee_cents: int | None = None) -> Payout:
        """Approve a payout and return it as it is now; again by the same caller, nothing changes.

        `shown_fee_cents` are the fees that the approver saw. Raises INSUFFICIENT_SCOPE for the maker and for people who
        count as one person with the maker, INVALID_REQUEST for a payout that cannot be approved, was changed since it
        was judged, or costs other fees, INSUFFICIENT_BALANCE, and DAILY_LIMIT_REACHED of the approving key;
        nothing is reserved then.
        """
        approver = caller_id(context)
        if not _must_be_approved(payout, approver, context):
            return payout
        gate = self._creator.gate
        gate.require_recordable(gate.admit(WayOut.PAYOUT, context))
        return self._attempt(payout, lambda: self._approve(payout, approver, context, shown_fee_cents))

    def _approve(self, payout: Payout, approver: str, context: RequestContext, shown_fee_cents: int | None) -> Payout:
        now = self._clock.now()
        key_id, limit_cents = context.caller.key_id, limit_of_key(context.caller.key_id)
        sender = _RowSender(key_id, context.caller.user_id, context.request_id)
        drafted = self._draft_rows(payout, sender, limit_cents)
        self._require_as_judged(payout, drafted.items_digest)
        if shown_fee_cents not in (None, drafted.total_fee_cents):
            if drafted.total_fee_cents != payout.total_fee_cents:
                _show_fees(payout, drafted.fees, now)
            raise ServiceError(
                Code.INVALID_REQUEST,
                f"total_fee: The fees of the payout are {shillings(drafted.total_fee_cents)} now",
            )
        is_far = payout.send_at is not None and payout.send_at > now + _RESERVED_AHEAD
        if is_far:
            _refuse_used_references(payout)
        else:
            _require_money(payout, drafted.total_fee_cents)
        with long_unit_of_work():
            row = lock_row(Payout, payout.id)
            if not _must_be_approved(row, approver, context):
                return row
            self._require_as_judged(row, drafted.items_digest)
            if is_far:
                _write_by_line(row.id, "fee_cents", drafted.fees)
                row.total_fee_cents = drafted.total_fee_cents
            else:
                self._reserve(row, drafted, now)
            row.status, row.approved_by, row.approved_at = PayoutStatus.APPROVED, approver, now
            row.key_id, row.key_limit_cents = key_id, limit_cents
            row.updated_at, row.due_at = now, max(now, row.send_at or now)
            end_lease(row)
            row.approval_digest = self._digests.of_approval(row)
            row.save()
            write_audit_event("payout.approved", context, now, client_id=row.client_id, object_id=row.id)
        self._at_kill_point("payout.approved")
        return row

    def _require_as_judged(self, payout: Payout, items_digest: str) -> None:
        """Raise INVALID_REQUEST when a draft or its rows were changed since the draft was created."""
        if not self._digests.is_as_judged(payout, items_digest):
            log.error("a payout was not approved, because it is not what was judged", object_id=payout.id)
            raise ServiceError(
                Code.INVALID_REQUEST,
                "The payout is not what was judged when it was created, or an earlier version created it; "
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
            self._attempt(payout, lambda: self._reserve_due(payout, now))
        except ServiceError as refusal:
            _refused(payout_id, refusal, now)

    def _reserve_due(self, payout: Payout, now: datetime) -> None:
        # The fees are computed with the rows; a sum that is missing is found without them.
        _require_money(payout, 0)
        sender = _RowSender(payout.key_id, person_of(payout), payout.request_id)
        drafted = self._draft_rows(payout, sender, payout.key_limit_cents)
        _require_money(payout, drafted.total_fee_cents)
        with long_unit_of_work():
            row = lock_row(Payout, payout.id)
            if not _is_unreserved(row, now):
                return
            if not self._digests.is_as_approved(row, drafted.items_digest):
                raise ServiceError(Code.INVALID_REQUEST, "The payout is not what was approved")
            self._reserve(row, drafted, now)
            row.updated_at = row.due_at = now
            end_lease(row)
            row.save()

    def _attempt(self, payout: Payout, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, which drafts and writes the rows; it is called again after a change of the fee.

        Raises INSUFFICIENT_BALANCE, DAILY_LIMIT_REACHED of the key, INVALID_REQUEST for references that were used
        since the draft was made, SERVICE_UNAVAILABLE while money is held, and what `work` raises.
        """
        self._creator.gate.require_open()
        fees, fee = self._creator.fees, (payout.client_id, TransactionType.DISBURSEMENT)
        fees.forget(*fee)
        try:
            return fees.with_agreed_fee(*fee, work)
        except OverdraftError:
            raise _too_little() from None
        except DailyLimitError:
            raise daily_limit_reached() from None
        except IntegrityError:
            _refuse_used_references(payout)
            raise

    def _draft_rows(self, payout: Payout, sender: _RowSender, limit_cents: int | None) -> _DraftedRows:
        """The transactions of the ready rows with the fee that is agreed now. Nothing is kept.

        They are counted for the key of the sender, up to `limit_cents`, its daily limit at the approval.
        """
        items = judged_rows(payout.id)
        drafted = _DraftedRows(digest_of_items(items))
        for place, item in enumerate(items):
            if place % _ROWS_BEFORE_A_PAUSE == 0:
                time.sleep(0)
            if not item.is_ready:
                continue
            reference = transaction_reference(payout.reference, item.reference)
            identity = RequestIdentity(
                payout.client_id,
                TransactionType.DISBURSEMENT,
                digest_of({"payout_id": payout.id, "line": item.line}),
                reference,
            )
            draft = self._creator.draft(
                identity,
                item.amount_cents or 0,
                phone_number=item.phone_number,
                provider=item.provider,
                account=MAIN_ACCOUNT,
                payout_id=payout.id,
                description=item.description or payout.description,
                due_at=QUEUED_UNTIL,
                key_id=sender.key_id,
                user_id=sender.user_id,
                request_id=sender.request_id,
            )
            drafted.queued.append(queued_batch(draft, limit_cents))
            drafted.ids[item.line], drafted.fees[item.line] = draft.row.id, draft.row.fee_cents
        return drafted

    def _reserve(self, row: Payout, drafted: _DraftedRows, now: datetime) -> None:
        """Insert the transactions and reserve their money. Call in a `long_unit_of_work`, with the payout locked."""
        insert_queued(drafted.queued)
        self._at_kill_point("payout.reserved")
        _write_by_line(row.id, "transaction_id", drafted.ids)
        row.total_fee_cents, row.reserved_at = drafted.total_fee_cents, now


def _must_be_approved(payout: Payout, approver: str, context: RequestContext) -> bool:
    """Whether the payout is a draft that this caller may approve; False when this caller has approved it already."""
    makers = people_behind(payout.client_id, payout.people or ())
    if payout.created_by == approver or makers & people_behind(payout.client_id, caller_people(context)):
        raise ServiceError(
            Code.INSUFFICIENT_SCOPE,
            "A payout is approved by another person than the one behind its maker, and with another key"
            if context.caller.kind is CallerKind.KEY
            else "Insufficient permissions",
        )
    if payout.approved_by == approver and payout.status != PayoutStatus.CANCELLED:
        return False
    if payout.status != PayoutStatus.DRAFT:
        raise ServiceError(Code.INVALID_REQUEST, f"The payout is {payout.status} and cannot be approved")
    if not payout.ready_count:
        raise ServiceError(Code.INVALID_REQUEST, "No row of the payout is ready; correct the rows and send them again")
    return True


def _show_fees(payout: Payout, fees: Mapping[int, int], now: datetime) -> None:
    """Keep the fees that are agreed now with a draft, so that its next reader sees them."""
    with long_unit_of_work():
        row = lock_row(Payout, payout.id)
        if row.status == PayoutStatus.DRAFT:
            _write_by_line(row.id, "fee_cents", fees)
            row.total_fee_cents, row.updated_at = sum(fees.values()), now
            row.save()


def _refused(payout_id: str, refusal: ServiceError, now: datetime) -> None:
    """Cancel a payout or put it off, by the reason why it was not reserved."""
    with unit_of_work():
        row = lock_row(Payout, payout_id)
        if not _is_unreserved(row, now):
            return
        end_lease(row)
        is_short = refusal.code in _MISSING
        is_over = row.needs_money_at is not None and now >= row.needs_money_at + _MONEY_WITHIN
        if refusal.code is Code.INVALID_REQUEST or (is_short and is_over):
            _cancel(row, refusal.message, now)
            return
        row.due_at = now + (_RETRY_OF_LIMIT if refusal.code is Code.DAILY_LIMIT_REACHED else _RETRY)
        begins_to_wait = is_short and row.needs_money_at is None
        if begins_to_wait:
            row.needs_money_at = row.updated_at = now
        row.save()
        if begins_to_wait:
            write_payout_event(row, "payout.needs_money", now)


def _is_unreserved(row: Payout, now: datetime) -> bool:
    """Whether a payout is due and not reserved; another worker or a cancellation may have changed it."""
    return row.status == PayoutStatus.APPROVED and row.reserved_at is None and row.send_at <= now


def _cancel(row: Payout, reason: str, now: datetime) -> None:
    log.warning("a payout was cancelled when it was due", object_id=row.id, reason=reason)
    mark_cancelled(row, now)
    complete(row, now)
    write_audit_event(
        "payout.cancelled",
        RequestContext(Caller(CallerKind.NOBODY)),
        now,
        client_id=row.client_id,
        object_id=row.id,
        reason=reason,
        is_automatic=True,
    )


def _require_money(payout: Payout, fee_cents: int) -> None:
    """Raise INSUFFICIENT_BALANCE early, because the reservation is the last statement."""
    account = Holding(payout.client_id, MAIN_ACCOUNT)
    read_holdings([account])
    if account.balance_cents - account.reserved_cents < payout.total_amount_cents + fee_cents:
        raise _too_little()


def _refuse_used_references(payout: Payout) -> None:
    """Raise INVALID_REQUEST when other transactions have taken references of ready rows."""
    rows = PayoutItem.select(PayoutItem.line, PayoutItem.reference).where(
        PayoutItem.payout_id == payout.id, PayoutItem.is_ready
    )
    lines = {transaction_reference(payout.reference, row.reference): row.line for row in rows}
    if used := sorted(lines[reference] for reference in used_references(payout.client_id, lines)):
        named = ", ".join(map(str, used[:MOST_LINES_NAMED]))
        raise ServiceError(
            Code.INVALID_REQUEST, f"The references of these rows were used since the payout was created: {named}"
        )


def _write_by_line(payout_id: str, column: str, values: Mapping[int, str | int]) -> None:
    """Write a column of every ready row, by its line."""
    # Not a join: if the planner expects a short payout, it compares every row with every line.
    value = dialect().json_value(":values", "'line' || line", _TYPES[column])
    run_query(
        f"UPDATE payout_items SET {column} = {value} WHERE payout_id = :payout_id AND is_ready",  # noqa: S608
        values=orjson.dumps({f"line{line}": value for line, value in values.items()}).decode(),
        payout_id=payout_id,
    )


def _too_little() -> ServiceError:
    return ServiceError(Code.INSUFFICIENT_BALANCE, "Insufficient balance for the payout and its fees")
