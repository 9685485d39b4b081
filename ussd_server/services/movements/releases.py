"""Releases: a use of a movement that two operators take back, and a success of ours that never moved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.movements import Movement, MovementReceipt
from ussd_server.models.statements import (
    DifferenceInStatement,
    ProviderStatement,
    StatementDifference,
    StatementState,
    is_in_stored_statement,
)
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.ledger import lacking_cents
from ussd_server.services.gates.given_back import RELEASED, is_to_us, outside_of, take_back
from ussd_server.services.gates.held import hold
from ussd_server.services.gates.likeness import named_by
from ussd_server.services.gates.messages import UseKind
from ussd_server.services.gates.own_movements import make_own, own_of
from ussd_server.services.gates.receipts import RECEIPT_COLUMNS, lock_movements
from ussd_server.services.gates.uses import merge, part, use
from ussd_server.services.incoming import booking
from ussd_server.services.movements.messages import EndMovement, MovementView, UndonePayment
from ussd_server.services.movements.movements import (
    find_movement,
    has_its_money,
    last_use,
    refusal,
    require_refunds_final,
    sign_last_use,
    view_of_movement,
)
from ussd_server.services.operator_names import require_two_people
from ussd_server.services.processing.outcomes import decide_anew, follow_refunds, said_to_be
from ussd_server.services.reconciliation.days.lines import statements_with
from ussd_server.services.reconciliation.differences import DifferenceService
from ussd_server.services.reconciliation.imports import lock_imports
from ussd_server.services.reconciliation.line_movements import forget_untold
from ussd_server.services.reconciliation.messages import EndDifference, Verdict
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.audited import audit_payment
from ussd_server.services.transactions.history import views_of
from ussd_server.services.transactions.messages import (
    SUCCESSFUL,
    Origin,
    Source,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.services.transactions.refunds import left_of
from ussd_server.services.transactions.transactions import RETURNED_SETTLEMENT, find_any
from ussd_server.values import comparable_receipt

_OURS = (TransactionType.COLLECTION, TransactionType.DISBURSEMENT, TransactionType.REFUND)


class ReleaseService:
    """Takes uses back, for operators only."""

    def __init__(self, runtime: Runtime, differences: DifferenceService) -> None:
        self._clock, self._vault, self._differences = runtime.clock, runtime.vault, differences

    def release(self, request: EndMovement, context: RequestContext) -> MovementView:
        """Take back the use of a movement that a notice or operators made: it is held again, and its payment reversed.

        What was given back by another movement is held with it; what it gave back is to be given back again. What
        operators found to be another movement, or the money of a payment of ours, is held again with its receipts.
        NOT_FOUND, and INVALID_REQUEST for a movement without a use, for one that a payment of ours used by itself,
        while refunds or corrections of its payment stand, and unless two different people are named with a reason.
        """
        context.require_operator()
        decided_by = ", ".join(require_two_people(request.by, request.second, request.reason))
        reason, now = request.reason.strip(), self._clock.now()
        with unit_of_work():
            movements, row = _releasable(request.movement_id)
            client_id = None if row is None else row.client_id
            for movement in movements:
                first_id = movement.same_as
                use(movement, UseKind.RELEASE, now, movement.transaction_id, decided_by, reason)
                if first_id is not None:
                    part(movement)
                sign_last_use(self._vault, movement.id)
                movement.held_because = RELEASED.format(reason)
                movement.save()
                booking.write_movement_event("movement.released", movement, context, reason, client_id, decided_by)
                if first_id is not None:
                    forget_untold({movement.id, first_id}, now)
            if row is not None and _is_ours(row):
                _take_receipts(row, movements[0], now)
            elif row is not None:
                decide_anew(row, now)
                _take_back(row, now, f"Operators released its money: {reason}")
        return view_of_movement(find_movement(movements[0].id))

    def preview(self, movement_id: str, context: RequestContext) -> MovementView:
        """A movement whose use can be taken back now. Raises as `release`, and changes nothing."""
        context.require_operator()
        with unit_of_work():
            return view_of_movement(_releasable(movement_id)[0][0])

    def end_unmoved(self, request: UndonePayment, context: RequestContext) -> TransactionView:
        """Reverse a success of ours that never moved, as two operators say: it counts nowhere from now on.

        TRANSACTION_NOT_FOUND, and INVALID_REQUEST for what is no payment of ours at a provider that succeeded, without
        a statement that covers it and lacks it, or has another amount, where another one has it, while a refund of it
        is not final, and unless two different people are named with a reason.
        """
        context.require_operator()
        decided_by = ", ".join(require_two_people(request.by, request.second, request.reason))
        reason, now = request.reason.strip(), self._clock.now()
        with unit_of_work():
            row, differences = _unmoved(request.transaction_id)
            # Whatever tells of its receipts from now on finds what moved instead, or the movement.
            instead = next((each.movement_id for each in differences if each.movement_id is not None), None)
            own, first = own_of(row), None if instead is None else find_movement(instead)
            locked = {each.id: each for each in lock_movements([own, first])}
            movement = locked[own.id] if own else make_own(row, None, now, now, row.provider_transaction_id)
            use(movement, UseKind.RELEASE, now, row.id, decided_by, reason)
            sign_last_use(self._vault, movement.id)
            _take_back(row, now, f"It never moved: {reason}")
            if instead is not None and not movement.told:
                merge(movement, locked[instead], now, decided_by)
                sign_last_use(self._vault, movement.id)
            else:
                hold(movement, RELEASED.format(reason), now)
            for each in differences:
                if each.ended_at is None and each.movement_id is None:
                    self._differences.end(EndDifference(each.id, reason, request.by), context)
            audit_payment(row, "transaction.unmoved", context, now, reason, decided_by)
        return views_of([row])[0]

    def preview_unmoved(self, transaction_id: str, context: RequestContext) -> TransactionView:
        """A success of ours that can be said to have never moved now. Raises as `end_unmoved`, and changes nothing."""
        context.require_operator()
        with unit_of_work():
            return views_of([_unmoved(transaction_id)[0]])[0]

    def may_be_unmoved(self, transaction_id: str, context: RequestContext) -> bool:
        """Whether a payment is a success of ours that a statement lacks or has with another amount."""
        context.require_operator()
        row = find_any(transaction_id)
        return _is_success_of_ours(row) and _lacking(row).exists()

    def undo_deposit(self, request: UndonePayment, context: RequestContext) -> TransactionView:
        """Take a mistaken deposit back; what the account lacks of it is the client's shortfall.

        TRANSACTION_NOT_FOUND, and INVALID_REQUEST for what is no deposit that stands, for what the bank sent back, and
        unless two different people are named with a reason.
        """
        context.require_operator()
        decided_by = ", ".join(require_two_people(request.by, request.second, request.reason))
        reason, now = request.reason.strip(), self._clock.now()
        with unit_of_work():
            row = find_any(request.transaction_id, locked=True)
            if row.type != TransactionType.DEPOSIT or row.reference.startswith(RETURNED_SETTLEMENT):
                raise refusal("Only what an operator credited can be taken back so")
            if row.status != TransactionStatus.SUCCEEDED:
                raise refusal("The deposit was taken back before")
            _take_back(row, now, f"It was a mistake: {reason}")
            audit_payment(row, "transaction.deposit_undone", context, now, reason, decided_by)
        return views_of([row])[0]


def _unmoved(transaction_id: str) -> tuple[Transaction, list[StatementDifference]]:
    """A success of ours, locked, and the differences of statements that lack it or have another amount."""
    lock_imports()
    row = _lock_payment(find_any(transaction_id).id)
    if not _is_success_of_ours(row):
        raise refusal("Only a payment of ours that succeeded can be said to have never moved")
    if not (differences := list(_lacking(row).order_by(StatementDifference.id.desc()))):
        raise refusal("No statement that covers it lacks it, or has another amount")
    if (telling := _statement_with(row, differences)) is not None:
        raise refusal(f"A statement has it: {telling.file_name}. If that one is wrong, undo its import first")
    require_refunds_final(row)
    return row, differences


def _is_success_of_ours(row: Transaction) -> bool:
    is_ours = row.type in _OURS and row.origin != Origin.PAYER
    return is_ours and row.status in SUCCESSFUL and row.released_at is None


def _lacking(row: Transaction) -> Any:
    """The differences of statements that lack a payment, or have it with another amount."""
    return StatementDifference.select().where(
        StatementDifference.transaction_id == row.id,
        StatementDifference.verdict.in_((Verdict.NOT_THEIRS, Verdict.AMOUNT_DIFFERS)),
        is_in_stored_statement(),
    )


def _statement_with(row: Transaction, differences: Sequence[StatementDifference]) -> ProviderStatement | None:
    """The newest stored statement with a payment of ours; None where a newer one has it with another amount.

    A line weighs more than its absence: what is in one statement, and not in a newer one, has moved.
    """
    account, cents = str(row.provider_account), row.amount_cents
    newest = next(statements_with(row.id, account, cents, row.created_at, row.completed_at), None)
    places = DifferenceInStatement.select().where(
        DifferenceInStatement.difference_id.in_(
            [each.id for each in differences if each.verdict == Verdict.AMOUNT_DIFFERS]
        ),
        DifferenceInStatement.statement_id.in_(
            ProviderStatement.select(ProviderStatement.id).where(ProviderStatement.state == StatementState.STORED)
        ),
        DifferenceInStatement.statement_id > newest.id if newest else True,
    )
    return None if places.exists() else newest


def _releasable(movement_id: str) -> tuple[list[Movement], Transaction | None]:
    """A movement whose use can be taken back, locked after the payment or the correction that uses it.

    A payer's payment is locked after it, as the gates lock it, and what failed because of that one before it. After the
    movement comes the one that gives it back, which has no other use.
    """
    lock_imports()
    unlocked = find_movement(movement_id)
    row = None if unlocked.transaction_id is None else find_row(Transaction, unlocked.transaction_id)
    is_payers = row is not None and row.origin == Origin.PAYER
    if row is not None and is_payers:
        said_to_be(row)
    elif row is not None:
        row = _lock_payment(row.id)
    pair = [unlocked] if unlocked.counterpart is None else [unlocked, find_movement(unlocked.counterpart)]
    pair = sorted(lock_movements(pair), key=lambda each: each.id != unlocked.id)
    row = lock_row(Transaction, row.id) if row is not None and is_payers else row
    movement = pair[0]
    is_as_read = (movement.transaction_id, movement.counterpart) == (unlocked.transaction_id, unlocked.counterpart)
    if (movement.use_kind is None and movement.same_as is None) or not is_as_read:
        raise refusal("The movement has no use that can be taken back")
    if movement.same_as is not None and (named := named_by(movement)) is not None and has_its_money(named):
        raise refusal(f"Transaction {named.id} has its receipt")
    if row is not None:
        _require_releasable(row, movement)
    return [movement, *(each for each in pair[1:] if last_use(each.id).other_id == movement.id)], row


def _lock_payment(transaction_id: str) -> Transaction:
    """A payment, locked with the collection that it gives back, before anything of their movements."""
    row = lock_row(Transaction, transaction_id)
    if row.refund_of is not None:
        lock_row(Transaction, row.refund_of)
    return row


def _take_back(row: Transaction, now: datetime, note: str) -> None:
    lacking = 0
    if is_to_us(row):
        lacking = lacking_cents(row.client_id, row.account, outside_of(row), row.amount_cents - row.fee_cents)
    take_back(row, Source.OPERATOR, now, note, lacking)
    if row.refund_of is not None:
        follow_refunds(find_row(Transaction, row.refund_of), Source.OPERATOR, now)


def _is_ours(row: Transaction) -> bool:
    return bool(row.origin != Origin.PAYER and row.type != TransactionType.CORRECTION)


def _take_receipts(row: Transaction, movement: Movement, now: datetime) -> None:
    """Take the receipts of a movement from a payment of ours, which is its own movement again."""
    receipts = MovementReceipt.select().where(MovementReceipt.movement_id == movement.id)
    forms = {each.receipt for each in receipts}
    for column in RECEIPT_COLUMNS:
        if comparable_receipt(getattr(row, column) or "") in forms:
            row.change(updated_at=now, **{column: None})


def _require_releasable(row: Transaction, movement: Movement) -> None:
    """INVALID_REQUEST unless operators gave a payment of ours its movement, and while refunds of another one stand."""
    if _is_ours(row) and last_use(movement.id).decided_by is not None:
        return
    if _is_ours(row):
        raise refusal(f"Transaction {row.id} is a payment of ours; `movements unmoved` says that it never moved")
    stand = Transaction.select().where(Transaction.corrects == row.id, Transaction.status != TransactionStatus.REVERSED)
    if row.status != TransactionStatus.SUCCEEDED or left_of(row) != row.amount_cents or stand.exists():
        raise refusal("Refunds or corrections of it stand")
