"""Retries: the next round of a payout is a draft of some of its rows, which another person approves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

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
from ussd_server.services.payouts.approval.digests import OF_DRAFT, PayoutDigests, digest_of_items, validated_rows
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
            if row.items_digest != digest_of_items(validated_rows(row.id)) or not self._digests.is_true(row):
                raise ServiceError(Code.INVALID_REQUEST, "The payout is not what was approved; ask the operator")
            rows = _chosen(row, request.rows)
            self._open(row, rows, request, context)
        return CreatedPayout(payout_view(row), replayed=False)

    def _open(self, row: Payout, rows: Sequence[PayoutItem], request: RetryPayout, context: RequestContext) -> None:
        now = self._clock.now()
        begin_draft(row, now)
        row.round += 1
        row.round_by, row.round_people = caller_id(context), people_behind(row.client_id, caller_people(context))
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
        row.draft_digest = self._digests.of(OF_DRAFT, row)
        row.save()
        write_payout_event(row, "payout.needs_approval", self._outbox, now)
        write_audit_event("payout.retried", context, now, client_id=row.client_id, object_id=row.id)


def _require_final(row: Payout) -> None:
    if row.completed_at is None or (row.round == 1 and row.approved_at is None):
        raise ServiceError(
            Code.INVALID_REQUEST, f"The payout is {row.status}; rows are retried once every row has its outcome"
        )


def _chosen(row: Payout, references: Sequence[str] | None) -> list[PayoutItem]:
    """The rows of a round: those that are asked for, else all that may be in it. Raises INVALID_REQUEST."""
    rows = _rows_of(row)
    if references is None:
        asked = [each for each in rows.values() if each[1] is None or ": not before " in each[1]]
        faults = []
        refusal = "No row of the payout may be retried"
    else:
        asked = [rows[reference] for reference in dict.fromkeys(references) if reference in rows]
        faults = [f"row {reference}: not in the payout" for reference in references if reference not in rows]
        refusal = "Not all of these rows may be retried"
    chosen = [item for item, fault in asked if fault is None]
    faults += [fault for _, fault in asked if fault is not None]
    if not chosen or (references is not None and faults):
        named = "; ".join(faults[:_MOST_ROWS_NAMED])
        raise ServiceError(Code.INVALID_REQUEST, f"{refusal}: {named}" if named else refusal)
    return chosen


def _rows_of(payout: Payout) -> Mapping[str, tuple[PayoutItem, str | None]]:
    """The ready rows of a payout by their references, each with why it may not be in a round, None where it may."""
    ready = PayoutItem.select().where(PayoutItem.payout_id == payout.id, PayoutItem.is_ready)
    items = list(ready.order_by(PayoutItem.line))
    attempts = {line: [each for _, each in tried] for line, tried in attempts_of(payout.id).items()}
    corrected = corrected_ids(each.id for tried in attempts.values() for each in tried)
    names = {
        transaction_reference(payout.reference, item.reference, len(attempts.get(item.line, ())) + 1): item.line
        for item in items
    }
    taken = {names[reference] for reference in used_references(payout.client_id, names)}

    def fault(item: PayoutItem) -> str | None:
        faults = filter(None, (_fault_of(each, corrected) for each in attempts.get(item.line, ())))
        why = next(faults, "another payment has its reference" if item.line in taken else None)
        return f"row {item.reference}: {why}" if why else None

    return {item.reference: (item, fault(item)) for item in items}


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
