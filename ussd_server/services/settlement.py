"""Settlement: asks companies to move money, hears what became of it, and concludes. Every step may be repeated.

A transaction is claimed with a lease, asked about outside every database transaction, and concluded in one. After any
crash the lease runs out and the next worker goes on from what the row says: `asked_at` null means that certainly nothing
was sent, anything else that the company may have it and is enquired first.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from ussd_server.messages.providers import Answer, Direction, FailureCode, Outcome, Pace, Payment
from ussd_server.messages.transactions import Source, TransactionStatus, TransactionType
from ussd_server.models.base import for_update, is_postgres, unit_of_work
from ussd_server.models.transactions import Transaction
from ussd_server.rpc.clock import Clock
from ussd_server.services.ledger import (
    AMOUNT,
    FEE,
    FEES_ACCOUNT,
    PROVIDER_ACCOUNT,
    SHORTFALL_ACCOUNT,
    Leg,
    available_cents,
    end_holds,
    holds_of,
    open_account,
    write_entry,
)
from ussd_server.services.providers import Providers
from ussd_server.services.story import announce, tell

LEASE_SECONDS = 60
_PROVIDER_TIMEOUT_SECONDS = 20.0
_MOST_ASKS = 3
# A company that cannot even be reached for this long has certainly not got the payment.
_UNREACHABLE_SECONDS = 60
_WAITS_FOR_A_COMPANY_SECONDS = 5
_UNFINISHED = (TransactionStatus.CREATED, TransactionStatus.SUBMITTED, TransactionStatus.PENDING,
               TransactionStatus.AMBIGUOUS)  # fmt: skip
_DIRECTIONS = {
    TransactionType.COLLECTION: Direction.COLLECTION,
    TransactionType.DISBURSEMENT: Direction.DISBURSEMENT,
    TransactionType.REFUND: Direction.REFUND,
}

REVIEW_LATE = "the company reported success after it had reported failure"
REVIEW_AMOUNT = "the company moved another amount than was asked"
REVIEW_SILENT = "nobody could confirm the outcome in time"
REVIEW_CONTRADICTION = "the company reported failure after it had reported success"


class Settlement:
    """Moves transactions from recorded to final."""

    def __init__(
        self,
        providers: Providers,
        clock: Clock,
        within_pace: Callable[[str], bool],
        at_kill_point: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`within_pace` tells whether one more call to a company fits its rate; `at_kill_point` serves fault tests."""
        self._providers = providers
        self._clock = clock
        self._within_pace = within_pace
        self._at_kill_point = at_kill_point

    def claim(self, limit: int) -> list[str]:
        """Lease up to `limit` transactions that are due, oldest first, to this caller; give their ids."""
        now = self._clock.now()
        due = (Transaction.due_at <= now) & (Transaction.leased_until.is_null() | (Transaction.leased_until < now))
        if not Transaction.select(Transaction.id).where(due).limit(1).exists():
            return []
        chosen = Transaction.select(Transaction.id).where(due).order_by(Transaction.due_at).limit(limit)
        if is_postgres():
            chosen = chosen.for_update("FOR NO KEY UPDATE SKIP LOCKED")
        with unit_of_work():
            ids = [row.id for row in chosen]
            Transaction.update(
                leased_until=now + timedelta(seconds=LEASE_SECONDS), lease_token=secrets.token_hex(8)
            ).where(Transaction.id.in_(ids)).execute()
        return ids

    def advance(self, transaction_id: str) -> None:
        """Take one claimed transaction one step on: ask its company, or enquire, and conclude from the answer."""
        row = Transaction.get_by_id(transaction_id)
        if row.due_at is None:
            return
        provider = self._providers.get(row.provider or "")
        if provider is None or not self._within_pace(provider.name):
            # Switched off while it was under way, or as many calls as the company takes: it keeps its turn.
            self._postpone(row, _WAITS_FOR_A_COMPANY_SECONDS)
            return
        if row.asked_at is None and row.status in _UNFINISHED:
            source, payment = Source.SUBMIT, self._about_to_ask(row)
            self._at_kill_point("ask.recorded")
            answer = provider.ask(payment, _PROVIDER_TIMEOUT_SECONDS)
            self._at_kill_point("ask.answered")
        else:
            source = Source(row.due_source)
            answer = provider.enquire(_payment(row), _PROVIDER_TIMEOUT_SECONDS)
            self._at_kill_point("enquiry.answered")
        self.conclude(transaction_id, provider.pace, answer, source, row.lease_token)
        self._at_kill_point("concluded")

    def bring_forward(self, provider_reference: str) -> bool:
        """Let the next enquiry about a payment happen now, because its company called. True when there is one to make."""
        now = self._clock.now()
        hurried: int = (
            Transaction.update(due_at=now, due_source=Source.CALLBACK, leased_until=None, lease_token=None)
            .where(
                Transaction.provider_reference == provider_reference,
                Transaction.status.in_([*_UNFINISHED, TransactionStatus.FAILED]),
                Transaction.asked_at.is_null(False),
            )
            .execute()
        )
        return hurried > 0

    def conclude(
        self, transaction_id: str, pace: Pace, answer: Answer, source: Source, lease_token: str | None = None
    ) -> None:
        """Write down what an answer proves: state, money and event in one unit of work. The same answer twice is once.

        `lease_token` is the one under which the company was asked. Where it is gone, a callback came meanwhile, or
        another worker took over: unless the answer is final, whatever they arranged for the next look stays.
        """
        with unit_of_work():
            row = for_update(Transaction.select().where(Transaction.id == transaction_id)).get()
            now = self._clock.now()
            arranged = {name: getattr(row, name) for name in ("due_at", "due_source", "leased_until", "lease_token")}
            row.leased_until = row.lease_token = None
            row.due_source = Source.POLL
            row.checks += 1
            row.updated_at = now
            if answer.provider_transaction_id:
                row.provider_transaction_id = answer.provider_transaction_id
            if row.status in _UNFINISHED or row.status == TransactionStatus.FAILED:
                self._take(row, pace, answer, source, now)
            else:
                row.due_at = None
                if answer.outcome is Outcome.FAILED:
                    self._open_review(row, REVIEW_CONTRADICTION, now)
            if arranged["lease_token"] != lease_token and row.due_at is not None:
                row.__data__.update(arranged)
            row.save()

    def _about_to_ask(self, row: Transaction) -> Payment:
        """Commit that a request is about to leave, so that whatever happens next is known to be possible."""
        with unit_of_work():
            now = self._clock.now()
            row.asked_at = now
            row.ask_attempts += 1
            if row.status == TransactionStatus.CREATED:
                row.status, row.updated_at = TransactionStatus.SUBMITTED, now
                tell(row, Source.SUBMIT, now)
            row.save(only=[Transaction.asked_at, Transaction.ask_attempts, Transaction.status, Transaction.updated_at])
        return _payment(row)

    def _take(self, row: Transaction, pace: Pace, answer: Answer, source: Source, now: datetime) -> None:
        """The table of what each answer does to a transaction that has not succeeded."""
        had_failed = row.status == TransactionStatus.FAILED
        match answer.outcome:
            case Outcome.SUCCEEDED if answer.amount_cents not in (None, row.amount_cents):
                row.due_at = None
                self._open_review(row, REVIEW_AMOUNT, now)
            case Outcome.SUCCEEDED:
                self.succeed(row, source, now, answer.word)
            case _ if had_failed:
                # The one more look after a failure found nothing new.
                row.due_at = None
            case Outcome.FAILED:
                assert answer.failure is not None
                self.fail(row, answer.failure, source, now, answer.word)
                row.due_at = now + timedelta(seconds=pace.late_check_after)
            case Outcome.PENDING:
                self._wait_on(row, TransactionStatus.PENDING, pace, source, now, answer.word)
            case Outcome.NOT_SENT:
                self._after_not_sent(row, source, now)
            case Outcome.NOT_FOUND if _is_lost(row, pace, now):
                # The company never got it, so it may be asked again under the same name without a second effect.
                self._wait_on(row, TransactionStatus.AMBIGUOUS, pace, source, now, answer.word)
                if row.ask_attempts < _MOST_ASKS:
                    row.asked_at, row.due_at = None, now
            case _:
                self._wait_on(row, TransactionStatus.AMBIGUOUS, pace, source, now, answer.word)

    def succeed(self, row: Transaction, source: Source, now: datetime, detail: str | None = None) -> None:
        """Call a transaction succeeded and move its money. Call inside a unit of work, with the row locked."""
        row.late = row.status == TransactionStatus.FAILED
        if row.type == TransactionType.COLLECTION:
            legs = _legs_of_collection(row, now)
        else:
            legs = end_holds(holds_of(row.id), "post") or _legs_without_hold(row, now)
        write_entry(row.client_id, row.id, legs, now)
        row.status, row.failure_code, row.completed_at, row.due_at = TransactionStatus.SUCCEEDED, None, now, None
        row.save()
        tell(row, source, now, detail)
        if row.late:
            self._open_review(row, REVIEW_LATE, now)
        if row.type == TransactionType.REFUND:
            _reverse_when_given_back(row.refund_of, source, now)

    def fail(self, row: Transaction, why: FailureCode, source: Source, now: datetime, detail: str | None = None) -> None:
        """Call a transaction failed and release its money. Call inside a unit of work, with the row locked."""
        holds = holds_of(row.id)
        if holds:
            write_entry(row.client_id, row.id, end_holds(holds, "void"), now)
        row.status, row.failure_code, row.completed_at, row.due_at = TransactionStatus.FAILED, why, now, None
        row.save()
        tell(row, source, now, detail)

    def _wait_on(
        self, row: Transaction, status: TransactionStatus, pace: Pace, source: Source, now: datetime, detail: str
    ) -> None:
        """Keep asking, in the company's pace; when nobody could tell for long enough, a person looks at it."""
        if row.status != status:
            row.status = status
            row.save(only=[Transaction.status])
            tell(row, source, now, detail)
        if now - row.created_at > timedelta(seconds=pace.give_up_after):
            self._open_review(row, REVIEW_SILENT, now)
            row.due_at = None
            return
        delay = pace.delays[min(row.checks, len(pace.delays)) - 1]
        # A tenth earlier or later, so that many payments of one moment do not ask in one moment again.
        row.due_at = now + timedelta(seconds=delay * random.uniform(0.9, 1.1))  # noqa: S311

    def _after_not_sent(self, row: Transaction, source: Source, now: datetime) -> None:
        """The request provably never left. Try again soon; when no request ever left, that is a definite failure."""
        if row.status == TransactionStatus.SUBMITTED and now - row.created_at > timedelta(seconds=_UNREACHABLE_SECONDS):
            self.fail(row, FailureCode.PROVIDER_UNAVAILABLE, source, now)
            return
        if source is Source.SUBMIT:
            row.asked_at = None
            row.ask_attempts -= 1
        row.due_at = now + timedelta(seconds=_WAITS_FOR_A_COMPANY_SECONDS)

    def _open_review(self, row: Transaction, reason: str, now: datetime) -> None:
        if row.review_opened_at is None:
            row.review_reason, row.review_opened_at = reason, now
            announce(row, "transaction.needs_review", now)

    def _postpone(self, row: Transaction, seconds: float) -> None:
        Transaction.update(
            due_at=self._clock.now() + timedelta(seconds=seconds), leased_until=None, lease_token=None
        ).where(Transaction.id == row.id).execute()


