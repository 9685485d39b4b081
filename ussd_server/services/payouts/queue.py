"""The queue of a payout: transactions that are reserved and wait, until they are released to be sent or cancelled.

A waiting transaction is due at `QUEUED_UNTIL`, so that no worker claims it. Once released it is settled like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import orjson
from peewee import chunked, fn

from ussd_server.database.tables import insert_rows
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.payouts import Payout
from ussd_server.models.sending import Event
from ussd_server.models.transactions import QUEUED_UNTIL, StatusChange, Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.services.accounts.ledger import Postings, joined, postings_of, releases_of, write_postings
from ussd_server.services.transactions.history import (
    Batch,
    Draft,
    batch_of,
    merged,
    rows_of_change,
    spending_of,
    view_of,
    write_batch,
)
from ussd_server.services.transactions.makers import maker_of
from ussd_server.services.transactions.messages import UNFINISHED, Source, TransactionStatus
from ussd_server.wire import columns_of

_ROWS_AT_ONCE = 500
_CHECKED_TOGETHER = 20
_CHECKED_AFTER = timedelta(hours=1)
_NEVER_SENT = Transaction.asked_at.is_null() & Transaction.status.in_(
    [TransactionStatus.CREATED, TransactionStatus.SUBMITTED]
)


def queued_batch(draft: Draft, limit_cents: int | None) -> tuple[Batch, Postings]:
    """What is written for a draft that is due at `QUEUED_UNTIL`, and its reservation, which is written after all rows.

    `limit_cents` is the daily limit of its key at the approval, None for none.
    """
    batch, _ = batch_of(replace(draft, legs=()), Source.SUBMIT)
    row = draft.row
    postings = postings_of(row.client_id, row.id, draft.legs, row.created_at)
    return batch, replace(postings, spending=spending_of(row, limit_cents))


def insert_queued(drafts: Sequence[tuple[Batch, Postings]]) -> None:
    """Insert what `queued_batch` made, and then reserve all of it. Call inside a `long_unit_of_work`.

    The account is locked by the last statement only, so other payments of the client hardly wait for it.
    Raises OverdraftError, DailyLimitError, AnotherFeeError, and IntegrityError for a reference that is taken.
    """
    for some in chunked(drafts, _ROWS_AT_ONCE):
        batch = merged([batch for batch, _ in some])
        write_batch(replace(batch, fees=[terms for terms, _ in groupby(batch.fees)]))
    write_postings(joined([postings for _, postings in drafts]))


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


def cancel_queued(payout: Payout, now: datetime) -> int:
    """Fail every transaction of a payout that was never sent, and release its money; return their number.

    Call inside a unit of work, a `long_unit_of_work` where many rows may wait. A worker that is about to send a row has
    locked it: the row is sent or cancelled, never both. If the payout's time has come, its provider is queried once
    about each row: a database that lost its last commits does not know what has left.
    """
    rows = list(
        for_update(Transaction.select().where(Transaction.payout_id == payout.id, _NEVER_SENT).order_by(Transaction.id))
    )
    may_have_left = payout.send_at is None or payout.send_at <= now
    for number, row in enumerate(rows):
        # Twenty of them every twenty seconds, so that other payments do not wait for these queries.
        check_at = now + _CHECKED_AFTER + timedelta(seconds=number // _CHECKED_TOGETHER * _CHECKED_TOGETHER)
        row.due_at = check_at if may_have_left else None
    postings: list[Postings] = []
    for some in chunked(rows, _ROWS_AT_ONCE):
        _cancel(some, now)
        postings += releases_of([row.id for row in some], now)
    if postings:
        write_postings(joined(postings))
    return len(rows)


def waiting_providers(payout_id: str) -> list[str]:
    rows: Any = Transaction.select(fn.DISTINCT(Transaction.provider).alias("provider")).where(
        Transaction.payout_id == payout_id, Transaction.due_at == QUEUED_UNTIL
    )
    return [row.provider for row in rows]


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
        "leased_until": None,
        "lease_token": None,
    }
    for check_at, together in groupby(rows, key=lambda row: row.due_at):
        Transaction.update(**cancelled, due_at=check_at).where(
            Transaction.id.in_([row.id for row in together])
        ).execute()
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
    detail = {"code": FailureCode.CANCELLED, "note": "Cancelled before it was sent"}
    provider_call = orjson.dumps(detail).decode()
    changes, events = [], []
    for row in rows:
        columns_of(row).update(cancelled)
        sequence, last_id = last_events[row.id]
        change, event = rows_of_change(
            row.client_id, view_of(row, maker_of(row)), Source.SUBMIT, last_steps[row.id] + 1, sequence + 1, last_id
        )
        changes.append(change | {"provider_call": provider_call})
        events.append(event)
    insert_rows(StatusChange, changes)
    insert_rows(Event, events)
