"""Advance payments: claim one that is due, send it or query its status, apply the outcome. Every step may be repeated.

A worker claims rows with a lease, calls the provider while no database transaction is open, and writes the result in
one unit of work. After a crash the lease ends (`services/leases.py`), and the next worker continues from the row.

`asked_at` null means that certainly nothing was sent. Otherwise the provider may have the payment: query the
provider before sending again; a payment that it never received becomes null again (`provider_answers.py`). Only one
worker sets `asked_at`, under the row's lock, and that worker sends; any other queries. Each payment has one
`provider_reference`, by which the provider refuses a second request. That holds at one place: a payment is queried and
sent again only where it was first sent (`sent_to`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.logs import Logger, now_about, trace_of
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.http.replies import is_cause
from ussd_server.providers.messages import Direction, Outcome, PaymentOrder, PollingSchedule, Provider, ProviderAnswer
from ussd_server.services.gates.messages import WayIn
from ussd_server.services.gates.movements import learn_receipt
from ussd_server.services.gates.sending import SendingGate
from ussd_server.services.leases import end_lease, is_due, release, still_leased
from ussd_server.services.payouts.attempts import has_left_name
from ussd_server.services.payouts.holds import release_unsent
from ussd_server.services.processing.earlier_places import EarlierPlaces
from ussd_server.services.processing.orders import payment_order, sent_reference
from ussd_server.services.processing.outcomes import (
    REVIEW_CONTRADICTION,
    REVIEW_ELSEWHERE,
    close_review,
    fail,
    is_left_to_provider,
    open_review,
)
from ussd_server.services.processing.provider_answers import (
    SLOW_POLL_SECONDS,
    UNAVAILABLE_RETRY_SECONDS,
    UNREACHABLE_SECONDS,
    AnsweredCall,
    apply_to_row,
    detail_of,
    waits_since,
)
from ussd_server.services.runtime import Runtime
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.history import append_change
from ussd_server.services.transactions.messages import (
    SUCCESSFUL,
    UNFINISHED,
    ChangeDetail,
    Source,
    TransactionStatus,
)

log = Logger(__name__)

_LEASE_SECONDS = 60
# How long this process pauses calls to a provider whose rate is used up. `due_at` stays, and with it the order.
_RATE_PAUSE_SECONDS = 0.25
# How long a payment waits for a place that the settings no longer have, before operators decide.
_WAIT_FOR_PLACE_SECONDS = 600
# How often a payment in review is tried again, in case the settings have its place again.
_LOOK_FOR_PLACE_SECONDS = 60
_WAIT_FOR_FAILED_SECONDS = 7200
_ASKED = ("asked_at", "ask_attempts", "provider_account", "sent_reference", "sent_to", "status", "updated_at")
# The columns that `apply_answer` leaves as they are when another worker or a callback has set them during the call.
_NEXT_STEP = ("asked_at", "due_at", "due_source", "leased_until", "lease_token")


class PaymentProcessor:
    """Advances transactions from created to final."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._providers, self._leases = runtime.clock, runtime.providers, runtime.leases
        self._within_rate, self._count_call = runtime.within_rate, runtime.heartbeat.count_call
        self._at_kill_point = runtime.at_kill_point
        self._gate, self._receipts = SendingGate(runtime), ReceiptWriter(runtime)
        self._earlier_places = EarlierPlaces(runtime)
        self._timeout_seconds = runtime.settings.provider_timeout_seconds
        self._paused_until: dict[str, datetime] = {}
        # Half of the threads: the other half stays free for other providers while one of them hangs.
        self._share = max(1, runtime.settings.worker_threads // 2)
        self._under_way: dict[str, Transaction] = {}

    def claim(self, limit: int) -> list[Transaction]:
        """Lease up to `limit` transactions that are due, oldest first, to this caller."""
        self._earlier_places.note()
        now = self._clock.now()
        due, room = is_due(Transaction, now), self._room(now)
        full = {name for name, count in room.items() if count <= 0}
        paused = full | {name for name, until in self._paused_until.items() if now < until}
        for connection in self._providers.connections:
            if connection.connection in paused:
                due &= ~self._is_of(connection)
        if self._gate.is_held:
            # Query payments that may have been sent; send nothing.
            due &= Transaction.asked_at.is_null(False)
        # Not even if all of them were of the provider that has the least room.
        limit = min([limit, *(count for name, count in room.items() if name not in full)])
        rows = Transaction.select().where(due).order_by(Transaction.due_at).limit(limit)
        claimed = self._leases.claim(rows, _LEASE_SECONDS)
        self._under_way |= {row.id: row for row in claimed}
        return claimed

    def _room(self, now: datetime) -> dict[str, int]:
        """How many more payments of each connection may be advanced in this process. One alone may use every thread."""
        if len(self._providers.connections) < 2:
            return {}
        # A copy: other threads remove what they have advanced.
        under_way = [self._connection_of(row) for row in list(self._under_way.values()) if row.leased_until > now]
        return {each.connection: self._share - under_way.count(each) for each in self._providers.connections}

    def _is_of(self, connection: Provider) -> Any:
        """The condition that a payment was sent by a connection, or is to be."""
        places = sorted({connection.place(direction) for direction in Direction})
        is_its = Transaction.sent_to.in_(places)
        owners = self._providers.owners()
        if owners.of(connection.connection) is not None or self._providers.get(connection.name) is connection:
            is_its |= Transaction.sent_to.is_null() & owners.is_served(Transaction.client_id, connection)
        return (Transaction.provider == connection.name) & is_its

    def _connection_of(self, row: Transaction) -> Provider | None:
        """The connection that has a payment, or is to get it; a refund goes where its collection was made."""
        assert row.provider is not None, "only a payment with a provider is due"
        if row.sent_to is None and row.refund_of is not None:
            made_at = find_row(Transaction, row.refund_of).sent_to
            home = self._providers.of_payment(row.provider, made_at, Direction.COLLECTION) if made_at else None
            if home is not None and home.bounds[Direction.REFUND].enabled:
                return home
        return self._providers.of_payment(row.provider, row.sent_to, Direction(row.type), row.client_id)

    def advance(self, claimed: Transaction) -> None:
        """Advance a claimed transaction one step: send it or query its status, and apply the outcome.

        Does nothing when the lease of `claimed` has ended: another worker has the transaction, or will claim it.
        """
        try:
            self._advance(claimed)
        finally:
            self._under_way.pop(claimed.id, None)

    def _advance(self, claimed: Transaction) -> None:
        now_about(
            request_id=claimed.request_id,
            transaction_id=claimed.id,
            provider_reference=claimed.provider_reference,
            traceparent=claimed.traceparent,
        )
        provider = self._connection_of(claimed)
        if provider is None:
            self._wait_for_place(claimed)
            return
        earlier = self._earlier_places.asked_before(claimed, provider)
        if not all(self._within_rate(each.connection) for each in [provider, *earlier]):
            self._paused_until[provider.connection] = self._clock.now() + timedelta(seconds=_RATE_PAUSE_SECONDS)
            release(claimed)
            return
        self._at_kill_point("claimed")
        if any(self._is_left_to(each, claimed) for each in earlier):
            return
        with unit_of_work():
            row = still_leased(claimed)
            if row is None:
                return
            fault = self._gate.fault_of(row) if _may_be_sent(row) else None
            if fault is not None and _was_never_sent(row):
                self._cancel(row, fault)
                return
            # A payment that its provider did not find is not sent again either, if the gate refuses it now: it is
            # queried until operators decide.
            is_sent = fault is None and _may_be_sent(row)
            if is_sent:
                self._mark_asked(row, provider)
            elif has_left_name(row):
                row.change(due_at=None, leased_until=None, lease_token=None)
                self.bring_forward(row.provider_reference)
                return
            elif row.sent_to is None:
                row.change(provider_account=provider.account)
        payment = payment_order(row, provider)
        called_at = self._clock.now()
        if is_sent:
            source = Source.SUBMIT
            self._at_kill_point("send.recorded")
            answer, took_ms = self._call(provider, "ask", provider.send, payment)
            self._at_kill_point("send.answered")
        else:
            source = Source(row.due_source)
            answer, took_ms = self._call(provider, "enquire", provider.query_status, payment)
            self._at_kill_point("query.answered")
        self.apply_answer(row.id, provider.schedule, answer, source, called_at, row.lease_token, took_ms)
        self._at_kill_point("answer.applied")

    def _is_left_to(self, earlier: Provider, claimed: Transaction) -> bool:
        """Whether an earlier connection has a payment, which belongs to it from now on, or does not say."""
        called_at = self._clock.now()
        answer, took_ms = self._call(earlier, "enquire", earlier.query_status, payment_order(claimed, earlier))
        if answer.outcome is Outcome.NOT_FOUND or answer.has_no_query:
            return False
        if answer.outcome in (Outcome.UNKNOWN, Outcome.NOT_SENT) and not answer.is_about_another:
            self._wait_for_place(claimed)
            return True
        with unit_of_work():
            row = still_leased(claimed)
            if row is None:
                return True
            self._mark_asked(row, earlier)
        source = Source(row.due_source)
        self.apply_answer(row.id, earlier.schedule, answer, source, called_at, row.lease_token, took_ms)
        return True

    def _cancel(self, row: Transaction, fault: str) -> None:
        """Cancel a payment of which certainly nothing was sent, because the gate refuses it now. The row is locked."""
        now = self._clock.now()
        log.warning("a payment was not sent, because its sender was revoked", why=fault)
        end_lease(row)
        row.updated_at = now
        if row.payout_id is not None:
            release_unsent(row)
        # The database may have lost the commit of an earlier request under this reference: query the status once.
        check_at = now + timedelta(seconds=SLOW_POLL_SECONDS)
        fail(row, FailureCode.CANCELLED, Source.SUBMIT, now, ChangeDetail(note=fault), check_at)

    def _mark_asked(self, row: Transaction, provider: Provider) -> None:
        """Record that a provider is about to get the payment, or has it. The row is locked."""
        now = self._clock.now()
        row.sent_reference = sent_reference(row, provider)
        row.asked_at = row.updated_at = now
        if row.sent_to is None:
            row.provider_account = provider.account
        row.sent_to = provider.place(Direction(row.type))
        row.ask_attempts += 1
        if row.status == TransactionStatus.CREATED:
            row.status = TransactionStatus.SUBMITTED
            append_change(row, Source.SUBMIT, now, ChangeDetail(attempt=row.ask_attempts, sent="payment"))
        row.save(only=[getattr(Transaction, name) for name in _ASKED])

    def _call(
        self,
        provider: Provider,
        kind: str,
        send: Callable[[PaymentOrder, float], ProviderAnswer],
        payment: PaymentOrder,
    ) -> tuple[ProviderAnswer, int]:
        """Call a provider, count and log the call; return its answer and how long it took, in milliseconds."""
        began_at = time.monotonic()
        try:
            answer = send(payment, self._timeout_seconds)
        except Exception as error:
            # Do not raise it: the payment would be retried after every lease and never reach review.
            log.error("a provider's adapter raised an exception", provider=provider.name, error=trace_of(error))
            answer = ProviderAnswer(Outcome.UNKNOWN)
        took_ms = round((time.monotonic() - began_at) * 1000)
        if kind == "enquire" and answer.has_no_query:
            # No call was made.
            return answer, took_ms
        facts = {"provider": provider.connection, "kind": kind, "outcome": answer.outcome, "took_ms": took_ms}
        said = {"why": answer.reason} if answer.is_unclear or is_cause(answer.reason) else {}
        log.info("a provider was called", **facts, **said)
        self._count_call(provider.connection, kind, answer, took_ms)
        return answer, took_ms

    def apply_answer(
        self,
        transaction_id: str,
        schedule: PollingSchedule,
        answer: ProviderAnswer,
        source: Source,
        called_at: datetime,
        lease_token: str | None = None,
        took_ms: int | None = None,
    ) -> None:
        """Apply an answer: state, money and event in one unit of work. The same answer twice has one effect.

        `called_at` is when the call to the provider began. A slow worker may apply it long after, and "not found"
        proves nothing about a request that was sent after `called_at`.
        `lease_token` is the one under which the provider was called, None for a row without a lease. If the row's token
        is now different, another worker took over or a callback arrived. Then its `_NEXT_STEP` columns stay, unless
        this answer makes the payment final.
        `took_ms` is how long the call took, in milliseconds.
        """
        with unit_of_work():
            row = lock_row(Transaction, transaction_id)
            now = self._clock.now()
            detail = detail_of(row, answer, source, took_ms)
            is_overtaken = row.lease_token != lease_token
            next_step_before = {name: getattr(row, name) for name in _NEXT_STEP}
            completed_before = row.completed_at
            end_lease(row)
            # The settings have the place again, where the provider is queried as before.
            close_review(row, REVIEW_ELSEWHERE, now)
            row.due_source = Source.POLL
            row.checks += 1
            row.updated_at = now
            if answer.provider_transaction_id and row.status not in SUCCESSFUL:
                row.provider_transaction_id = answer.provider_transaction_id
            if answer.receipt:
                row.provider_receipt = answer.receipt
            if row.ask_attempts == 0 and row.status in UNFINISHED and answer.outcome is not Outcome.NOT_SENT:
                # The database has lost that the payment was sent.
                row.asked_at, row.ask_attempts = called_at, 1
            if row.status in UNFINISHED or row.status == TransactionStatus.FAILED:
                if answer.outcome is Outcome.NOT_SENT and (source is not Source.SUBMIT or is_overtaken):
                    # A status query that was not sent says nothing about the payment. Nor does a request that was not
                    # sent, if another worker may have sent its own since.
                    answer = ProviderAnswer(Outcome.UNKNOWN)
                call = AnsweredCall(answer, schedule, source, called_at, now, detail)
                apply_to_row(row, call, self._receipts)
            else:
                # Succeeded, or reversed since: nothing is left to query.
                row.due_at = None
                if answer.outcome is Outcome.SUCCEEDED and answer.provider_transaction_id:
                    self._learn_receipt(row, answer.provider_transaction_id, now)
                if answer.outcome is Outcome.FAILED:
                    open_review(row, REVIEW_CONTRADICTION, now)
            if is_overtaken and row.completed_at == completed_before:
                for name, value in next_step_before.items():
                    setattr(row, name, value)
            row.save()

    def _learn_receipt(self, row: Transaction, receipt: str, now: datetime) -> None:
        """Keep the receipt of a payment that succeeded without one, or open a review if other money has it."""
        if row.provider_transaction_id is None and (conflict := learn_receipt(row, receipt, WayIn.ENQUIRY, now)):
            open_review(row, conflict, now)

    def bring_forward(self, provider_reference: str) -> bool:
        """Make a payment's next status query due now, because its provider sent a callback. Returns whether it was not.

        Changes nothing for a reference that no payment has, and for a payment that succeeded, was never sent, or is due
        and not claimed.
        """
        now = self._clock.now()
        is_waiting = (
            (Transaction.provider_reference == provider_reference)
            & Transaction.status.in_([*UNFINISHED, TransactionStatus.FAILED])
            & Transaction.asked_at.is_null(False)
            & (Transaction.due_at.is_null() | (Transaction.due_at > now) | Transaction.leased_until.is_null(False))
        )
        if not Transaction.select(Transaction.id).where(is_waiting).exists():
            return False
        # The answer to a query under way may be older than the callback: end its lease, so that a second query follows.
        forward = Transaction.update(due_at=now, due_source=Source.CALLBACK, leased_until=None, lease_token=None)
        count: int = forward.where(is_waiting).execute()
        return count > 0

    def _wait_for_place(self, claimed: Transaction) -> None:
        """Handle a payment whose provider or place the settings do not have, or about which an earlier one is silent.

        One that was never sent fails after a while. One that was sent is neither queried nor sent elsewhere.
        """
        with unit_of_work():
            row = still_leased(claimed)
            if row is None:
                return
            now = self._clock.now()
            was_never_sent = _was_never_sent(row) and row.sent_to is None
            is_of_payout = row.payout_id is not None
            has_waited = now - waits_since(row) > timedelta(seconds=UNREACHABLE_SECONDS)
            if was_never_sent and is_of_payout and (fault := self._gate.fault_of(row)) is not None:
                self._cancel(row, fault)
                return
            end_lease(row)
            if row.status not in UNFINISHED:
                # A failure waits for the status query that confirms it.
                still_waits = now - row.completed_at < timedelta(seconds=_WAIT_FOR_FAILED_SECONDS)
                row.due_at = now + timedelta(seconds=SLOW_POLL_SECONDS) if still_waits or is_of_payout else None
            elif was_never_sent and not is_of_payout and has_waited:
                fail(
                    row,
                    FailureCode.PROVIDER_UNAVAILABLE,
                    Source.POLL,
                    now,
                    next_check_at=now + timedelta(seconds=SLOW_POLL_SECONDS),
                )
            else:
                row.due_at = now + timedelta(seconds=UNAVAILABLE_RETRY_SECONDS)
                # `updated_at` is when the provider was last called about it.
                if not was_never_sent and now - row.updated_at > timedelta(seconds=_WAIT_FOR_PLACE_SECONDS):
                    if not row.is_in_review:
                        open_review(row, REVIEW_ELSEWHERE, now)
                    row.due_at = now + timedelta(seconds=_LOOK_FOR_PLACE_SECONDS)
            row.save()


def _may_be_sent(row: Transaction) -> bool:
    """Whether a payment is to be sent: no earlier request may be on its way, it is not final and not under review."""
    return row.asked_at is None and row.status in UNFINISHED and is_left_to_provider(row)


def _was_never_sent(row: Transaction) -> bool:
    # An ambiguous payment whose `asked_at` is null was sent once, and its provider did not find it.
    return row.asked_at is None and row.status in (TransactionStatus.CREATED, TransactionStatus.SUBMITTED)