def _payment(row: Transaction) -> Payment:
    assert row.provider_reference is not None and row.phone_number is not None, "only what has a company is asked about"
    original = Transaction.get_by_id(row.refund_of) if row.refund_of else None
    return Payment(
        transaction_id=row.id,
        provider_reference=row.provider_reference,
        direction=_DIRECTIONS[TransactionType(row.type)],
        phone_number=row.phone_number,
        amount_cents=row.amount_cents,
        currency=row.currency,
        note=row.description or "",
        asked_at=row.asked_at,
        original_provider_reference=original.provider_reference if original else None,
        original_provider_transaction_id=original.provider_transaction_id if original else None,
    )


def _is_lost(row: Transaction, pace: Pace, now: datetime) -> bool:
    asked_at: datetime | None = row.asked_at
    return asked_at is not None and now - asked_at >= timedelta(seconds=pace.not_found_means_lost_after)


def _legs_of_collection(row: Transaction, now: datetime) -> list[Leg]:
    """What a collection moves: the amount into the client's account, and its fee out of that."""
    company = open_account(row.client_id, PROVIDER_ACCOUNT.format(row.provider), now)
    payee = open_account(row.client_id, row.account, now)
    legs = [Leg("move", AMOUNT, company, payee, row.amount_cents)]
    if row.fee_cents:
        legs.append(Leg("move", FEE, payee, open_account(row.client_id, FEES_ACCOUNT, now), row.fee_cents))
    return legs


