"""Payouts and their rows as clients see them. The state of a row is that of its transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from peewee import SQL, Case, fn

from ussd_server.models.payouts import Payout, PayoutItem
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.payouts.approvers import approval_views, standing, standing_of
from ussd_server.services.payouts.messages import (
    FIELDS,
    ItemState,
    NameMatch,
    PayoutItemView,
    PayoutStates,
    PayoutStatus,
    PayoutView,
    StateSum,
)
from ussd_server.services.same_person import ids_of_same_person
from ussd_server.services.transactions.history import failure_of
from ussd_server.services.transactions.messages import SUCCESSFUL, TransactionStatus
from ussd_server.services.webhooks.events import write_event
from ussd_server.values import grouped, iso_milliseconds, kampala_day, new_id_floor, shillings
from ussd_server.wire import view_of_row, writer

# How far back equal payments of other payouts are named.
_RECENT = timedelta(days=7)
# How many lines a warning names.
_MOST_LINES_NAMED = 10
_NEVER_SENT = Transaction.asked_at.is_null()

_TRANSACTION_STATE: Any = Case(
    None,
    (
        (Transaction.status.in_(SUCCESSFUL), ItemState.SUCCEEDED),
        (
            (Transaction.status == TransactionStatus.FAILED)
            & (Transaction.failure_code == FailureCode.CANCELLED)
            & _NEVER_SENT,
            ItemState.CANCELLED,
        ),
        (Transaction.status == TransactionStatus.FAILED, ItemState.FAILED),
        (
            Transaction.status.in_([TransactionStatus.CREATED, TransactionStatus.SUBMITTED]) & _NEVER_SENT,
            ItemState.QUEUED,
        ),
    ),
    ItemState.SENT,
)
"""The state of a row that has a transaction."""


def item_state(payout: Payout) -> Any:
    """The state of a row of `payout`, in a query that joins the transactions of the rows."""
    waiting = ItemState.CANCELLED if payout.status == PayoutStatus.CANCELLED else ItemState.READY
    return Case(
        None,
        ((~PayoutItem.is_ready, ItemState.INVALID), (PayoutItem.transaction_id.is_null(), waiting)),
        _TRANSACTION_STATE,
    )


def _states_of(payouts: Collection[Payout]) -> defaultdict[str, dict[ItemState, StateSum]]:
    """How many rows of each payout are in each state, and their sums, by the payout's id."""
    states: defaultdict[str, dict[ItemState, StateSum]] = defaultdict(dict)
    for payout in payouts:
        if payout.invalid_count:
            # What rows with problems would add up to means nothing.
            states[payout.id][ItemState.INVALID] = StateSum(payout.invalid_count, 0, 0)
        if payout.reserved_at is None and payout.ready_count:
            state = ItemState.CANCELLED if payout.status == PayoutStatus.CANCELLED else ItemState.READY
            states[payout.id][state] = StateSum(payout.ready_count, payout.total_amount_cents, payout.total_fee_cents)
    reserved = [payout.id for payout in payouts if payout.reserved_at is not None]
    if reserved:
        sums: Any = (
            Transaction.select(
                Transaction.payout_id,
                _TRANSACTION_STATE.alias("state"),
                fn.COUNT(Transaction.id),
                fn.SUM(Transaction.amount_cents),
                fn.SUM(Transaction.fee_cents),
            )
            .where(Transaction.payout_id.in_(reserved))
            .group_by(Transaction.payout_id, SQL("state"))
        )
        if any(payout.reservation_number > 1 for payout in payouts):
            # Transactions of a reservation that was withdrawn are no rows any more.
            sums = sums.join(PayoutItem, on=(PayoutItem.transaction_id == Transaction.id))
        for payout_id, state, count, amount_cents, fee_cents in sums.tuples():
            states[str(payout_id)][ItemState(state)] = StateSum(int(count), int(amount_cents), int(fee_cents))
    return states


_WRITE = writer(PayoutView)


def payout_view(row: Payout) -> PayoutStates:
    return payout_views([row])[0]


def payout_views(rows: Sequence[Payout]) -> tuple[PayoutStates, ...]:
    states = _states_of(rows)
    approvals = standing_of([row.id for row in rows])

    def count(row: Payout, state: ItemState) -> int:
        return states[row.id][state].count if state in states[row.id] else 0

    return tuple(
        view_of_row(
            PayoutStates,
            row,
            payout_id=row.id,
            succeeded_count=count(row, ItemState.SUCCEEDED),
            failed_count=count(row, ItemState.FAILED),
            queued_count=count(row, ItemState.QUEUED),
            states=states[row.id],
            approvals=approval_views(approvals[row.id]),
        )
        for row in rows
    )


def warnings_of(payout: Payout) -> dict[str, str]:
    """Warnings by phone number: the numbers that several valid rows have."""
    rows: Any = PayoutItem.select(PayoutItem.phone_number, PayoutItem.line).where(
        PayoutItem.payout_id == payout.id, PayoutItem.is_ready
    )
    numbers = rows.select(PayoutItem.phone_number).group_by(PayoutItem.phone_number)
    repeated = numbers.having(fn.COUNT(PayoutItem.line) > 1)
    lines = defaultdict(list)
    for line, number in sorted(
        (line, number) for number, line in rows.where(PayoutItem.phone_number.in_(repeated)).tuples()
    ):
        lines[number].append(str(line))
    return {
        number: f"number occurs in rows {', '.join(found[:_MOST_LINES_NAMED])}"
        + (f" and {len(found) - _MOST_LINES_NAMED} more" if len(found) > _MOST_LINES_NAMED else "")
        for number, found in lines.items()
    }


