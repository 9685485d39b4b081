"""The queue of a payout: transactions that are reserved and wait, until they are released to be sent or cancelled.

A waiting transaction is due at `QUEUED_UNTIL`, so that no worker claims it. Once released it is settled like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Any

import orjson
from peewee import fn

from ussd_server.database.tables import insert_rows
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.ledger import Account, Transfer
from ussd_server.models.sending import EVENT_FORMAT, Event
from ussd_server.models.transactions import QUEUED_UNTIL, StatusChange, Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.services.accounts.ledger import Leg, Postings, Rows, end_holds, hold_legs, postings_of, write_postings
from ussd_server.services.transactions.history import (
    Batch,
    Draft,
    batch_of,
    later_payload,
    merged,
    spending_of,
    view_of,
    write_batch,
)
from ussd_server.services.transactions.messages import UNFINISHED, Source, TransactionStatus
from ussd_server.values import iso_milliseconds, new_id

_ROWS_AT_ONCE = 500
_NEVER_SENT = Transaction.asked_at.is_null() & Transaction.status.in_(
    [TransactionStatus.CREATED, TransactionStatus.SUBMITTED]
)


def queued_batch(draft: Draft) -> tuple[Batch, Postings]:
    """What is written for a draft that is due at `QUEUED_UNTIL`, and its reservation."""
    batch, _ = batch_of(draft, (), Source.SUBMIT)
    row = draft.row
    postings = postings_of(row.client_id, row.id, hold_legs(row), row.created_at)
    return batch, replace(postings, spending=spending_of(row))


def insert_queued(drafts: Sequence[tuple[Batch, Postings]]) -> None:
    """Insert what `queued_batch` made, and then reserve all of it. Call inside a `long_unit_of_work`.

    The account is locked by the last statement only, so other payments of the client hardly wait for it.
    Raises OverdraftError, DailyLimitError, AnotherFeeError, and IntegrityError for a reference that is taken.
    """
    for start in range(0, len(drafts), _ROWS_AT_ONCE):
        batch = merged([batch for batch, _ in drafts[start : start + _ROWS_AT_ONCE]])
        write_batch(replace(batch, fees=[terms for terms, _ in groupby(batch.fees)]))
    write_postings(_joined([postings for _, postings in drafts]))


def release_queued(payout_id: str, provider: str, most: int, now: datetime) -> int:
    """Make up to `most` waiting transactions of a payout due, first created first; return their number."""
    waiting = (
        Transaction.select(Transaction.id)
        .where(Transaction.payout_id == payout_id, Transaction.due_at == QUEUED_UNTIL, Transaction.provider == provider)
        .order_by(Transaction.id)
        .limit(most)
    )
    released: int = Transaction.update(due_at=now).where(Transaction.id.in_([row.id for row in waiting])).execute()
    return released


def released_and_unsent(provider: str, now: datetime) -> int:
    """How many transactions of payouts are due at a provider and were not sent yet."""
    count: int = (
        Transaction.select()
        .where(Transaction.due_at <= now, Transaction.provider == provider, _NEVER_SENT)
        .where(Transaction.payout_id.is_null(False))
        .count()
    )
    return count


def cancel_queued(payout_id: str, now: datetime) -> int:
    """Fail every transaction of a payout that was never sent, and release its money; return their number.

    Call inside a unit of work, a `long_unit_of_work` where many rows may wait. A worker that is about to send a row has
    locked it: the row is sent or cancelled, never both.
    """
    rows = list(
        for_update(Transaction.select().where(Transaction.payout_id == payout_id, _NEVER_SENT).order_by(Transaction.id))
    )
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        _cancel(rows[start : start + _ROWS_AT_ONCE], now)
    postings: list[Postings] = []
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        postings += _releases(rows[start : start + _ROWS_AT_ONCE], now)
    if postings:
        write_postings(_joined(postings))
    return len(rows)


def is_under_way(payout_id: str) -> bool:
    """Whether a transaction of a payout has no outcome yet."""
    rows = Transaction.select(Transaction.id).where(
        Transaction.payout_id == payout_id, Transaction.status.in_(UNFINISHED)
    )
    return bool(rows.limit(1).exists())


def _cancel(rows: Sequence[Transaction], now: datetime) -> None:
    ids = [row.id for row in rows]
    cancelled = {
        "status": TransactionStatus.FAILED,
        "failure_code": FailureCode.CANCELLED,
        "completed_at": now,
        "updated_at": now,
        "due_at": None,
        "leased_until": None,
        "lease_token": None,
    }
    Transaction.update(**cancelled).where(Transaction.id.in_(ids)).execute()
    steps: Any = (
        StatusChange.select(StatusChange.transaction_id, fn.MAX(StatusChange.sequence))
        .where(StatusChange.transaction_id.in_(ids))
        .group_by(StatusChange.transaction_id)
    )
    last_steps = {str(transaction_id): last for transaction_id, last in steps.tuples()}
    reported: Any = (
        Event.select(Event.object_id, fn.MAX(Event.sequence), fn.MAX(Event.id.cast("text")))
        .where(Event.object_id.in_(ids))
        .group_by(Event.object_id)
    )
    last_events = {str(object_id): (last, event_id) for object_id, last, event_id in reported.tuples()}
    at = iso_milliseconds(now)
    detail = {"code": FailureCode.CANCELLED, "note": "Cancelled before it was sent"}
    changes, events = [], []
    for row in rows:
        row.__data__ |= cancelled
        common = {"client_id": row.client_id, "created_at": at}
        changes.append(
            common
            | {
                "transaction_id": row.id,
                "sequence": last_steps[row.id] + 1,
                "status": TransactionStatus.FAILED,
                "source": Source.SUBMIT,
                "provider_call": orjson.dumps(detail).decode(),
            }
        )
        sequence, last_id = last_events[row.id]
        events.append(
            common
            | {
                "id": new_id(now, last_id),
                "object_id": row.id,
                "sequence": sequence + 1,
                "type": f"transaction.{TransactionStatus.FAILED}",
                "format": EVENT_FORMAT,
                "payload": orjson.dumps(later_payload(view_of(row))).decode(),
            }
        )
    insert_rows(StatusChange, changes)
    insert_rows(Event, events)


def _releases(rows: Sequence[Transaction], now: datetime) -> list[Postings]:
    """The postings that end the holds of transactions, which have nothing but their holds yet."""
    debited, credited = Account.alias(), Account.alias()
    ids = [row.id for row in rows]
    holds: Any = (
        Transfer.select(Transfer, debited.name.alias("debit"), credited.name.alias("credit"))
        .join(debited, on=(debited.id == Transfer.debit_account_id))
        .switch(Transfer)
        .join(credited, on=(credited.id == Transfer.credit_account_id))
        .where(Transfer.transaction_id.in_(ids), Transfer.kind == "hold")
        .objects()
    )
    return [
        postings_of(
            hold.client_id,
            hold.transaction_id,
            end_holds([Leg(hold.kind, hold.purpose, hold.debit, hold.credit, hold.amount_cents, hold.id)], "void"),
            now,
        )
        for hold in holds
    ]


def _joined(parts: Sequence[Postings]) -> Postings:
    """All legs and sums, and each account once."""
    accounts = {(row["client_id"], row["name"]): row for part in parts for row in part.accounts}
    legs: Rows = [leg for part in parts for leg in part.legs]
    spending: Rows = [paid for part in parts for paid in part.spending]
    return Postings(accounts=list(accounts.values()), legs=legs, spending=spending)
