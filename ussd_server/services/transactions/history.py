"""The rows of a transaction: its own, status history, events and postings; and its view for clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from itertools import chain
from typing import Any

import orjson
from peewee import Query, fn

from ussd_server.database.tables import CompiledQuery, param, values_of
from ussd_server.database.unit_of_work import dialect
from ussd_server.models.payouts import PayoutAttempt
from ussd_server.models.sending import Event
from ussd_server.models.transactions import QUEUED_UNTIL, StatusChange, Transaction
from ussd_server.providers.failures import FAILURES, FailureCode
from ussd_server.services.accounts.ledger import Leg, Postings, Rows, entries_of, named_refusals, postings_of
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.transactions.explanation import explain
from ussd_server.services.transactions.makers import maker_of, makers_of
from ussd_server.services.transactions.messages import (
    SUCCESSFUL,
    UNFINISHED,
    ChangeDetail,
    Failure,
    MadeBy,
    Source,
    TransactionChange,
    TransactionHistory,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.services.webhooks.events import write_event
from ussd_server.values import iso_milliseconds, kampala_day, new_id
from ussd_server.wire import view_of_row, writer


def _next_change() -> Query:
    columns = ("transaction_id", "client_id", "status", "source", "detail", "provider_call", "created_at")
    values = {field: param(field) for field in map(StatusChange._meta.fields.get, columns)}
    newest = StatusChange.select(fn.COALESCE(fn.MAX(StatusChange.sequence), 0) + 1).where(
        StatusChange.transaction_id == param(StatusChange.transaction_id)
    )
    return StatusChange.insert(values | {StatusChange.sequence: newest})


_APPEND = CompiledQuery(_next_change)
_HISTORY = CompiledQuery(
    lambda: (
        StatusChange.select()
        .where(StatusChange.transaction_id == param(StatusChange.transaction_id))
        .order_by(StatusChange.sequence)
    )
)


# Only these keys may change after the first event. The first three have a value there, so each event replaces it (with
# null, if need be). The others are empty there, and stay out of an event until they are set.
_ALWAYS_IN_LATER_EVENTS = ("status", "updated_at", "next_check_at")
_SET_LATER = ("provider_transaction_id", "failure", "late", "completed_at", "refunded_amount", "same_money_as")
_WRITE = writer(TransactionView)
NOTHING_KNOWN = ChangeDetail()

_COLUMNS = {
    "transactions": list(Transaction._meta.columns),
    "changes": list(StatusChange._meta.columns),
    "events": list(Event._meta.columns),
    "attempts": list(PayoutAttempt._meta.columns),
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A transaction that is not inserted yet, the terms of its fee, who makes it, and its legs."""

    row: Transaction
    terms: FeeTerms
    made_by: MadeBy
    legs: Sequence[Leg]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Postings):
    """What is inserted together: rows of tables.

    `settled` are the ids of transactions that are succeeded as soon as their legs are written. `fees` are the terms
    from which the fees of the transactions were computed. `attempts` are those of rows of one payout, with the `cents`
    that it holds no more.
    """

    transactions: Rows
    changes: Rows
    events: Rows
    settled: Sequence[str]
    fees: Rows
    attempts: Rows = ()


def batch_of(draft: Draft, source: Source) -> tuple[Batch, TransactionView]:
    """The rows of a draft, and its view. Money that moves at once makes the transaction succeeded."""
    row, terms, legs = draft.row, draft.terms, draft.legs
    transaction = values_of(row)
    view = view_of(row, draft.made_by)
    changes, settled = [rows_of_change(row.client_id, view, source, 1, 1)], []
    if any(leg.kind == "move" for leg in legs):
        row.status, row.completed_at, row.due_at = TransactionStatus.SUCCEEDED, row.created_at, None
        view = view_of(row, draft.made_by)
        changes.append(rows_of_change(row.client_id, view, source, 2, 2))
        settled.append(row.id)
    postings = postings_of(row.client_id, row.id, legs, row.created_at)
    batch = Batch(
        accounts=postings.accounts,
        legs=postings.legs,
        transactions=[transaction],
        changes=[change for change, _ in changes],
        events=[event for _, event in changes],
        spending=spending_of(row) if legs else (),
        settled=settled,
        fees=[
            {
                "client_id": row.client_id,
                "type": row.type,
                "fixed_cents": terms.fixed_cents,
                "share_basis_points": terms.share_basis_points,
            }
        ],
    )
    return batch, view