def equal_payments(payout: Payout, first_line: int = 1, last_line: int | None = None) -> dict[int, str]:
    """The ready rows, by their lines, whose amount another payout pays to the same number, and which payout.

    Counted are payments that did not fail, from seven days before this payout was made until it reserved its money.
    """
    of_row = (
        (Transaction.client_id == payout.client_id)
        & (Transaction.phone_number == PayoutItem.phone_number)
        & (Transaction.amount_cents == PayoutItem.amount_cents)
    )
    rows: Any = (
        PayoutItem.select(PayoutItem.line, Payout.reference, Transaction.created_at)
        .join(Transaction, on=of_row)
        .join(Payout, on=(Payout.id == Transaction.payout_id))
        .where(PayoutItem.payout_id == payout.id, PayoutItem.is_ready, PayoutItem.line >= first_line)
        .where(Transaction.payout_id != payout.id, Transaction.status != TransactionStatus.FAILED)
        .where(Transaction.id >= new_id_floor(payout.created_at - _RECENT))
        .order_by(Transaction.id)
    )
    if last_line is not None:
        rows = rows.where(PayoutItem.line <= last_line)
    if payout.reserved_at is not None:
        rows = rows.where(Transaction.id < new_id_floor(payout.reserved_at))
    return {
        line: f"equal payment in payout {reference} of {kampala_day(created_at)}"
        for line, reference, created_at in rows.tuples()
    }


def item_view(row: Any, state: ItemState, warning: str | None) -> PayoutItemView:
    """A row as its client sees it; `row.transaction` is its transaction where it has one."""
    transaction = row.transaction if row.transaction_id is not None else None
    return view_of_row(
        PayoutItemView,
        row,
        fee_cents=row.fee_cents if transaction is None else transaction.fee_cents,
        name_match=None if row.name is None else NameMatch(row.name_match or NameMatch.UNKNOWN),
        provider_transaction_id=None if transaction is None else transaction.provider_transaction_id,
        state=state,
        problems=tuple(row.problems or ()),
        warning=warning,
        failure=failure_of(transaction) if state is ItemState.FAILED and transaction is not None else None,
    )


def mark_cancelled(row: Payout, now: datetime) -> None:
    """Make a payout cancelled, with nothing left to do. The caller saves it."""
    row.status, row.cancelled_at, row.updated_at = PayoutStatus.CANCELLED, now, now
    row.due_at = row.leased_until = row.lease_token = row.draft_digest = None


def complete(row: Payout, outbox: MailOutbox, now: datetime) -> None:
    """Complete a payout of which no row is under way. Call in its unit of work, with the row locked."""
    if row.status != PayoutStatus.CANCELLED:
        row.status = PayoutStatus.COMPLETED
    row.completed_at, row.due_at, row.updated_at = now, None, now
    row.save()
    write_payout_event(row, "payout.completed", outbox, now)


def ask_for_approval(row: Payout, outbox: MailOutbox, now: datetime) -> None:
    """Write mails to people who may approve a draft. Call in its unit of work, with the row locked."""
    _notify(MailKind.NEEDS_APPROVAL, row, payout_view(row), outbox, now)


def write_payout_event(row: Payout, event_type: str, outbox: MailOutbox, now: datetime) -> None:
    """Write an event about a payout with its record as it is now. Call in its unit of work, with the row locked."""
    view = payout_view(row)
    write_event(row.client_id, event_type, row.id, _WRITE(view), now)
    _notify(MailKind(event_type), row, view, outbox, now)


def _notify(kind: MailKind, row: Payout, view: PayoutView, outbox: MailOutbox, now: datetime) -> None:
    """Write mails about a payout; people who count as one person with its maker are not asked to approve it."""
    parameters = {
        "reference": view.reference,
        "status": view.status,
        "page": f"/console/payouts/{row.id}",
        "rows": f"{view.ready_count:,}",
        "amount": grouped(view.total_amount_cents),
        "cost": grouped(view.total_amount_cents + view.total_fee_cents),
        "succeeded": f"{view.succeeded_count:,}",
        "failed": f"{view.failed_count:,}",
        "notes": " ".join(f"“{note}”" for note in [*(each.note for each in view.approvals), row.cancel_note] if note),
        "withdrawal": row.withdrawal_reason or "",
    }
    without = ids_of_same_person(row.client_id, people_of_payout(row)) if kind is MailKind.NEEDS_APPROVAL else ()
    occasion = f"{kind}/{row.id}/{len(view.approvals)}/{iso_milliseconds(row.withdrawn_at) if row.withdrawn_at else ''}"
    outbox.notify_people(kind, row.client_id, parameters, now, occasion=occasion, without=without)


def people_of_payout(row: Payout) -> frozenset[str]:
    """The people behind the maker of a payout and behind its approvals."""
    people: frozenset[str] = row.people
    return people.union(*(each.people for each in standing(row.id)))


def fields_of(item: Any) -> dict[str, str]:
    """The fields of a stored row as people type them."""
    amount = item.amount_text if item.amount_cents is None else str(shillings(item.amount_cents))
    kept = {name: amount if name == "amount" else getattr(item, name) for name in FIELDS}
    return {name: (value or "").strip() for name, value in kept.items()}
