"""Differences of statements: lists them and ends their reviews."""

from __future__ import annotations

from typing import Any

from peewee import JOIN

from ussd_server.context import RequestContext
from ussd_server.database.tables import find_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.movements import Movement, MovementReceipt
from ussd_server.models.statements import (
    DifferenceInStatement,
    ProviderStatement,
    StatementDifference,
    is_in_stored_statement,
)
from ussd_server.models.transactions import Transaction
from ussd_server.providers.statement_format import LineStatus
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.gates.movements import has_contest
from ussd_server.services.gates.receipts import account_of, direction_of
from ussd_server.services.operator_names import require_name, require_reason, require_two_people
from ussd_server.services.pages import count_rows, find_by_id, page_of
from ussd_server.services.processing.messages import EndReview
from ussd_server.services.processing.outcomes import REVIEW_TWICE
from ussd_server.services.processing.review import ReviewService
from ussd_server.services.reconciliation.imports import lock_imports, stored_statement
from ussd_server.services.reconciliation.line_movements import hold_difference
from ussd_server.services.reconciliation.messages import (
    ConcludeFromStatement,
    DifferenceView,
    EndDifference,
    ListDifferences,
    Verdict,
)
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import SUCCESSFUL
from ussd_server.services.transactions.transactions import find_any
from ussd_server.status import Code, ServiceError
from ussd_server.values import comparable_receipt
from ussd_server.wire import Page, view_of_row


class DifferenceService:
    """Lists differences and ends their reviews, for operators only."""

    def __init__(self, runtime: Runtime, review: ReviewService) -> None:
        self._clock, self._tokens = runtime.clock, runtime.tokens
        self._review = review

    def list(self, request: ListDifferences, context: RequestContext) -> Page[DifferenceView]:
        """A page of differences. Raises INVALID_REQUEST for a cursor of another list."""
        context.require_operator()
        if request.statement_id is not None:
            return self._of_statement(request.statement_id, request)
        return page_of(_open(), StatementDifference, request, self._tokens, _views)

    def count(self, context: RequestContext) -> int:
        """How many differences are open, 10,000 at most."""
        context.require_operator()
        return count_rows(_open())

    def show(self, difference_id: str, context: RequestContext) -> DifferenceView:
        """One difference. Raises NOT_FOUND."""
        context.require_operator()
        return _views([_found(difference_id)])[0]

    def end(self, request: EndDifference, context: RequestContext) -> DifferenceView:
        """End the review of a difference with a reason.

        Raises NOT_FOUND, and INVALID_REQUEST for one that has ended, for a name that is no operator's, and for a
        success of the provider whose money has no use: `conclude` ends it.
        """
        context.require_operator()
        require_reason(request.reason)
        by = require_name(request.by)
        with unit_of_work():
            lock_imports()
            row = _found(request.difference_id)
            _require_no_movement(row)
            _require_no_success(row)
            self._end(row, request.reason, by, context)
        return _views([row])[0]

    def conclude(self, request: ConcludeFromStatement, context: RequestContext) -> DifferenceView:
        """Set the payment of a difference to succeeded, as the statement says, and end the review.

        What a payout's row was paid twice is a held movement instead. State, money, event and audit trail change in one
        unit of work. Raises NOT_FOUND, and INVALID_REQUEST unless the provider reports a success of the same amount for
        a payment of ours that is unfinished or failed, and two different people are named with a reason.
        """
        context.require_operator()
        names = require_two_people(request.by, request.second, request.reason)
        with unit_of_work():
            row = _conclusive(request.difference_id)
            concluded = self._review.succeed_by_statement(
                EndReview(row.transaction_id, request.reason, request.by, request.second), row.provider_id, context
            )
            if concluded.transaction.status in SUCCESSFUL:
                self._end(row, request.reason, ", ".join(names), context)
            elif concluded.reason == REVIEW_TWICE:
                hold_difference(row, self._clock.now())
        return self.show(row.id, context)

    def require_conclusive(self, difference_id: str, context: RequestContext) -> DifferenceView:
        """A difference whose payment can be concluded now, both locked. Raises as `conclude`."""
        context.require_operator()
        row = _conclusive(difference_id)
        if find_any(row.transaction_id, locked=True).status in SUCCESSFUL:
            raise ServiceError(Code.INVALID_REQUEST, "The payment has succeeded here too")
        return _views([row])[0]

    def _end(self, row: StatementDifference, reason: str, by: str, context: RequestContext) -> None:
        if row.ended_at is not None:
            raise _has_ended()
        row.ended_at, row.ended_by, row.reason = self._clock.now(), by, reason.strip()
        row.save()
        write_audit_event(
            "difference.ended",
            context,
            row.ended_at,
            client_id=None,
            object_id=row.id,
            reason=row.reason,
            decided_by=by,
        )

    def _of_statement(self, statement_id: str, request: ListDifferences) -> Page[DifferenceView]:
        """The differences of one statement, in its order."""
        stored_statement(statement_id)
        kind = "differences_in_statements"
        rows = DifferenceInStatement.select().where(DifferenceInStatement.statement_id == statement_id)
        if request.verdict is not None:
            rows = rows.join(StatementDifference, on=(StatementDifference.id == DifferenceInStatement.difference_id))
            rows = rows.where(StatementDifference.verdict == request.verdict)
        if request.cursor is not None:
            rows = rows.where(DifferenceInStatement.id > self._tokens.read_cursor(kind, request.cursor))
        entries = list(rows.order_by(DifferenceInStatement.id).limit(request.limit + 1))
        has_next, entries = len(entries) > request.limit, entries[: request.limit]
        ids = [entry.difference_id for entry in entries]
        by_id = {row.id: row for row in StatementDifference.select().where(StatementDifference.id.in_(ids))}
        cursor = self._tokens.cursor(kind, entries[-1].id) if has_next else None
        return Page(_views([by_id[each] for each in ids]), cursor)


