"""Approval of payouts: the sum and the fees of all ready rows are reserved at once, or nothing is.

A payout with a date more than a day ahead is approved without a reservation, which the worker makes when it is due
(`due.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from ussd_server.context import CallerKind, RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import long_unit_of_work
from ussd_server.logs import Logger
from ussd_server.models.payouts import Payout
from ussd_server.runtime import Runtime, Service
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.payouts.digests import PayoutDigests
from ussd_server.services.payouts.drafts import caller_id, caller_people
from ussd_server.services.payouts.messages import PayoutStatus
from ussd_server.services.payouts.reservation import (
    PayoutReservation,
    refuse_used_references,
    require_money,
    write_by_line,
)
from ussd_server.services.people import people_behind
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.status import Code, ServiceError
from ussd_server.values import shillings

log = Logger(__name__)

_RESERVED_AHEAD = timedelta(days=1)


class PayoutApproval(Service):
    """Approves drafts."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        super().__init__(runtime)
        self._reservation = PayoutReservation(runtime, creator)
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
        return self._reservation.attempt(payout, lambda: self._approve(payout, approver, context, shown_fee_cents))

    def _approve(self, payout: Payout, approver: str, context: RequestContext, shown_fee_cents: int | None) -> Payout:
        now = self._clock.now()
        drafted = self._reservation.draft_rows(payout, context.caller.key_id, context.request_id)
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
            refuse_used_references(payout)
        else:
            require_money(payout, drafted.total_fee_cents)
        with long_unit_of_work():
            row = lock_row(Payout, payout.id)
            if not _must_be_approved(row, approver, context):
                return row
            self._require_as_judged(row, drafted.items_digest)
            if is_far:
                write_by_line(row.id, "fee_cents", drafted.fees)
                row.total_fee_cents = drafted.total_fee_cents
            else:
                self._reservation.reserve(row, drafted, now)
            row.status, row.approved_by, row.approved_at = PayoutStatus.APPROVED, approver, now
            row.key_id, row.updated_at, row.due_at = context.caller.key_id, now, max(now, row.send_at or now)
            row.leased_until = row.lease_token = None
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
            write_by_line(row.id, "fee_cents", fees)
            row.total_fee_cents, row.updated_at = sum(fees.values()), now
            row.save()
