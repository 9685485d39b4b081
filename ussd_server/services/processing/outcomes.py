"""Outcomes: the effect of success, failure and review on a transaction and its money."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ussd_server.database.tables import lock_row
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.services.accounts import ledger
from ussd_server.services.gates.given_back import give_back, outside_of
from ussd_server.services.gates.messages import Told, WayIn
from ussd_server.services.gates.movements import UseOutcome, UseResult, find_or_make, has_contest, use_for
from ussd_server.services.gates.receipts import account_of, direction_of
from ussd_server.services.payouts.attempts import LateSuccess, late_success, take_row
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.history import NOTHING_KNOWN, append_change, write_transaction_event
from ussd_server.services.transactions.messages import ChangeDetail, Source, TransactionStatus, TransactionType
from ussd_server.status import Code, ServiceError

# These sentences never change, because they are stored with transactions and compared later.
REVIEW_LATE = "the provider reported success after it had reported failure"
REVIEW_AMOUNT = "the provider moved {} and not what was asked"
REVIEW_ANOTHER = "the provider has another payment under the name of this one"
REVIEW_SILENT = "nobody could confirm the outcome in time"
REVIEW_ELSEWHERE = "it was sent to a place that the settings no longer have"
REVIEW_RETRACTED = "the provider reported the payment as under way after it had reported failure"
REVIEW_CONTRADICTION = "the provider reported failure after it had reported success"
REVIEW_RELEASED = "operators released the payment that had its money"
REVIEW_BESIDE = "the provider reported success after another attempt to pay the row had begun"
REVIEW_TWICE = "the provider paid the row twice: another attempt has succeeded, too"

_MAY_BE_PAID = "Another attempt may still pay the row of the payout; decide once that one is final"
_PAID_BY_ANOTHER = "Another attempt has paid the row of the payout; conclude what the statement shows, or correct it"
# How soon a success is looked at again that waits for another attempt.
_BESIDE_SECONDS = 60


def succeed(
    row: Transaction,
    source: Source,
    now: datetime,
    receipts: ReceiptWriter,
    detail: ChangeDetail = NOTHING_KNOWN,
    way: WayIn = WayIn.ENQUIRY,
) -> bool:
    """Set a transaction to succeeded, move its money and write its receipt. In a unit of work, with the row locked.

    Returns False, and opens a review instead, if another payment may have the same money, or if another attempt has
    paid the row of a payout, or still may. INVALID_REQUEST for operators in the latter case, unless a statement shows
    that the row was paid twice: they book what moved.
    """
    is_late_attempt = row.status == TransactionStatus.FAILED and row.payout_id is not None
    decision = late_success(row) if is_late_attempt else LateSuccess.COUNTS
    if decision is not LateSuccess.COUNTS:
        if source is Source.OPERATOR and decision is LateSuccess.WAITS:
            raise ServiceError(Code.INVALID_REQUEST, _MAY_BE_PAID)
        if source is Source.OPERATOR and way is not WayIn.STATEMENT:
            raise ServiceError(Code.INVALID_REQUEST, _PAID_BY_ANOTHER)
        _hold_beside(row, decision, way, now)
        return False
    result = use_for(row, way, now)
    if not result.counts:
        _contest(row, result, now)
        return False
    replaced = result.other if result.decision is UseOutcome.REPLACES else None
    row.same_money_as = replaced.id if replaced else row.same_money_as
    row.late = row.status == TransactionStatus.FAILED
    if is_late_attempt:
        take_row(row)
    # Lock the collection before any account, as the creation of a refund does (no deadlock).
    original = lock_row(Transaction, row.refund_of) if row.type == TransactionType.REFUND else None
    if row.type == TransactionType.COLLECTION:
        legs = ledger.legs_of(row, "move", outside_of(row), row.account)
    else:
        legs = ledger.end_holds(_holds_of(row, now), "post") or _legs_without_hold(row)
    ledger.write_entry(row.client_id, row.id, legs, now)
    row.status, row.failure_code, row.completed_at, row.due_at = TransactionStatus.SUCCEEDED, None, now, None
    close_review(row, REVIEW_SILENT, now)
    row.save()
    append_change(row, source, now, detail)
    if replaced is not None:
        give_back(replaced, row, source, now)
    if replaced is None or replaced.phone_number is None:
        # The payer of a payment that is given back has its receipt already, where the till knew the number.
        receipts.queue(row)
    if row.late and source is not Source.OPERATOR:
        open_review(row, REVIEW_LATE, now)
        row.save()
    if original is not None:
        follow_refunds(original, source, now)
    return True


def _contest(row: Transaction, result: UseResult, now: datetime) -> None:
    """Move no money and stop processing, until two operators decide in a review whether another payment has it."""
    row.due_at = None
    row.contested_id = result.other.id if result.other else None
    if result.reason:
        open_review(row, result.reason, now)
    row.save()


def _hold_beside(row: Transaction, decision: LateSuccess, way: WayIn, now: datetime) -> None:
    """Hold the money of an attempt that succeeded late: it is charged to nobody while another attempt may count.

    What a statement tells is held by its line, with the line's moment.
    """
    waits = decision is LateSuccess.WAITS
    row.due_at = now + timedelta(seconds=_BESIDE_SECONDS) if waits else None
    open_review(row, REVIEW_BESIDE if waits else REVIEW_TWICE, now)
    if (receipt := row.provider_transaction_id) and way is not WayIn.STATEMENT:
        told = Told(way, account_of(row), direction_of(row), row.amount_cents, receipt, row.phone_number, now)
        money = find_or_make(told, now, held_because=f"Transaction {row.id}: {row.review_reason}")
        if money.movement is not None:
            money.movement.save()
    row.save()


def fail(
    row: Transaction,
    why: FailureCode,
    source: Source,
    now: datetime,
    detail: ChangeDetail = NOTHING_KNOWN,
    next_check_at: datetime | None = None,
) -> None:
    """Set a transaction to failed and release its money. Call inside a unit of work, with the row locked.

    `next_check_at` is when the worker queries the provider once more, whether it still reports the failure.
    """
    holds = ledger.holds_of(row.id)
    if holds:
        ledger.write_entry(row.client_id, row.id, ledger.end_holds(holds, "void"), now)
    row.status, row.failure_code, row.completed_at, row.due_at = TransactionStatus.FAILED, why, now, next_check_at
    close_review(row, REVIEW_SILENT, now)
    if source is not Source.OPERATOR and has_contest(row):
        # The provider now reports failure after success: there is no money that another payment could have.
        row.review_closed_at, row.contested_id = now, None
    row.save()
    append_change(row, source, now, replace(detail, code=str(why)))


def open_review(row: Transaction, reason: str, now: datetime) -> None:
    """Open a review of a transaction for operators. Call inside a unit of work."""
    if not row.is_in_review or row.review_reason != reason:
        row.review_reason, row.review_opened_at, row.review_closed_at = reason, now, None
        write_transaction_event(row, "transaction.needs_review", now)


def decide_anew(released: Transaction, now: datetime) -> None:
    """Review again what failed because operators found it to be a payer's payment, whose money they release.

    The caller saves that payment.
    """
    for row in said_to_be(released):
        row.contested_id = row.same_money_as = released.same_money_as = None
        open_review(row, REVIEW_RELEASED, now)
        row.save()


def said_to_be(payers: Transaction) -> list[Transaction]:
    """The payments of ours, locked, that failed because operators found them to be a payer's payment."""
    failed = Transaction.select(Transaction.id).where(
        Transaction.contested_id == payers.id, Transaction.status == TransactionStatus.FAILED
    )
    return [lock_row(Transaction, each.id) for each in failed.order_by(Transaction.id)]