def _open() -> Any:
    is_open = StatementDifference.ended_at.is_null() & StatementDifference.movement_id.is_null()
    return StatementDifference.select().where(is_open, is_in_stored_statement())


def _found(difference_id: str) -> Any:
    rows = StatementDifference.select().where(is_in_stored_statement())
    return find_by_id(rows, StatementDifference, difference_id, "Difference")


def _conclusive(difference_id: str) -> Any:
    """A difference in which the provider reports a success; `lock_imports` holds it."""
    # Before any row, so that a confirmed proposal and `end` cannot wait for each other.
    lock_imports()
    row = _found(difference_id)
    if row.verdict != Verdict.STATUS_DIFFERS or row.theirs != LineStatus.SUCCEEDED:
        raise ServiceError(Code.INVALID_REQUEST, "Only a success of the provider concludes a payment")
    if row.ended_at is not None:
        raise _has_ended()
    _require_no_movement(row)
    return row


def _require_no_movement(row: StatementDifference) -> None:
    if row.movement_id is not None:
        raise ServiceError(Code.INVALID_REQUEST, f"Its line moved money: end movement {row.movement_id}")


def _require_no_success(row: StatementDifference) -> None:
    """INVALID_REQUEST for a success of the provider alone, unless its money has a use, or operators have found one."""
    if row.ended_at is not None or row.verdict != Verdict.STATUS_DIFFERS or row.theirs != LineStatus.SUCCEEDED:
        return
    payment = find_row(Transaction, row.transaction_id)
    is_decided = payment.contested_id is not None and not has_contest(payment)
    if payment.status not in SUCCESSFUL and not is_decided and not _has_use(row.provider_id or "", payment):
        raise ServiceError(Code.INVALID_REQUEST, f"Its line moved money: conclude transaction {payment.id} by it")


def _has_use(written: str, payment: Transaction) -> bool:
    """Whether a receipt in the direction of a payment is that of money with a use."""
    receipts = MovementReceipt.select().join(Movement, JOIN.LEFT_OUTER, on=(Movement.id == MovementReceipt.movement_id))
    used = receipts.where(
        MovementReceipt.account == account_of(payment),
        MovementReceipt.direction == direction_of(payment),
        MovementReceipt.receipt == comparable_receipt(written),
        MovementReceipt.transaction_id.is_null(False) | Movement.use_kind.is_null(False),
    )
    return bool(used.exists())


def _has_ended() -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, "The review of this difference has ended")


def _views(rows: list[Any]) -> tuple[DifferenceView, ...]:
    statements = ProviderStatement.select(ProviderStatement.id, ProviderStatement.file_name).where(
        ProviderStatement.id.in_({row.statement_id for row in rows})
    )
    names = {statement.id: statement.file_name for statement in statements} if rows else {}
    return tuple(
        view_of_row(DifferenceView, row, difference_id=row.id, file_name=names[row.statement_id]) for row in rows
    )
