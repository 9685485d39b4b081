"""Drafts of payouts: every row validated and kept, none sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

import orjson
from peewee import IntegrityError

from ussd_server.context import RequestContext
from ussd_server.database.tables import insert_rows, lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.logs import current_traceparent
from ussd_server.models.clients import Client
from ussd_server.models.payouts import Payout, PayoutItem, transaction_reference
from ussd_server.providers.messages import Direction
from ussd_server.services.accounts.ledger import FeeBook, fee_cents
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.payouts.approval.approvers import caller_id, caller_people, end_approvals, standing
from ussd_server.services.payouts.approval.digests import (
    OF_DRAFT,
    PayoutDigests,
    ValidatedRow,
    digest_of_items,
    digest_of_request,
)
from ussd_server.services.payouts.approval.withdrawals import require_still_allowed
from ussd_server.services.payouts.attempts import used_references
from ussd_server.services.payouts.drafts.rows import PayoutRow, corrected_row, read_file, row_of
from ussd_server.services.payouts.messages import (
    MOST_ITEMS,
    MOST_LINES_NAMED,
    CreatedPayout,
    CreatePayout,
    PayoutStatus,
    ReplacePayout,
    fields_of,
)
from ussd_server.services.payouts.records import mark_cancelled, payout_view, write_payout_event
from ussd_server.services.providers.providers import problems_of_amount
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import MAKE, people_behind
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.services.transactions.transactions import refuse_operators_reference
from ussd_server.status import Code, ServiceError
from ussd_server.threads import with_pauses
from ussd_server.values import iso_milliseconds, new_id

# How the problems of rows begin that depend on other rows and payments.
_REFERENCE_PROBLEMS = ("reference: Used in rows ", "reference: Was used before.")
_FURTHEST = timedelta(days=366)
_MOST_ROWS_BESIDE_OTHERS = 500
# Of a row; its problems and its metadata are written as JSON, and what was sent is kept in the digest alone.
_COLUMNS = [field.name for field in fields(PayoutRow) if field.name not in ("problems", "metadata", "sent")]


class PayoutDrafts:
    def __init__(self, runtime: Runtime, fees: FeeBook) -> None:
        self._clock, self._providers, self._outbox = runtime.clock, runtime.providers, runtime.mail_outbox
        self._fees = fees
        self._digests = PayoutDigests(runtime.vault)
        # The largest file takes a quarter of a second of processor time, and 20 MB.
        self._files = Bulkhead(2, 1)

    def create(self, request: CreatePayout, context: RequestContext) -> CreatedPayout:
        """Validate and keep every row, and send none. The same content under the same reference is the same payout.

        Raises INVALID_REQUEST for a file that cannot be read, for no row or more than 5,000, without a reference, and
        for a date in the past or more than a year ahead; IDEMPOTENCY_KEY_REUSED for the reference of another payout;
        SERVICE_UNAVAILABLE while other files are read.
        """
        context.require("payouts:write")
        with self._permit_for(request, len(request.items), context):
            return self._create(request, context)

    def _create(self, request: CreatePayout, context: RequestContext) -> CreatedPayout:
        if not request.reference:
            raise ServiceError(Code.INVALID_REQUEST, "reference: Missing data for required field.")
        # The payment of a row is named by both references.
        refuse_operators_reference(f"{request.reference}/")
        rows = self._read(request)
        digest = _digest_of(rows, request)
        if (known := _find(context.client_id, request.reference)) is not None:
            return _repeated(known, digest)
        require_ahead(request.send_at, self._clock.now())
        payout, items = self._validated(rows, request, digest, context)
        try:
            with unit_of_work():
                self._insert(payout, items, context)
        except IntegrityError:
            # Another call has created a payout of this reference since it was looked up.
            known = _find(context.client_id, request.reference)
            if known is None:
                raise
            return _repeated(known, digest)
        return CreatedPayout(payout_view(payout), replayed=False)

    def replace(self, known: Payout, request: ReplacePayout, context: RequestContext) -> CreatedPayout:
        """Validate and keep the corrected rows of a draft as a draft in its place, under the same reference.

        The draft is cancelled: what was validated is never edited. The people behind it count as makers of the new one.
        The same rows change nothing. Raises INSUFFICIENT_SCOPE for others than the maker, INVALID_REQUEST for a payout
        that is no draft or was changed since it was validated, and for a file as `create` does; SERVICE_UNAVAILABLE as
        `create` does.
        """
        with self._permit_for(request, known.item_count, context):
            return self._replace(known, request, context)

    def _permit_for(
        self, request: CreatePayout | ReplacePayout, rows: int, context: RequestContext
    ) -> AbstractContextManager[None]:
        is_large = request.file is not None or rows > _MOST_ROWS_BESIDE_OTHERS
        return self._files.reading(context.client_id) if is_large else nullcontext()

    def _replace(self, known: Payout, request: ReplacePayout, context: RequestContext) -> CreatedPayout:
        if known.created_by != caller_id(context):
            raise ServiceError(Code.INSUFFICIENT_SCOPE, "A draft is corrected by its maker")
        if request.file is not None:
            rows = self._read(request)
        else:
            if known.status == PayoutStatus.DRAFT:
                self._digests.require_validated(known)
            rows = _corrected_rows(known, request.corrections)
            if not rows:
                return CreatedPayout(payout_view(known), replayed=True)
        terms = CreatePayout(known.reference, known.description, send_at=known.send_at)
        digest = _digest_of(rows, terms)
        latest = Payout.get_by_id(known.replaced_by) if known.replaced_by else known
        if latest.request_digest == digest:
            return _repeated(latest, digest)
        _require_draft(known)
        payout, items = self._validated(rows, terms, digest, context, known.people)
        now = payout.created_at
        with unit_of_work():
            lock_row(Client, known.client_id)
            row = lock_row(Payout, known.id)
            _require_draft(row)
            end_approvals(standing(row), now)
            mark_cancelled(row, now)
            row.replaced_by = payout.id
            row.save()
            write_audit_event("payout.replaced", context, now, client_id=row.client_id, object_id=row.id)
            self._insert(payout, items, context)
        return CreatedPayout(payout_view(payout), replayed=False)

    def _validated(
        self,
        rows: Sequence[PayoutRow],
        request: CreatePayout,
        digest: str,
        context: RequestContext,
        earlier_people: Collection[str] = (),
    ) -> tuple[Payout, list[dict[str, Any]]]:
        """A draft of rows that were read, with the values of its rows. Nothing is kept."""
        assert request.reference is not None
        self._validate(rows, request.reference, context.client_id)
        now = self._clock.now()
        ready = [row for row in rows if row.is_ready]
        payout = Payout(
            id=new_id(now),
            client_id=context.client_id,
            reference=request.reference,
            description=request.description,
            send_at=request.send_at,
            status=PayoutStatus.DRAFT,
            request_digest=digest,
            item_count=len(rows),
            ready_count=len(ready),
            invalid_count=len(rows) - len(ready),
            total_amount_cents=sum(row.amount_cents or 0 for row in ready),
            total_fee_cents=sum(row.fee_cents or 0 for row in ready),
            created_by=caller_id(context),
            operator=context.caller.operator,
            request_id=context.request_id,
            traceparent=current_traceparent(),
            people=people_behind(context.client_id, caller_people(context) | frozenset(earlier_people)),
            created_at=now,
            updated_at=now,
            due_at=now if any(row.name for row in ready) else None,
        )
        payout.round_by, payout.round_people, payout.round_count = payout.created_by, payout.people, len(ready)
        payout.round_amount_cents, payout.round_fee_cents = payout.total_amount_cents, payout.total_fee_cents
        items = [_values(payout.id, row) for row in with_pauses(rows)]
        payout.items_digest = digest_of_items(
            ValidatedRow._make(item.get(name) for name in ValidatedRow._fields) for item in with_pauses(items)
        )
        payout.draft_digest = self._digests.of(OF_DRAFT, payout)
        return payout, items

    def _read(self, request: CreatePayout | ReplacePayout) -> list[PayoutRow]:
        if request.file is None:
            assert isinstance(request, CreatePayout)
            if not 0 < len(request.items) <= MOST_ITEMS:
                raise ServiceError(Code.INVALID_REQUEST, f"items: Must be 1 to {MOST_ITEMS} rows.")
            return [row_of(line, item) for line, item in enumerate(with_pauses(request.items), 1)]
        return read_file(request.file)

    def _insert(self, payout: Payout, items: list[dict[str, Any]], context: RequestContext) -> None:
        """Keep a draft with its rows. Call inside a unit of work."""
        # What takes a right from a key locks the client, and sees this draft or is seen by it.
        lock_row(Client, payout.client_id)
        require_still_allowed(MAKE, context, self._clock.now())
        payout.save(force_insert=True)
        insert_rows(PayoutItem, items)
        now = payout.created_at
        if payout.ready_count:
            write_payout_event(payout, "payout.needs_approval", self._outbox, now)
        write_audit_event("payout.created", context, now, client_id=payout.client_id, object_id=payout.id)

    def _validate(self, rows: Sequence[PayoutRow], reference: str, client_id: str) -> None:
        # Read the fee afresh: a draft has no check of its fee, and approvers rely on the sum.
        self._fees.forget(client_id, TransactionType.DISBURSEMENT)
        terms = self._fees.find(client_id, TransactionType.DISBURSEMENT)
        for row in with_pauses(rows):
            if row.problems or row.phone_number is None or row.amount_cents is None:
                continue
            if problem := self._providers.problem_of_number(row.phone_number):
                row.problems.append(problem)
                continue
            row.provider = self._providers.of_number(row.phone_number)
            row.fee_cents = fee_cents(terms, row.amount_cents)
            if row.provider is None:
                row.problems.append("phone_number: The number does not show its provider.")
                continue
            row.problems += self._problems_of(row.provider, row.amount_cents, client_id)
        _validate_references(rows, reference, client_id)

    def _problems_of(self, name: str, amount_cents: int, client_id: str) -> list[str]:
        """Why a provider would never move an amount, in sentences."""
        provider = self._providers.get(name, client_id)
        bounds = provider.bounds[Direction.DISBURSEMENT] if provider is not None else None
        if provider is None or bounds is None or not bounds.enabled:
            return [f"phone_number: {name} is not set up for disbursements here."]
        return problems_of_amount(provider, amount_cents, Direction.DISBURSEMENT)


def _corrected_rows(payout: Payout, corrections: Mapping[int, Mapping[str, str]]) -> list[PayoutRow]:
    """The rows of a payout to be validated again, with those of `corrections` read anew; none when no field changed."""
    rows, is_changed = [], False
    items = PayoutItem.select().where(PayoutItem.payout_id == payout.id).order_by(PayoutItem.line)
    for item in with_pauses(items):
        typed = corrections.get(item.line)
        if typed is not None and not item.is_ready and typed != fields_of(item):
            corrected = corrected_row(item.line, typed)
            corrected.metadata = item.metadata
            rows.append(corrected)
            is_changed = True
            continue
        row = PayoutRow(item.line, item.phone_number, item.amount_cents, item.amount_text, item.reference)
        row.description, row.name, row.metadata = item.description, item.name, item.metadata
        row.problems = [each for each in item.problems or () if not each.startswith(_REFERENCE_PROBLEMS)]
        rows.append(row)
    return rows if is_changed else []


def _validate_references(rows: Sequence[PayoutRow], payout: str, client_id: str) -> None:
    """Add the problems of references that the rows repeat, or that were used before."""
    lines = defaultdict(list)
    for row in rows:
        if row.reference:
            lines[transaction_reference(payout, row.reference, 1)].append(row)
    for same in lines.values():
        if len(same) > 1:
            named = [str(row.line) for row in same[:MOST_LINES_NAMED]]
            last = f"{len(same) - MOST_LINES_NAMED} more" if len(same) > MOST_LINES_NAMED else named.pop()
            for row in same:
                row.problems.append(f"reference: Used in rows {', '.join(named)} and {last}; each must be unique.")
    for reference in used_references(client_id, lines):
        for row in lines[reference]:
            row.problems.append("reference: Was used before.")


def _find(client_id: str, reference: str) -> Payout | None:
    row: Payout | None = Payout.get_or_none(
        Payout.client_id == client_id,
        Payout.reference == reference,
        Payout.replaced_by.is_null(),
        Payout.revoked_at.is_null(),
    )
    return row


def require_ahead(send_at: datetime | None, now: datetime) -> None:
    """Raise INVALID_REQUEST for a date in the past, or more than a year ahead."""
    if send_at is not None and not now < send_at <= now + _FURTHEST:
        raise ServiceError(Code.INVALID_REQUEST, "send_at: Must lie ahead, by a year at most.")


def _digest_of(rows: Sequence[PayoutRow], request: CreatePayout) -> str:
    send_at = iso_milliseconds(request.send_at) if request.send_at else None
    return digest_of_request(request.description, (row.content for row in with_pauses(rows)), send_at)


def _require_draft(payout: Payout) -> None:
    if payout.round > 1:
        raise ServiceError(Code.INVALID_REQUEST, "The rows of a later round are as they were sent before")
    if payout.replaced_by is not None:
        raise ServiceError(Code.INVALID_REQUEST, "The payout was corrected already; correct the draft in its place")
    if payout.status != PayoutStatus.DRAFT:
        raise ServiceError(Code.INVALID_REQUEST, f"The payout is {payout.status} and cannot be corrected")


def _repeated(known: Payout, digest: str) -> CreatedPayout:
    if known.request_digest != digest:
        raise ServiceError(Code.IDEMPOTENCY_KEY_REUSED, "The reference was used for a different payout")
    return CreatedPayout(payout_view(known), replayed=True)


def _values(payout_id: str, row: PayoutRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in _COLUMNS}
    lists = {"problems": row.problems, "metadata": row.metadata}
    written = {name: orjson.dumps(value).decode() for name, value in lists.items() if value}
    placed = {"payout_id": payout_id, "is_ready": row.is_ready, "round": 1, "attempt": 1, "waits": False}
    return values | written | placed
