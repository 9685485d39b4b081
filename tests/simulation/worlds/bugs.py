"""Bugs that are planted to see whether the simulation finds them: each takes one safeguard out of the program."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from peewee import OperationalError

from tests.simulation.worlds.money_bugs import MONEY_BUGS
from ussd_server.database import sqlite
from ussd_server.models.statements import StatementCoverage
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.accounts import ledger
from ussd_server.services.bank.settlements import BankSettlementService
from ussd_server.services.gates import sending
from ussd_server.services.gates.movements import UseOutcome, UseResult
from ussd_server.services.gates.sending import SendingGate
from ussd_server.services.payouts import attempts, rounds
from ussd_server.services.payouts.approval import approval, withdrawals
from ussd_server.services.processing import outcomes, processor
from ussd_server.services.processing.processor import PaymentProcessor
from ussd_server.services.processing.provider_answers import AnsweredCall, apply_to_row
from ussd_server.services.reconciliation import closed_days
from ussd_server.services.reconciliation.days.coverage import Coverage
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.services.transactions.history import batch_of
from ussd_server.services.transactions.provider_references import ProviderReferences
from ussd_server.services.webhooks import deliveries, relay
from ussd_server.status import Code, ServiceError

Plant = Callable[[], Any]


def _reference_drawn_at_random() -> Any:
    """The name of a payment at its provider is drawn anew for each request."""

    def of_request(self: ProviderReferences, identity: Any) -> str:
        return str(uuid.UUID(bytes=random.randbytes(16), version=4))

    return patch.object(ProviderReferences, "of_request", of_request)


def _answers_read_as(outcome: Outcome, answer: ProviderAnswer) -> Plant:
    """One kind of answer of the provider is taken for another."""

    def plant() -> Any:
        def read_wrong(row: Any, call: AnsweredCall, receipts: Any) -> None:
            is_meant = call.answer.outcome is outcome
            apply_to_row(row, replace(call, answer=answer) if is_meant else call, receipts)

        return patch.object(processor, "apply_to_row", read_wrong)

    return plant


def _failure_is_final() -> Any:
    """Nothing is enquired after a failure."""
    apply_answer = PaymentProcessor.apply_answer

    def without_late_check(self: PaymentProcessor, transaction_id: str, schedule: Any, *rest: Any) -> None:
        apply_answer(self, transaction_id, replace(schedule, late_check_after=0.0), *rest)

    return patch.object(PaymentProcessor, "apply_answer", without_late_check)


def _lease_outlives_its_call() -> Any:
    """A lease lasts for ever, and no worker takes over from a dead one."""
    return _together(
        patch.object(processor, "_LEASE_SECONDS", 10**7),
        patch("ussd_server.services.operations.heartbeat.Heartbeat.take_over", lambda self: 0),
    )


def _answered_without_a_commit() -> Any:
    """A payment is answered although the database failed."""
    insert = TransactionCreator._insert

    def answer_anyway(self: TransactionCreator, draft: Any, source: Any, within: Any) -> Any:
        try:
            return insert(self, draft, source, within)
        except OperationalError:
            return batch_of(draft, source)[1]

    return patch.object(TransactionCreator, "_insert", answer_anyway)


def _silence_of_a_receiver_counts_as_taken() -> Any:
    """A webhook that was not answered is not sent again."""
    apply_answer = deliveries.DeliveryService._apply_answer

    def believe(self: Any, sent: Any, headers: Any, exchange: Any) -> None:
        apply_answer(self, sent, headers, replace(exchange, status=exchange.status or 200))

    return patch.object(deliveries.DeliveryService, "_apply_answer", believe)


def _refunds_under_way_do_not_count() -> Any:
    """A refund may give back what another one that is under way gives back already."""
    from ussd_server.models.transactions import Transaction
    from ussd_server.services.transactions import refunds

    return patch.object(refunds, "_IS_GIVEN_BACK", Transaction.status == "succeeded")


def _reservation_is_kept() -> Any:
    """A payment that fails keeps its money reserved."""
    fail = outcomes.fail

    def without_release(row: Any, *rest: Any, **more: Any) -> None:
        with patch.object(ledger, "holds_of", lambda _: []):
            fail(row, *rest, **more)

    return patch.object(outcomes, "fail", without_release)


def _receipts_are_not_claimed() -> Any:
    """What another payment was booked with does not matter."""
    return patch.object(outcomes, "use_for", lambda row, way, now: UseResult(UseOutcome.COUNTS))


def _menus_pay_beyond_limits() -> Any:
    """A menu pays whatever its publisher may."""
    return _together(
        patch.object(SendingGate, "require_publishable", lambda self, node, context: None),
        patch.object(SendingGate, "fault_of_publisher", lambda self, client_id, menu: None),
    )


def _payouts_have_no_limit() -> Any:
    """A payout does not know the daily limit of the key that approved it, nor do the database and the gate."""
    return _together(
        patch.object(sending, "_is_over_limit", lambda row, key: False),
        patch.object(approval, "limiting_key", lambda key_ids: (None, None)),
        patch.object(sqlite, "_OVERSPENT", "SELECT 1 WHERE ? IS NULL"),
    )


def _revocation_is_for_new_calls() -> Any:
    """What a revoked key or person has sent before leaves when it is due, and its approvals stand."""
    return _together(
        patch.object(withdrawals, "_withdraw", lambda row, *rest: None),
        patch.object(SendingGate, "fault_of", lambda self, row: None),
        patch.object(SendingGate, "require_due", lambda self, payout: self.require_open()),
    )


def _rows_are_retried_in_doubt() -> Any:
    """A row is retried although its provider may still take its failure back."""
    return patch.object(rounds, "retry_at", lambda attempt: None)


def _names_count_what_was_never_sent() -> Any:
    """An attempt that was never sent, as far as the database knows, has used its name up."""
    return patch.object(
        attempts, "_names_of", lambda payout, rows: {row.line: attempts._Name(row.attempt) for row in rows}
    )


def _late_successes_count() -> Any:
    """A success that is reported late counts, whatever became of the next attempt."""
    return patch.object(outcomes, "late_success", lambda row: attempts.LateSuccess.COUNTS)


def _earlier_attempts_are_forgotten() -> Any:
    """A row that is about to be sent is not compared with its earlier attempts."""
    return _together(
        patch.object(attempts, "paid_lines", lambda payout_id, lines: set()),
        patch.object(approval, "paid_lines", lambda payout_id, lines: set()),
        patch.object(sending, "other_attempts", lambda row: []),
    )


def _a_line_covers_its_day() -> Any:
    """A statement with one line of a day covers it."""

    def coverage_of(account: str, begin: Any, end: Any) -> Coverage | None:
        rows = StatementCoverage.select().where(
            StatementCoverage.account == account, StatementCoverage.first_at < end, StatementCoverage.last_at >= begin
        )
        names = sorted({row.statement_id for row in rows})
        return Coverage(tuple(names), begin, end) if names else None

    return patch.object(closed_days, "coverage_of", coverage_of)


def _forgotten_settlements_stay_forgotten() -> Any:
    """What the bank paid of a settlement that the database forgot is in no book."""

    def refuse(self: BankSettlementService, line: Any, *rest: Any) -> Any:
        raise ServiceError(Code.INVALID_REQUEST, f"Line {line.line}: no such settlement")

    return patch.object(BankSettlementService, "_book_forgotten", refuse)


def _no_transaction(*modules: Any) -> Plant:
    """Statements that belong together are committed one by one."""
    return lambda: _together(*(patch.object(module, "unit_of_work", nullcontext) for module in modules))


@contextmanager
def _together(*patches: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


_FAILED = ProviderAnswer(Outcome.FAILED, FailureCode.PROVIDER_ERROR)
_NOT_SENT = ProviderAnswer(Outcome.NOT_SENT)
_SUCCEEDED = ProviderAnswer(Outcome.SUCCEEDED)
BUGS: dict[str, tuple[str, Plant]] = {
    "reference-at-random": ("a payment's name at its provider is drawn at random", _reference_drawn_at_random),
    "silence-is-failure": ("silence counts as failure", _answers_read_as(Outcome.UNKNOWN, _FAILED)),
    "silence-is-not-sent": ("silence counts as never sent", _answers_read_as(Outcome.UNKNOWN, _NOT_SENT)),
    "not-found-is-failure": ("`not found` counts as failure", _answers_read_as(Outcome.NOT_FOUND, _FAILED)),
    "pending-is-success": ("an accepted payment counts as paid", _answers_read_as(Outcome.PENDING, _SUCCEEDED)),
    "skipped-enquiry": ("nothing is enquired after a failure", _failure_is_final),
    "endless-lease": ("a lease outlives its worker, and no other takes over", _lease_outlives_its_call),
    "answer-before-commit": ("a payment is answered although its commit failed", _answered_without_a_commit),
    "silent-receiver": ("a webhook without an answer counts as taken", _silence_of_a_receiver_counts_as_taken),
    "refund-twice": ("refunds under way do not count against the collection", _refunds_under_way_do_not_count),
    "kept-reservation": ("a failed payment keeps its money reserved", _reservation_is_kept),
    "torn-settlement": ("an outcome is written without a transaction", _no_transaction(processor)),
    "torn-relay": ("deliveries are made without a transaction", _no_transaction(relay)),
    "unwritten-receipt": ("a success writes no receipt", _receipts_are_not_claimed),
    "menu-beyond-limit": ("a menu pays beyond the rights of its publisher", _menus_pay_beyond_limits),
    "limit-forgotten": ("a payout forgets the daily limit of its key", _payouts_have_no_limit),
    "revoked-and-sent": ("what a revoked sender has recorded still leaves", _revocation_is_for_new_calls),
    "forgotten-settlement": ("a settlement that a restore forgot is not booked", _forgotten_settlements_stay_forgotten),
    "retried-in-doubt": ("a row is retried before its failure is certain", _rows_are_retried_in_doubt),
    "name-used-up": ("an attempt that was never sent uses its name up", _names_count_what_was_never_sent),
    "late-and-counted": ("a late success counts beside the next attempt", _late_successes_count),
    "forgotten-attempts": ("a row is sent whatever became of its earlier attempts", _earlier_attempts_are_forgotten),
    "one-line-day": ("one line of a statement covers its day", _a_line_covers_its_day),
} | MONEY_BUGS


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug for a while."""
    with BUGS[name][1]():
        yield
