"""Review: transactions that an operator must check, and how two people settle them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.gates.receipts import WayIn, name_each_other
from ussd_server.services.leases import end_lease
from ussd_server.services.operator_names import require_two_people
from ussd_server.services.runtime import Runtime
from ussd_server.services.settlement.messages import EndReview, ListReviews, ReviewHistory, ReviewItem, ReviewPage
from ussd_server.services.settlement.outcomes import fail, succeed
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.history import view_with_history, views_of
from ussd_server.services.transactions.messages import (
    SUCCESSFUL,
    ChangeDetail,
    Source,
    TransactionStatus,
    TransactionView,
)
from ussd_server.services.transactions.transactions import find_any
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id

_IS_OPEN = Transaction.review_opened_at.is_null(False) & Transaction.review_closed_at.is_null()
_MOST_COUNTED = 10_000


class ReviewService:
    """Lists and ends reviews, for operators only."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._providers = runtime.clock, runtime.providers
        self._receipts = ReceiptWriter(runtime)

    def list(self, context: RequestContext) -> tuple[ReviewItem, ...]:
        """Every open review, the one that has waited longest first."""
        context.require_operator()
        rows = Transaction.select().where(_IS_OPEN).order_by(Transaction.review_opened_at, Transaction.id)
        found = list(rows)
        return tuple(map(_item_of, found, views_of(found)))

    def page(self, request: ListReviews, context: RequestContext) -> ReviewPage:
        """A page of the same list. INVALID_REQUEST for an `after` that was never on the list."""
        context.require_operator()
        rows = Transaction.select().where(_IS_OPEN).order_by(Transaction.review_opened_at, Transaction.id)
        if request.after is not None:
            last = Transaction.get_or_none(Transaction.id == request.after) if is_id(request.after) else None
            if last is None or last.review_opened_at is None:
                raise ServiceError(Code.INVALID_REQUEST, "The page does not exist; begin with the first one")
            opened_at = last.review_opened_at
            is_behind = (Transaction.review_opened_at > opened_at) | (Transaction.id > last.id)
            rows = rows.where(Transaction.review_opened_at >= opened_at, is_behind)
        found = list(rows.limit(request.limit + 1))
        shown = found[: request.limit]
        items = tuple(map(_item_of, shown, views_of(shown)))
        return ReviewPage(items, shown[-1].id if len(found) > request.limit else None)

    def count(self, context: RequestContext) -> int:
        """How many reviews are open, 10,000 at most."""
        context.require_operator()
        return int(Transaction.select(Transaction.id).where(_IS_OPEN).limit(_MOST_COUNTED).count())

    def show(self, id_or_reference: str, context: RequestContext, client_id: str | None = None) -> ReviewHistory:
        """Any transaction of any client, or of one, with its status history.

        Raises TRANSACTION_NOT_FOUND, and INVALID_REQUEST for a reference that several transactions have.
        """
        context.require_operator()
        return _with_history(find_any(id_or_reference, client_id))

    def end(self, request: EndReview, context: RequestContext) -> ReviewHistory:
        """Settle or close an open review: state, money, event and audit trail in one unit of work.

        A transaction without an outcome must be settled; one that failed can be settled as succeeded; one that
        succeeded can only be closed. Raises INVALID_REQUEST for anything else, for a transaction that is not on the
        list, and unless two different people are named with a reason. Raises TRANSACTION_NOT_FOUND.
        Where another payment may have the same money, nothing moves: the review goes on about that, and settling it
        again says that it is other money.
        """
        context.require_operator()
        names = require_two_people(request.by, request.second, request.reason)
        with unit_of_work():
            row, now = self.require_open(request.transaction_id, request.has_succeeded, context), self._clock.now()
            if request.has_succeeded is None:
                name_each_other(row, now)
            elif not self._settle(row, request.has_succeeded, WayIn.REVIEW, request.reason, now):
                # The review is about another payment now, which these two people have not seen.
                return _with_history(row)
            row.review_closed_at = now
            action = "transaction.reviewed" if request.has_succeeded is None else "transaction.settled"
            _note(row, request, names, action, context, now)
        return _with_history(row)

    def require_open(self, transaction_id: str, has_succeeded: bool | None, context: RequestContext) -> Transaction:
        """The transaction of an open review, locked, which can end so. Raises as `end`."""
        context.require_operator()
        row = find_any(transaction_id, locked=True)
        if row.review_opened_at is None or row.review_closed_at is not None:
            raise ServiceError(Code.INVALID_REQUEST, "The transaction is not on the review list")
        if has_succeeded is not None:
            _require_settleable(row, has_succeeded)
        elif row.completed_at is None:
            raise ServiceError(Code.INVALID_REQUEST, "The outcome is still unknown; settle it as one or the other")
        return row

    def conclude(
        self, request: EndReview, provider_transaction_id: str | None, context: RequestContext
    ) -> ReviewHistory:
        """Set a transaction that has no outcome, or failed, to succeeded, because the provider's statement says so.

        The transaction need not be on the review list. Refusals are those of `end`.
        """
        context.require_operator()
        names = require_two_people(request.by, request.second, request.reason)
        with unit_of_work():
            row, now = find_any(request.transaction_id, locked=True), self._clock.now()
            row.provider_transaction_id = row.provider_transaction_id or provider_transaction_id
            if not self._settle(row, True, WayIn.STATEMENT, request.reason, now):
                return _with_history(row)
            if row.review_opened_at is not None:
                row.review_closed_at = row.review_closed_at or now
            _note(row, request, names, "transaction.settled", context, now)
        return _with_history(row)

    def _settle(self, row: Transaction, has_succeeded: bool, way: WayIn, reason: str, now: datetime) -> bool:
        """Settle a transaction. Returns False if another payment may have the money: its review stays open for that."""
        _require_settleable(row, has_succeeded)
        end_lease(row)
        if has_succeeded:
            return succeed(row, Source.OPERATOR, now, self._receipts, ChangeDetail(note=reason), way)
        name_each_other(row, now)
        fail(row, FailureCode.PROVIDER_ERROR, Source.OPERATOR, now, ChangeDetail(note=reason))
        if (provider := self._providers.get(row.provider or "")) is not None:
            # Operators may be wrong too, so the provider is enquired once more.
            row.due_at = now + timedelta(seconds=provider.pace.late_check_after)
        return True


