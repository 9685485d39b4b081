"""What each answer of a provider does to a transaction that has not succeeded."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Outcome, PollingSchedule, ProviderAnswer
from ussd_server.services.gates.messages import WayIn
from ussd_server.services.gates.movements import is_corrected
from ussd_server.services.payouts.attempts import has_left_name
from ussd_server.services.processing import outcomes
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.history import append_change
from ussd_server.services.transactions.messages import ChangeDetail, Source, TransactionStatus
from ussd_server.values import written_amount

# A payment that could not be sent for this long fails: the client should not wait for a provider that is away.
UNREACHABLE_SECONDS = 60
UNAVAILABLE_RETRY_SECONDS = 5
# A payment under review for a silent provider is still queried: a late answer makes the decision unnecessary.
SLOW_POLL_SECONDS = 3600
_MOST_ASKS = 3


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A provider's answer to a call that began at `called_at` and is applied at `now`.

    `source` is why the provider was called, `detail` what the payment's history says of the call.
    """

    answer: ProviderAnswer
    schedule: PollingSchedule
    source: Source
    called_at: datetime
    now: datetime
    detail: ChangeDetail

    @property
    def next_check_at(self) -> datetime:
        """When the provider is queried once more, if this answer is a failure."""
        return self.now + timedelta(seconds=self.schedule.late_check_after)


def apply_to_row(row: Transaction, call: AnsweredCall, receipts: ReceiptWriter) -> None:
    """Apply an answer to a transaction that has not succeeded. In a unit of work, with the row locked; saves no row."""
    answer, now = call.answer, call.now
    if is_corrected(row):
        row.due_at = None
        return
    if has_left_name(row):
        row.due_at = row.provider_transaction_id = None
        return
    match answer.outcome:
        case Outcome.SUCCEEDED if answer.amount_cents not in (None, row.amount_cents):
            assert answer.amount_cents is not None
            row.due_at = None
            outcomes.open_review(row, outcomes.REVIEW_AMOUNT.format(written_amount(answer.amount_cents)), now)
        case Outcome.SUCCEEDED:
            way = WayIn.CALLBACK if call.source is Source.CALLBACK else WayIn.ENQUIRY
            outcomes.succeed(row, call.source, now, receipts, call.detail, way)
        case _ if row.status == TransactionStatus.FAILED:
            # An answer to an earlier call proves nothing about a failure that was reported later.
            if call.called_at > row.completed_at:
                _apply_after_failure(row, call.schedule, answer, now)
        case _ if answer.is_about_another or answer.amount_cents not in (None, row.amount_cents):
            # The database lost this payment, and it was created again with another content.
            _wait_on(row, TransactionStatus.AMBIGUOUS, call)
            row.due_at = None
            outcomes.open_review(row, outcomes.REVIEW_ANOTHER, now)
        case Outcome.FAILED:
            assert answer.failure is not None
            outcomes.fail(row, answer.failure, call.source, now, call.detail, call.next_check_at)
        case Outcome.PENDING:
            _wait_on(row, TransactionStatus.PENDING, call)
        case Outcome.NOT_SENT if row.status == TransactionStatus.SUBMITTED:
            _after_not_sent(row, call)
        case Outcome.NOT_SENT:
            # An earlier request may have left: query the status; in the end the payment goes to review.
            row.ask_attempts -= 1
            _wait_on(row, TransactionStatus.AMBIGUOUS, call)
        case Outcome.NOT_FOUND if _is_lost(row, call):
            # The provider never received it, so sending it again under the same reference cannot pay twice.
            _wait_on(row, TransactionStatus.AMBIGUOUS, call)
            if row.ask_attempts < _MOST_ASKS and outcomes.is_left_to_provider(row):
                # Without `asked_at` the next step sends the request instead of a status query.
                row.asked_at, row.due_at = None, now
        case Outcome.NOT_FOUND if row.status == TransactionStatus.PENDING:
            # A provider may not find a payment that it has just accepted.
            _wait_on(row, TransactionStatus.PENDING, call)
        case _:
            _wait_on(row, TransactionStatus.AMBIGUOUS, call)