def spending_of(row: Transaction, limit_cents: int | None = None) -> Rows:
    """The amount that an outgoing transaction counts towards the daily limit of its key.

    The lower one counts of the key's limit in the database and of `limit_cents`.
    """
    if row.key_id is None or row.type not in (TransactionType.DISBURSEMENT, TransactionType.REFUND):
        return ()
    spent = {"key_id": row.key_id, "day": kampala_day(row.created_at), "cents": row.amount_cents + row.fee_cents}
    return [spent if limit_cents is None else {**spent, "limit_cents": limit_cents}]


def rows_of_change(
    client_id: str,
    view: TransactionView,
    source: Source,
    sequence: int,
    event_sequence: int,
    last_event_id: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rows of the last change of a transaction's status, and of its event, to be inserted with those of others.

    The sequences number the changes and the events of a transaction, from 1.
    """
    common = {"client_id": client_id, "created_at": iso_milliseconds(view.updated_at)}
    change = common | {
        "transaction_id": view.transaction_id,
        "sequence": sequence,
        "status": view.status,
        "source": source,
    }
    payload = first_payload(view) if event_sequence == 1 else later_payload(view)
    event = common | {
        "id": new_id(view.updated_at, last_event_id),
        "object_id": view.transaction_id,
        "sequence": event_sequence,
        "type": f"transaction.{view.status}",
        "payload": orjson.dumps(payload).decode(),
    }
    return change, event


def merged(batches: Sequence[Batch]) -> Batch:
    """One batch of several, in their order."""
    parts = (part.name for part in fields(Batch))
    return Batch(**{part: list(chain.from_iterable(getattr(batch, part) for batch in batches)) for part in parts})


def write_batch(batch: Batch) -> None:
    """Write a batch, all of it or nothing, as a transaction of its own or in the unit of work that is open.

    The database takes it as one document (`database/schema/postgres/batches.sql`): one round trip to PostgreSQL.
    Raises OverdraftError, DailyLimitError, AnotherFeeError, and IntegrityError for a key that is taken.
    """
    with named_refusals():
        dialect().record_transactions(orjson.dumps(batch).decode(), _COLUMNS)


def append_change(row: Transaction, source: Source, now: datetime, detail: ChangeDetail = NOTHING_KNOWN) -> None:
    """Append the status that `row` has now to its history, with an event for the client's webhooks.

    Call inside the unit of work that makes the change.
    """
    facts = {name: value for name, value in asdict(detail).items() if value is not None}
    text = facts.pop("note", None) or facts.pop("provider_code", None)
    _APPEND.run(
        transaction_id=row.id,
        client_id=row.client_id,
        status=row.status,
        source=source,
        detail=text,
        provider_call=facts or None,
        created_at=now,
    )
    write_transaction_event(row, f"transaction.{row.status}", now)


def write_transaction_event(row: Transaction, event_type: str, now: datetime) -> None:
    """Write a later event of a transaction, with what has changed until now. `batch_of` made its first."""
    # A collection that has just succeeded has no refunds yet. A later event does not repeat who made it.
    is_success = event_type == "transaction.succeeded" and row.completed_at == now
    refunded = {} if is_success else _refunded_cents([row])
    view = view_of(row, maker_of(row), refunded.get(row.id, 0))
    write_event(row.client_id, event_type, row.id, later_payload(view), now)


def views_of(rows: Sequence[Transaction]) -> tuple[TransactionView, ...]:
    """Transactions as their client sees them, with what was refunded of them and who made them."""
    refunded, makers = _refunded_cents(rows), makers_of(rows)
    return tuple(view_of(row, makers[row.id], refunded.get(row.id, 0)) for row in rows)


def view_with_history(row: Transaction) -> TransactionHistory:
    values = _beside_columns(row, makers_of([row])[row.id], _refunded_cents([row]).get(row.id, 0))
    view = view_of_row(TransactionHistory, row, **values, explanation="", events=_history_of(row))
    return replace(view, explanation=explanation_of(row, view))


def explanation_of(row: Transaction, view: TransactionView) -> str:
    """One sentence: where the money of a transaction is now, and what happens next."""
    is_taken_back = row.released_at is not None
    return explain(view, is_in_review=row.is_in_review, is_unsent=_is_unsent(row), is_taken_back=is_taken_back)


def _is_unsent(row: Transaction) -> bool:
    """Whether certainly nothing was sent to the provider, although sending it was tried."""
    return row.status == TransactionStatus.SUBMITTED and row.provider is not None and row.asked_at is None


def view_of(row: Transaction, made_by: MadeBy, refunded_cents: int = 0) -> TransactionView:
    """A transaction as its client sees it; `refunded_cents` is what refunds of it have taken or hold."""
    return view_of_row(TransactionView, row, **_beside_columns(row, made_by, refunded_cents))


def _beside_columns(row: Transaction, made_by: MadeBy, refunded_cents: int) -> dict[str, Any]:
    due_at = row.due_at
    return {
        "transaction_id": row.id,
        "failure": failure_of(row),
        "next_check_at": None if due_at == QUEUED_UNTIL else due_at,
        "refunded_amount_cents": refunded_cents,
        "made_by": made_by,
    }


def _refunded_cents(rows: Sequence[Transaction]) -> dict[str, int]:
    refundable = [row.id for row in rows if row.type == TransactionType.COLLECTION and row.status in SUCCESSFUL]
    if not refundable:
        return {}
    refunds: Any = (
        Transaction.select(Transaction.refund_of, fn.SUM(Transaction.amount_cents))
        .where(
            Transaction.refund_of.in_(refundable),
            Transaction.status.in_([*UNFINISHED, TransactionStatus.SUCCEEDED]),
        )
        .group_by(Transaction.refund_of)
    )
    most = {row.id: row.amount_cents for row in rows}
    return {str(refund_of): min(int(cents), most[str(refund_of)]) for refund_of, cents in refunds.tuples()}


def failure_of(row: Transaction) -> Failure | None:
    """Why a transaction failed, None while it has not."""
    if row.failure_code is None:
        return None
    kind = FAILURES[FailureCode(row.failure_code)]
    return Failure(row.failure_code, kind.message, kind.fault, kind.retry)


def first_payload(view: TransactionView) -> dict[str, Any]:
    """The payload of a transaction's first event: the record that the API shows (wire contract 3.1), without nulls."""
    return {key: value for key, value in _WRITE(view).items() if value is not None}


def later_payload(view: TransactionView) -> dict[str, Any]:
    """The payload of a later event: its difference from the first. `payloads_of` adds the rest."""
    record = first_payload(view).get
    return {key: record(key) for key in _ALWAYS_IN_LATER_EVENTS} | {
        key: value for key in _SET_LATER if (value := record(key))
    }


# What may become of a payment of which nothing left this machine.
_STAYED = (TransactionStatus.CREATED, TransactionStatus.SUBMITTED, TransactionStatus.FAILED)


def _history_of(row: Transaction) -> tuple[TransactionChange, ...]:
    changes = list(_HISTORY.rows(StatusChange, transaction_id=row.id))
    stayed = all(change.status in _STAYED for change in changes) and (
        _is_unsent(row) or (changes[-1].provider_call or {}).get("left_machine") is False
    )
    entries = entries_of(row.id, row.provider)
    return tuple(
        TransactionChange(
            TransactionStatus(change.status),
            Source(change.source),
            _detail_of(change, has_provider=row.provider is not None, stayed=stayed),
            entries.get(change.status, ()),
            change.created_at,
        )
        for change in changes
    )


def _detail_of(change: StatusChange, *, has_provider: bool, stayed: bool) -> ChangeDetail:
    """The details of a change; `stayed`: nothing of the payment left this machine."""
    facts: dict[str, Any] = dict(change.provider_call or {})
    if stayed and change.status == TransactionStatus.SUBMITTED:
        # Written before the call, when the request was about to be sent.
        facts["left_machine"] = False
    if facts.get("left_machine") is False:
        facts.pop("sent", None)
    if change.detail:
        # What was cancelled or given back was so here, never at the provider.
        is_cancelled = facts.get("code") == FailureCode.CANCELLED and "sent" not in facts
        is_note = is_cancelled or change.source == Source.OPERATOR or change.status == TransactionStatus.REVERSED
        facts["note" if is_note else "provider_code"] = change.detail
    if not facts and (change.status == TransactionStatus.CREATED or not has_provider):
        facts["left_machine"] = False
    return ChangeDetail(**facts)
