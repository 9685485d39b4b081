"""Reviews: transactions that an operator must check, and how two people end a review."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.tables import find_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.transactions import IN_REVIEW, Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Direction
from ussd_server.services.gates.messages import WayIn
from ussd_server.services.gates.movements import is_corrected, mark_as_same_money, say_receipt
from ussd_server.services.leases import end_lease
from ussd_server.services.operator_names import require_two_people
from ussd_server.services.pages import count_rows
from ussd_server.services.processing.messages import EndReview, ReviewHistory, ReviewItem
from ussd_server.services.processing.outcomes import fail, succeed
from ussd_server.services.runtime import Runtime
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.audited import audit_payment
from ussd_server.services.transactions.history import view_with_history, views_of
from ussd_server.services.transactions.messages import SUCCESSFUL, ChangeDetail, Source, TransactionStatus
from ussd_server.services.transactions.transactions import find_any
from ussd_server.status import Code, ServiceError
from ussd_server.wire import ListPage, Page

_LIST = "reviews"


class ReviewService:
    """Lists and ends reviews, for operators only."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._providers, self._tokens = runtime.clock, runtime.providers, runtime.tokens
        self._receipts = ReceiptWriter(runtime)

    def list(self, context: RequestContext) -> tuple[ReviewItem, ...]:
        """Every open review, the one that has waited longest first."""
        context.require_operator()
        return self._items_of(list(_open_reviews()))

    def page(self, request: ListPage, context: RequestContext) -> Page[ReviewItem]:
        """A page of the same list. INVALID_REQUEST for a cursor of another list."""
        context.require_operator()
        rows = _open_reviews()
        if request.cursor is not None:
            last = find_row(Transaction, self._tokens.read_cursor(_LIST, request.cursor))
            opened_at = last.review_opened_at
            is_behind = (Transaction.review_opened_at > opened_at) | (Transaction.id > last.id)
            rows = rows.where(Transaction.review_opened_at >= opened_at, is_behind)
        # One more than the page has, to know whether another page follows.
        transactions = list(rows.limit(request.limit + 1))
        page = transactions[: request.limit]
        cursor = self._tokens.cursor(_LIST, page[-1].id) if len(transactions) > request.limit else None
        return Page(self._items_of(page), cursor)

    def count(self, context: RequestContext) -> int:
        """How many reviews are open, 10,000 at most."""
        context.require_operator()
        return count_rows(Transaction.select(Transaction.id).where(IN_REVIEW))

    def show(self, id_or_reference: str, context: RequestContext, client_id: str | None = None) -> ReviewHistory:
        """Any transaction of any client, or of one, with its status history.

        Raises TRANSACTION_NOT_FOUND, and INVALID_REQUEST for a reference that several transactions have.
        """
        context.require_operator()
        return self._with_history(find_any(id_or_reference, client_id))

    def end(self, request: EndReview, context: RequestContext) -> ReviewHistory:
        """End an open review: state, money, event and audit trail in one unit of work.

        A transaction without an outcome must be set to succeeded or failed. One that failed can be set to succeeded;
        of one that succeeded, the review can only be closed. Raises INVALID_REQUEST for anything else, for a
        transaction that is not on the list, for a receipt of other money, and unless two different people are named
        with a reason. Raises TRANSACTION_NOT_FOUND.
        If another payment may have the same money, no money moves and the review stays open with that as its reason.
        Ending it again as succeeded confirms that it is other money.
        """
        context.require_operator()
        names = require_two_people(request.by, request.second, request.reason)
        with unit_of_work():
            row = self.require_open(request.transaction_id, request.has_succeeded, context, request.receipt)
            now = self._clock.now()
            if request.has_succeeded is None:
                mark_as_same_money(row, now)
            elif not self._set_outcome(row, request.has_succeeded, WayIn.REVIEW, request.reason, now):
                # The review is about another payment now, which these two people have not seen.
                return self._with_history(row)
            row.review_closed_at = now
            action = "transaction.reviewed" if request.has_succeeded is None else "transaction.settled"
            _note(row, request, names, action, context, now)
        return self._with_history(row)

    def require_open(
        self, transaction_id: str, has_succeeded: bool | None, context: RequestContext, receipt: str | None = None
    ) -> Transaction:
        """The transaction of an open review, locked, whose review can end with this outcome. Raises as `end`.

        It has the receipt, if it had none; the caller saves it.
        """
        context.require_operator()
        row = find_any(transaction_id, locked=True)
        if not row.is_in_review:
            raise ServiceError(Code.INVALID_REQUEST, "The transaction is not on the review list")
        if has_succeeded is not None:
            _require_outcome_allowed(row, has_succeeded)
        elif row.completed_at is None:
            raise ServiceError(Code.INVALID_REQUEST, "The outcome is still unknown; settle it as one or the other")
        if receipt is not None:
            if not has_succeeded:
                raise ServiceError(Code.INVALID_REQUEST, "Only a success has a receipt")
            say_receipt(row, receipt)
        return row

    def succeed_by_statement(
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
            if not self._set_outcome(row, True, WayIn.STATEMENT, request.reason, now):
                if not row.is_in_review:
                    raise ServiceError(
                        Code.INVALID_REQUEST,
                        f"Operators found it to be the money of transaction {row.contested_id}; release that one first",
                    )
                return self._with_history(row)
            if row.review_opened_at is not None:
                row.review_closed_at = row.review_closed_at or now
            _note(row, request, names, "transaction.settled", context, now)
        return self._with_history(row)

    def _set_outcome(self, row: Transaction, has_succeeded: bool, way: WayIn, reason: str, now: datetime) -> bool:
        """Set a transaction to succeeded or failed. Returns False, with the review open, if other money contests it."""
        _require_outcome_allowed(row, has_succeeded)
        end_lease(row)
        if has_succeeded:
            return succeed(row, Source.OPERATOR, now, self._receipts, ChangeDetail(note=reason), way)
        mark_as_same_money(row, now)
        fail(row, FailureCode.PROVIDER_ERROR, Source.OPERATOR, now, ChangeDetail(note=reason))
        if (provider := self._providers.get(row.provider or "", row.client_id)) is not None:
            # Operators may be wrong too: query the provider once more.
            row.due_at = now + timedelta(seconds=provider.schedule.late_check_after)
        return True

    def _items_of(self, rows: Sequence[Transaction]) -> tuple[ReviewItem, ...]:
        return tuple(ReviewItem(view, **self._fields(row)) for row, view in zip(rows, views_of(rows), strict=True))

    def _with_history(self, row: Transaction) -> ReviewHistory:
        return ReviewHistory(view_with_history(row), **self._fields(row))

    def _fields(self, row: Transaction) -> dict[str, Any]:
        connection = None
        if row.sent_to is not None and row.provider is not None:
            connection = self._providers.of_payment(row.provider, row.sent_to, Direction(row.type))
        return {
            "client_id": row.client_id,
            "connection": connection.connection if connection else row.sent_to,
            "reason": row.review_reason,
            "note": row.review_note,
            "opened_at": row.review_opened_at,
            "closed_at": row.review_closed_at,
            "request_id": row.request_id,
        }


def _require_outcome_allowed(row: Transaction, has_succeeded: bool) -> None:
    if is_corrected(row):
        raise ServiceError(Code.INVALID_REQUEST, "Operators booked what moved of the transaction as a correction")
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
    audit_payment(row, action, context, now, request.reason, decided_by)


def _open_reviews() -> Any:
    return Transaction.select().where(IN_REVIEW).order_by(Transaction.review_opened_at, Transaction.id)
