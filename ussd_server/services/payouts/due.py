"""Approved payouts that are due and not reserved yet: the worker reserves their money, or waits a day for it."""

from __future__ import annotations

from datetime import datetime, timedelta

from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import long_unit_of_work, unit_of_work
from ussd_server.logs import Logger
from ussd_server.models.clients import Client
from ussd_server.models.payouts import Payout
from ussd_server.runtime import Runtime
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.leases import end_lease
from ussd_server.services.payouts.digests import PayoutDigests
from ussd_server.services.payouts.messages import PayoutStatus
from ussd_server.services.payouts.records import mark_cancelled, write_payout_event
from ussd_server.services.payouts.reservation import PayoutReservation, require_money
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.status import Code, ServiceError

log = Logger(__name__)

_RETRY = timedelta(minutes=1)
# The limit of a key is met last, after every row was written in vain.
_RETRY_OF_LIMIT = timedelta(hours=1)
_MONEY_WITHIN = timedelta(days=1)
_LAST_TRY_WITHIN = timedelta(minutes=5)
_MISSING = (Code.INSUFFICIENT_BALANCE, Code.DAILY_LIMIT_REACHED)


class DuePayouts:
    """Reserves the money of payouts whose date has come."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        self._reservation = PayoutReservation(runtime, creator)
        self._digests = PayoutDigests(runtime.vault)
        self._clock = runtime.clock

    def reserve(self, payout_id: str) -> None:
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
            if not Client.select(Client.id).where(Client.id == payout.client_id, Client.is_active).exists():
                raise ServiceError(Code.SERVICE_UNAVAILABLE, "The client is disabled")
            self._reservation.attempt(payout, lambda: self._reserve(payout, now))
        except ServiceError as refusal:
            _refused(payout_id, refusal, now)

    def _reserve(self, payout: Payout, now: datetime) -> None:
        # The fees are computed with the rows; a sum that is missing is found without them.
        require_money(payout, 0)
        drafted = self._reservation.draft_rows(payout, payout.key_id, payout.request_id)
        require_money(payout, drafted.total_fee_cents)
        with long_unit_of_work():
            row = lock_row(Payout, payout.id)
            if not _is_unreserved(row, now):
                return
            if not self._digests.is_as_approved(row, drafted.items_digest):
                raise ServiceError(Code.INVALID_REQUEST, "The payout is not what was approved")
            self._reservation.reserve(row, drafted, now)
            row.updated_at = row.due_at = now
            end_lease(row)
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
    row.completed_at = now
    row.save()
    write_payout_event(row, "payout.completed", now)
    write_audit_event(
        "payout.cancelled",
        RequestContext(Caller(CallerKind.NOBODY)),
        now,
        client_id=row.client_id,
        object_id=row.id,
        reason=reason,
        is_automatic=True,
    )
