"""Retries: the next round of a payout is a draft of some of its rows, which another person approves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from peewee import fn

from ussd_server.context import RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import long_unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.payouts import Payout, PayoutAttempt, PayoutItem, transaction_reference
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.ledger import agreed_fee, fee_cents
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.gates.sending import corrected_ids
from ussd_server.services.payouts.approval.approvers import caller_id, caller_people
from ussd_server.services.payouts.approval.digests import PayoutDigests, digest_of_items, validated_rows
from ussd_server.services.payouts.approval.withdrawals import require_still_allowed
from ussd_server.services.payouts.attempts import used_references
from ussd_server.services.payouts.drafts.drafts import require_ahead
from ussd_server.services.payouts.holds import write_fees
from ussd_server.services.payouts.messages import CreatedPayout, RetryPayout
from ussd_server.services.payouts.records import attempts_of, begin_draft, payout_view, retry_at, write_payout_event
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import MAKE, people_behind
from ussd_server.services.transactions.messages import TransactionStatus, TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds

_MOST_ROWS_NAMED = 10


class _Row(NamedTuple):
    """A row that may be in a round: what its next attempt costs, and why it may not be, or None."""

    line: int
    reference: str
    amount_cents: int
    next_attempt: int
    fault: str | None


class PayoutRounds:
    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._outbox = runtime.clock, runtime.mail_outbox
        self._digests = PayoutDigests(runtime.vault)

    def retry(self, payout: Payout, request: RetryPayout, context: RequestContext) -> CreatedPayout:
        """Open the next round of a payout, or answer the one that is open.

        Takes rows that failed for certain and rows that were cancelled unsent. Raises INVALID_REQUEST, naming rows,
        where one that is asked for is neither, or where there is none; for a payout that is not final yet, and one that
        was edited in the database.
        """
        with long_unit_of_work():
            lock_row(Client, payout.client_id)
            row, now = lock_row(Payout, payout.id), self._clock.now()
            require_still_allowed(MAKE, context, now)
            if row.round > 1 and row.completed_at is None:
                return CreatedPayout(payout_view(row), replayed=True)
            require_ahead(request.send_at, now)
            _require_final(row)
            self._require_as_approved(row)
            rows = _chosen(row, request.rows)
            self._open(row, rows, request, context)
        return CreatedPayout(payout_view(row), replayed=False)

    def _open(self, row: Payout, rows: Sequence[_Row], request: RetryPayout, context: RequestContext) -> None:
        now = self._clock.now()
        begin_draft(row, now)
        row.round += 1
        row.round_by, row.round_people = (
            caller_id(context),
            people_behind(row.client_id, caller_people(context)),
        )
        row.round_count, row.round_amount_cents = len(rows), sum(each.amount_cents for each in rows)
        row.completed_at = row.cancelled_at = row.cancel_note = row.withdrawn_at = row.withdrawal_reason = None
        row.send_at, row.updated_at = request.send_at, now
        next_attempt = PayoutAttempt.select(fn.COUNT(PayoutAttempt.number) + 1).where(
            PayoutAttempt.payout_id == PayoutItem.payout_id, PayoutAttempt.line == PayoutItem.line
        )
        of_round = (PayoutItem.payout_id == row.id) & PayoutItem.line.in_([each.line for each in rows])
        PayoutItem.update(round=row.round, attempt=next_attempt).where(of_round).execute()
        terms = agreed_fee(row.client_id, TransactionType.DISBURSEMENT)
        write_fees(row, {each.line: fee_cents(terms, each.amount_cents) for each in rows})
        row.items_digest = digest_of_items(validated_rows(row.id))
        row.draft_digest = self._digests.of_draft(row)
        row.save()
        write_payout_event(row, "payout.needs_approval", self._outbox, now)
        write_audit_event("payout.retried", context, now, client_id=row.client_id, object_id=row.id)

    def _require_as_approved(self, row: Payout) -> None:
        if row.items_digest != digest_of_items(validated_rows(row.id)) or not self._digests.is_true(row):
            raise ServiceError(Code.INVALID_REQUEST, "The payout is not what was approved; ask the operator")


def _require_final(row: Payout) -> None:
    if row.completed_at is None or (row.round == 1 and row.approved_at is None):
        raise ServiceError(
            Code.INVALID_REQUEST, f"The payout is {row.status}; rows are retried once every row has its outcome"
        )


def _chosen(row: Payout, references: Sequence[str] | None) -> list[_Row]:
    """The rows of a round: those that are asked for, else all that may be in it. Raises INVALID_REQUEST."""
    rows = _rows_of(row)
    if references is None:
        chosen = [each for each in rows.values() if each.fault is None]
        faults = [each.fault for each in rows.values() if each.fault and ": not before " in each.fault]
        refusal = "No row of the payout may be retried"
    else:
        unknown = [f"row {reference}: not in the payout" for reference in references if reference not in rows]
        chosen = [rows[reference] for reference in dict.fromkeys(references) if reference in rows]
        faults = unknown + [each.fault for each in chosen if each.fault]
        refusal = "Not all of these rows may be retried"
    if not chosen or (references is not None and faults):
        named = "; ".join(faults[:_MOST_ROWS_NAMED])
        raise ServiceError(Code.INVALID_REQUEST, f"{refusal}: {named}" if named else refusal)
    return chosen


def _rows_of(payout: Payout) -> Mapping[str, _Row]:
    """The ready rows of a payout by their references."""
    items = PayoutItem.select().where(PayoutItem.payout_id == payout.id, PayoutItem.is_ready).order_by(PayoutItem.line)
    attempts = attempts_of(payout.id)
    corrected = corrected_ids(each.id for tried in attempts.values() for _, each in tried)
    rows = [_row_of(item, [each for _, each in attempts.get(item.line, ())], corrected) for item in items]
    names = {transaction_reference(payout.reference, row.reference, row.next_attempt): row for row in rows}
    taken = {names[reference].line for reference in used_references(payout.client_id, names)}
    return {
        row.reference: row._replace(fault=row.fault or f"row {row.reference}: another payment has its reference")
        if row.line in taken
        else row
        for row in rows
    }


def _row_of(item: PayoutItem, attempts: Sequence[Transaction], corrected: Collection[str]) -> _Row:
    faults = filter(None, (_fault_of(each, corrected) for each in attempts))
    fault = next((f"row {item.reference}: {each}" for each in faults), None)
    return _Row(item.line, item.reference, item.amount_cents, len(attempts) + 1, fault)


def _fault_of(attempt: Transaction, corrected: Collection[str]) -> str | None:
    """Why a row with this attempt may not be retried; None where it may."""
    if attempt.status != TransactionStatus.FAILED:
        return str(attempt.status)
    if attempt.is_in_review:
        return "in review"
    if attempt.id in corrected:
        return "operators booked what moved of it as a correction"
    moment = retry_at(attempt)
    return None if moment is None else f"not before {iso_milliseconds(moment)}"