def waits_since(row: Transaction) -> datetime:
    """Return since when a transaction waits for its provider: since its creation, or its sending in a payout.

    A row of a payout may be in the queue for days before it is sent.
    """
    sent_at: datetime | None = row.asked_at if row.payout_id is not None else None
    return sent_at or row.created_at


def _wait_on(row: Transaction, status: TransactionStatus, call: AnsweredCall) -> None:
    """Query the status again when its schedule says; after `give_up_after` seconds an operator must review it."""
    schedule, now = call.schedule, call.now
    is_silent_for_long = now - waits_since(row) > timedelta(seconds=schedule.give_up_after)
    # `checks` counts the call that was just answered, so it is 1 at least.
    delay = schedule.delays[min(row.checks, len(schedule.delays)) - 1]
    if is_silent_for_long:
        delay = max(delay, SLOW_POLL_SECONDS)
    # Up to a tenth earlier or later, so that payments created together are not queried together.
    later = now + timedelta(seconds=delay * random.uniform(0.9, 1.1))  # noqa: S311
    row.due_at = None if call.answer.has_no_query else later
    if row.status != status:
        row.status = status
        append_change(row, call.source, now, call.detail)
    if is_silent_for_long or call.answer.has_no_query:
        outcomes.open_review(row, outcomes.REVIEW_SILENT, now)


def _after_not_sent(row: Transaction, call: AnsweredCall) -> None:
    """No request ever left: retry soon, and fail after UNREACHABLE_SECONDS. A row of a payout waits on."""
    row.asked_at = row.sent_to = None
    row.ask_attempts -= 1
    has_waited = call.now - row.created_at > timedelta(seconds=UNREACHABLE_SECONDS)
    if has_waited and row.payout_id is None:
        # If the database lost this payment once, it may have been sent under the same reference: query it.
        outcomes.fail(row, FailureCode.PROVIDER_UNAVAILABLE, call.source, call.now, call.detail, call.next_check_at)
    else:
        pause = UNREACHABLE_SECONDS if has_waited else UNAVAILABLE_RETRY_SECONDS
        row.due_at = call.now + timedelta(seconds=pause)


def _apply_after_failure(row: Transaction, schedule: PollingSchedule, answer: ProviderAnswer, now: datetime) -> None:
    """Apply the answer to a status query after a failure: confirmed, retracted, or unknown."""
    outcome = Outcome.NOT_FOUND if answer.has_no_query else answer.outcome
    late_check_at = row.completed_at + timedelta(seconds=schedule.late_check_after)
    is_early = now - row.completed_at < timedelta(seconds=schedule.give_up_after)
    is_retracted = row.review_reason == outcomes.REVIEW_RETRACTED and row.review_closed_at is None
    # A row of a payout is paid again only after its provider has confirmed the failure.
    is_awaited = is_early or is_retracted or row.payout_id is not None
    if outcome is Outcome.PENDING or (outcome is Outcome.UNKNOWN and is_awaited):
        row.due_at = now + timedelta(seconds=schedule.late_check_after if is_early else SLOW_POLL_SECONDS)
        if outcome is Outcome.PENDING:
            # The reservation was released already, and the money may still move: open a review.
            outcomes.open_review(row, outcomes.REVIEW_RETRACTED, now)
    else:
        # A callback may have brought this query forward; the scheduled one is made as well.
        row.due_at = late_check_at if now < late_check_at else None
        outcomes.close_review(row, outcomes.REVIEW_RETRACTED, now)


def _is_lost(row: Transaction, call: AnsweredCall) -> bool:
    """Whether the provider still did not know the payment so long after the request that it never got it."""
    asked_at: datetime | None = row.asked_at
    lost_after = timedelta(seconds=call.schedule.not_found_means_lost_after)
    return asked_at is not None and call.called_at - asked_at >= lost_after


def detail_of(row: Transaction, answer: ProviderAnswer, source: Source, took_ms: int | None) -> ChangeDetail:
    """Return the details of a call that the status history stores."""
    return ChangeDetail(
        attempt=row.ask_attempts,
        sent="payment" if source is Source.SUBMIT else "status_query",
        left_machine=answer.left_machine and answer.outcome is not Outcome.NOT_SENT,
        provider_code=answer.reason or None,
        code=str(answer.failure or answer.outcome).upper(),
        took_ms=took_ms,
    )