def _require_settleable(row: Transaction, has_succeeded: bool) -> None:
    if row.status in SUCCESSFUL:
        raise ServiceError(Code.INVALID_REQUEST, "The transaction has succeeded; its review can only be closed")
    if row.status == TransactionStatus.FAILED and not has_succeeded:
        raise ServiceError(Code.INVALID_REQUEST, "The transaction has failed; its review can only be closed")


def _note(
    row: Transaction, request: EndReview, names: tuple[str, str], action: str, context: RequestContext, now: datetime
) -> None:
    decided_by = ", ".join(names)
    row.updated_at = now
    row.review_note = f"{request.reason} ({decided_by})"
    row.save()
    write_audit_event(
        action,
        context,
        now,
        client_id=row.client_id,
        object_id=row.id,
        reason=request.reason,
        amount_cents=row.amount_cents,
        phone_number=row.phone_number,
        decided_by=decided_by,
    )


def _with_history(row: Transaction) -> ReviewHistory:
    return ReviewHistory(view_with_history(row), **_reviewed(row))


def _item_of(row: Transaction, view: TransactionView) -> ReviewItem:
    return ReviewItem(view, **_reviewed(row))


def _reviewed(row: Transaction) -> dict[str, Any]:
    return {
        "client_id": row.client_id,
        "reason": row.review_reason,
        "note": row.review_note,
        "opened_at": row.review_opened_at,
        "closed_at": row.review_closed_at,
        "request_id": row.request_id,
    }
