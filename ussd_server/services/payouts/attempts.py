"""Attempts to pay a row: its transactions, one after another, of which only one may pay it.

A transaction is made when its row is about to be sent, with the mark on the row, and its reservation passes from the
payout's hold. Its name at the provider is that of payout, row and a number, which rises only after the provider's
definite failure: an attempt that was never sent goes again under its old name, by another transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from itertools import takewhile
from operator import not_
from typing import Any, NamedTuple

import orjson
from peewee import SQL, fn

from ussd_server.database.tables import CompiledQuery, lock_row, param
from ussd_server.database.unit_of_work import dialect, run_query
from ussd_server.models.clients import Client
from ussd_server.models.payouts import Payout, PayoutAttempt, PayoutItem, transaction_reference
from ussd_server.models.transactions import IN_REVIEW, Transaction
from ussd_server.providers.messages import Provider
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT
from ussd_server.services.gates.sending import has_correction, other_attempts, person_of
from ussd_server.services.payouts.holds import release
from ussd_server.services.providers.own_connections import Owners
from ussd_server.services.transactions.create import DraftColumns, Plan, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.history import Draft, batch_of, merged, write_batch
from ussd_server.services.transactions.makers import maker_of_payout
from ussd_server.services.transactions.messages import (
    MAIN_ACCOUNT,
    SUCCESSFUL,
    UNFINISHED,
    MadeBy,
    Source,
    TransactionStatus,
    TransactionType,
)

_SOON = timedelta(minutes=1)
_SHARE_OF_A_SECOND = 0.5
_NEVER_SENT = Transaction.asked_at.is_null() & Transaction.status.in_(
    [TransactionStatus.CREATED, TransactionStatus.SUBMITTED]
)
_HAS_FAILED = Transaction.status == TransactionStatus.FAILED
_WAITING = CompiledQuery(
    lambda: (
        PayoutItem.select()
        .where(
            PayoutItem.payout_id == param(PayoutItem.payout_id),
            PayoutItem.waits,
            PayoutItem.provider == param(PayoutItem.provider),
        )
        .order_by(PayoutItem.line)
        .limit(param(PayoutItem.line, "most"))
    )
)


class LateSuccess(Enum):
    """What the success of an attempt that had failed does: count, wait for another attempt, or be a second payment."""

    COUNTS = "counts"
    WAITS = "waits"
    SECOND = "second"


def make_attempts(creator: TransactionCreator, payout: Payout, connection: Provider, most: int) -> int:
    """Make the transactions of up to `most` rows that wait for a connection's provider, in the order of their lines.

    Rows that may not be paid now are skipped, and their money is released. Returns how many were made. Call in a unit
    of work with the payout locked.
    """
    rows = _WAITING.rows(PayoutItem, payout_id=payout.id, provider=connection.name, most=most)
    if skipped := _unpayable(payout, rows):
        release(payout, skipped)
        rows = [row for row in rows if row.line not in skipped]
    if rows:
        _make(creator, payout, rows, connection.account)
    return len(rows)


def _unpayable(payout: Payout, rows: Collection[PayoutItem]) -> set[int]:
    """The lines of rows that may not be paid: an earlier attempt did not fail, or another payment has their name."""
    lines = defaultdict[str, list[int]](list)
    for row in rows:
        lines[transaction_reference(payout.reference, row.reference, row.attempt)].append(row.line)
    used = {line for reference in used_references(payout.client_id, lines) for line in lines[reference]}
    # The second attempt of row `a` and the first one of row `a/2` have one name.
    used |= {line for same in lines.values() for line in same[1:]}
    return used | paid_lines(payout.id, [row.line for row in rows if row.transaction_id is not None])


def paid_lines(payout_id: str, lines: Collection[int]) -> set[int]:
    """Those of some lines whose rows have an attempt that did not fail, is under review, or was corrected."""
    if not lines:
        return set()
    rows: Any = (
        PayoutAttempt.select(PayoutAttempt.line)
        .join(Transaction, on=(Transaction.id == PayoutAttempt.transaction_id))
        .where(PayoutAttempt.payout_id == payout_id, PayoutAttempt.line.in_(list(lines)))
        .where(~_HAS_FAILED | IN_REVIEW | has_correction())
    )
    return {row.line for row in rows}


def used_references(client_id: str, references: Collection[str]) -> set[str]:
    """The references that transactions of the client have already."""
    # A subquery that is asked for each reference: a planner without statistics would read all payments of the client.
    rows = run_query(
        f"SELECT found.reference FROM {dialect().json_rows({'reference': 'text'})} "  # noqa: S608
        "WHERE (SELECT id FROM transactions WHERE client_id = :client_id AND reference = found.reference "
        "AND type <> 'deposit') IS NOT NULL",
        rows=orjson.dumps([{"reference": reference} for reference in references]).decode(),
        client_id=client_id,
    )
    return {reference for (reference,) in rows}


def _make(creator: TransactionCreator, payout: Payout, rows: Sequence[PayoutItem], account: str) -> None:
    made_by, user_id, names = maker_of_payout(payout), person_of(payout), _names_of(payout, rows)
    drafts = [_draft(creator, payout, row, names[row.line], made_by, user_id, account) for row in rows]
    attempts = [
        {
            "payout_id": payout.id,
            "line": row.line,
            "number": row.attempt,
            "round": payout.round,
            "transaction_id": draft.row.id,
            "cents": row.amount_cents + row.fee_cents,
        }
        for row, draft in zip(rows, drafts, strict=True)
    ]
    batch = merged([batch_of(draft, Source.SUBMIT)[0] for draft in drafts])
    # The fee is the one that was reserved, whatever is agreed now; the reservation counts for the key already.
    write_batch(replace(batch, fees=(), spending=(), attempts=attempts))


class _Name(NamedTuple):
    """The name of an attempt at the provider: its number, and how many attempts had it before and were never sent."""

    number: int
    unsent_before: int = 0


def _names_of(payout: Payout, rows: Sequence[PayoutItem]) -> Mapping[int, _Name]:
    """The names of the next attempts to pay rows, by their lines. An attempt that was never sent leaves its name."""
    sent = defaultdict[int, list[bool]](list)
    if again := [row.line for row in rows if row.attempt > 1]:
        tried: Any = (
            PayoutAttempt.select(PayoutAttempt.line, Transaction.ask_attempts)
            .join(Transaction, on=(Transaction.id == PayoutAttempt.transaction_id))
            .where(PayoutAttempt.payout_id == payout.id, PayoutAttempt.line.in_(again))
            .order_by(PayoutAttempt.line, PayoutAttempt.number.desc())
        )
        for line, times in tried.tuples():
            sent[line].append(times > 0)
    each = {row.line: sent[row.line] for row in rows}
    return {line: _Name(1 + sum(was), sum(1 for _ in takewhile(not_, was))) for line, was in each.items()}


def _draft(
    creator: TransactionCreator,
    payout: Payout,
    row: PayoutItem,
    name: _Name,
    by: MadeBy,
    user_id: str | None,
    account: str,
) -> Draft:
    identity = RequestIdentity(
        payout.client_id,
        TransactionType.DISBURSEMENT,
        digest_of({"payout_id": payout.id, "line": row.line, "attempt": row.attempt}),
        transaction_reference(payout.reference, row.reference, row.attempt),
    )
    columns = DraftColumns(
        phone_number=row.phone_number,
        provider=row.provider,
        provider_account=account,
        account=MAIN_ACCOUNT,
        operator=payout.operator,
        payout_id=payout.id,
        description=row.description or payout.description,
        metadata=row.metadata,
        key_id=payout.counted_key_id,
        user_id=user_id,
        request_id=payout.approval_request_id,
    )
    holds = (MAIN_ACCOUNT, PROVIDER_ACCOUNT.format(account))
    draft = creator.draft(identity, Plan(row.amount_cents, columns, holds, made_by=by, fee_cents=row.fee_cents))
    if name.number < row.attempt:
        named = transaction_reference(payout.reference, row.reference, name.number)
        draft.row.provider_reference = creator.references.of_reference(payout.client_id, identity.type, named)
        draft.row.unsent_before = name.unsent_before or None
    return draft


def room_at(connection: Provider, owners: Owners, payout: Payout, now: datetime) -> int:
    """How many rows of a payout may be made now for a connection.

    At most half a second's rate is made and unsent, so that single payments do not queue behind payouts. The payouts
    that wait for the connection have equal shares of it.
    """
    provider, most = connection.name, max(1, int(connection.schedule.per_second * _SHARE_OF_A_SECOND))
    is_own = Transaction.payout_id == payout.id
    counts: Any = Transaction.select(fn.COUNT(Transaction.id), fn.COUNT(Transaction.id).filter(is_own)).where(
        Transaction.due_at <= now + _SOON,
        Transaction.provider == provider,
        _NEVER_SENT,
        owners.is_served(Transaction.client_id, connection),
    )
    ((unsent, own_unsent),) = counts.where(Transaction.payout_id.is_null(False)).tuples()
    waits = (PayoutItem.payout_id == Payout.id) & PayoutItem.waits & (PayoutItem.provider == provider)
    sharing = (
        Payout.select()
        .join(Client, on=(Client.id == Payout.client_id))
        .where(Payout.due_at <= now + _SOON, Client.is_active, fn.EXISTS(PayoutItem.select(SQL("1")).where(waits)))
        .where(owners.is_served(Payout.client_id, connection))
    )
    share = max(1, most // int(sharing.count()))
    return min(most - int(unsent), share - int(own_unsent))


def has_begun(payout: Payout) -> bool:
    """Whether a transaction of the round was made."""
    attempts = PayoutAttempt.select().where(PayoutAttempt.payout_id == payout.id, PayoutAttempt.round == payout.round)
    return bool(attempts.exists())


def is_under_way(payout_id: str, *, unsent: bool = False) -> bool:
    """Whether a transaction of a payout has no outcome yet; `unsent`: and was never sent."""
    rows = Transaction.select(Transaction.id).where(
        Transaction.payout_id == payout_id, _NEVER_SENT if unsent else Transaction.status.in_(UNFINISHED)
    )
    return bool(rows.limit(1).exists())


def late_success(row: Transaction) -> LateSuccess:
    """Decide about the success of a locked transaction of a payout that had failed.

    Locks the payout, so that no attempt is made meanwhile.
    """
    lock_row(Payout, row.payout_id)
    statuses = {other.status for other in other_attempts(row)}
    if statuses & set(SUCCESSFUL):
        return LateSuccess.SECOND
    if statuses & set(UNFINISHED):
        return LateSuccess.WAITS
    return LateSuccess.COUNTS


def has_left_name(row: Transaction) -> bool:
    """Whether a transaction was never sent and a later attempt has its name: its provider reports about that one."""
    return (
        row.payout_id is not None
        and row.ask_attempts == 0
        and any(each.provider_reference == row.provider_reference and each.id > row.id for each in other_attempts(row))
    )


def take_row(row: Transaction) -> None:
    """Let an attempt have its row, because it counts after `late_success`; release what is held for the next one."""
    own = PayoutAttempt.get(PayoutAttempt.transaction_id == row.id)
    release(lock_row(Payout, own.payout_id), [own.line])
    of_row = (PayoutItem.payout_id == own.payout_id) & (PayoutItem.line == own.line)
    PayoutItem.update(transaction_id=row.id).where(of_row).execute()