def close_review(row: Transaction, reason: str, now: datetime) -> None:
    """Close the review for `reason`, if it is open: a late outcome makes the decision of an operator unnecessary."""
    if row.review_reason == reason and row.review_closed_at is None:
        row.review_closed_at = now


def is_left_to_provider(row: Transaction) -> bool:
    """Whether operators neither decide about an unfinished transaction nor have decided.

    A review of a place that the settings lacked is closed when they have it again.
    """
    is_back = row.review_reason == REVIEW_ELSEWHERE and row.review_closed_at is not None
    return row.review_opened_at is None or is_back


def _holds_of(row: Transaction, now: datetime) -> list[ledger.Leg]:
    """The open holds of a payment; none, and they are released, where it left another account than expected."""
    holds = ledger.holds_of(row.id)
    if not holds or row.provider is None or outside_of(row) in {hold.credit for hold in holds}:
        return holds
    ledger.write_entry(row.client_id, row.id, ledger.end_holds(holds, "void"), now)
    return []


def _legs_without_hold(row: Transaction) -> list[ledger.Leg]:
    """A payment that left after its reservation was released: debits the account; what it lacks is a shortfall."""
    outside = outside_of(row)
    lacking = ledger.lacking_cents(row.client_id, row.account, outside, row.amount_cents + row.fee_cents)
    return ledger.legs_of(row, "move", row.account, outside, lacking)


def follow_refunds(original: Transaction, source: Source, now: datetime) -> None:
    """Set a locked collection to reversed once its succeeded refunds add up to its amount, and back when they do not.

    One whose money counts nowhere stays reversed.
    """
    refunds = Transaction.select(Transaction.amount_cents).where(
        Transaction.refund_of == original.id, Transaction.status == TransactionStatus.SUCCEEDED
    )
    is_refunded = sum(refund.amount_cents for refund in refunds) >= original.amount_cents
    if original.status == TransactionStatus.SUCCEEDED and is_refunded:
        status, note = TransactionStatus.REVERSED, "Its refunds add up to its whole amount"
    elif original.status == TransactionStatus.REVERSED and not is_refunded and original.released_at is None:
        status, note = TransactionStatus.SUCCEEDED, "What gave it back was taken out of the books"
    else:
        return
    original.change(status=status, updated_at=now)
    append_change(original, source, now, ChangeDetail(note=note))