def _legs_without_hold(row: Transaction, now: datetime) -> list[Leg]:
    """What left although its reservation had been released: from the account if it can pay, else as a shortfall."""
    payer = open_account(row.client_id, row.account, now)
    if available_cents(payer) < row.amount_cents + row.fee_cents:
        payer = open_account(row.client_id, SHORTFALL_ACCOUNT, now)
    legs = [
        Leg("move", AMOUNT, payer, open_account(row.client_id, PROVIDER_ACCOUNT.format(row.provider), now),
            row.amount_cents)
    ]  # fmt: skip
    if row.fee_cents:
        legs.append(Leg("move", FEE, payer, open_account(row.client_id, FEES_ACCOUNT, now), row.fee_cents))
    return legs


def _reverse_when_given_back(original_id: str, source: Source, now: datetime) -> None:
    """Call a collection reversed once its succeeded refunds have given all of it back."""
    original = for_update(Transaction.select().where(Transaction.id == original_id)).get()
    refunds = Transaction.select(Transaction.amount_cents).where(
        Transaction.refund_of == original_id, Transaction.status == TransactionStatus.SUCCEEDED
    )
    if original.status == TransactionStatus.SUCCEEDED and (
        sum(refund.amount_cents for refund in refunds) >= original.amount_cents
    ):
        original.status, original.updated_at = TransactionStatus.REVERSED, now
        original.save(only=[Transaction.status, Transaction.updated_at])
        tell(original, source, now)

