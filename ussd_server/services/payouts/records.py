"""Payouts and their rows as clients see them. The state of a row is that of its last attempt, or of its round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from peewee import JOIN, SQL, Case, fn

from ussd_server.context import CallerKind, RequestContext
from ussd_server.languages import marked
from ussd_server.models.payouts import Payout, PayoutAttempt, PayoutItem
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.payouts.approval.approvers import standing, standing_of
from ussd_server.services.payouts.messages import (
    ApprovalView,
    AttemptView,
    ItemState,
    NameMatch,
    PayoutItemView,
    PayoutStates,
    PayoutStatus,
    PayoutView,
    RoundView,
    StateSum,
)
from ussd_server.services.same_person import ids_of_same_person
from ussd_server.services.transactions.history import failure_of
from ussd_server.services.transactions.messages import SUCCESSFUL, TransactionStatus
from ussd_server.services.webhooks.events import write_event
from ussd_server.values import grouped, iso_milliseconds, kampala_day, new_id_floor
from ussd_server.wire import view_of_row, writer

# How far back equal payments of other payouts are named.
_RECENT = timedelta(days=7)
# How many lines a warning names.
_MOST_LINES_NAMED = 10
_NEVER_SENT = Transaction.asked_at.is_null()
_NOT_PAID = (ItemState.FAILED, ItemState.CANCELLED)


def item_state() -> Any:
    """The state of a row, in a query that joins payouts, and the transactions of their rows' last attempts."""
    is_open = Payout.reserved_at.is_null() & Payout.status.in_([PayoutStatus.DRAFT, PayoutStatus.APPROVED])
    is_unsent = _NEVER_SENT & Transaction.status.in_([TransactionStatus.CREATED, TransactionStatus.SUBMITTED])
    has_failed = Transaction.status == TransactionStatus.FAILED
    return Case(
        None,
        (
            (~PayoutItem.is_ready, ItemState.INVALID),
            (PayoutItem.waits, ItemState.QUEUED),
            (is_open & (PayoutItem.round == Payout.round), ItemState.READY),
            (PayoutItem.transaction_id.is_null(), ItemState.CANCELLED),
            (Transaction.status.in_(SUCCESSFUL), ItemState.SUCCEEDED),
            (
                has_failed & (Transaction.failure_code == FailureCode.CANCELLED) & _NEVER_SENT,
                ItemState.CANCELLED,
            ),
            (has_failed, ItemState.FAILED),
            (is_unsent, ItemState.QUEUED),
        ),
        ItemState.SENT,
    )


def rows_of_payouts(*columns: Any) -> Any:
    """Select of rows of payouts, joined as `item_state` needs it."""
    return (
        PayoutItem.select(*columns)
        .join(Payout, on=(Payout.id == PayoutItem.payout_id))
        .switch(PayoutItem)
        .join(Transaction, JOIN.LEFT_OUTER, on=(Transaction.id == PayoutItem.transaction_id), attr="transaction")
    )


def _states_of(payouts: Collection[Payout]) -> defaultdict[str, dict[ItemState, StateSum]]:
    """How many rows of each payout are in each state, and their sums, by the payout's id."""
    states: defaultdict[str, dict[ItemState, StateSum]] = defaultdict(dict)
    for payout in payouts:
        if payout.invalid_count:
            # What rows with problems would add up to means nothing.
            states[payout.id][ItemState.INVALID] = StateSum(payout.invalid_count, 0, 0)
        if not _has_begun(payout) and payout.ready_count:
            state = ItemState.CANCELLED if payout.status == PayoutStatus.CANCELLED else ItemState.READY
            states[payout.id][state] = StateSum(payout.ready_count, payout.total_amount_cents, payout.total_fee_cents)
    begun = [payout.id for payout in payouts if _has_begun(payout)]
    sums: Any = rows_of_payouts(
        PayoutItem.payout_id,
        item_state().alias("state"),
        fn.COUNT(PayoutItem.line),
        fn.SUM(PayoutItem.amount_cents),
        fn.SUM(PayoutItem.fee_cents),
    )
    of_begun = PayoutItem.payout_id.in_(begun) & PayoutItem.is_ready
    grouped_sums = sums.where(of_begun).group_by(PayoutItem.payout_id, SQL("state")).tuples() if begun else ()
    for payout_id, state, count, amount_cents, fee_cents in grouped_sums:
        states[str(payout_id)][ItemState(state)] = StateSum(int(count), int(amount_cents), int(fee_cents))
    return states


def _has_begun(payout: Payout) -> bool:
    """Whether rows of a payout may have states of their own."""
    return payout.reserved_at is not None or payout.round > 1


_WRITE = writer(PayoutView)


def payout_view(row: Payout) -> PayoutStates:
    return payout_views([row])[0]


def payout_views(rows: Sequence[Payout]) -> tuple[PayoutStates, ...]:
    states = _states_of(rows)
    approvals = standing_of(rows)

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
            approvals=tuple(ApprovalView(each.made_by, each.created_at, each.note) for each in approvals[row.id]),
            round=RoundView(row.round, row.round_count, row.round_amount_cents, row.round_fee_cents, row.round_by),
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
    for number, line in rows.where(PayoutItem.phone_number.in_(repeated)).order_by(PayoutItem.line).tuples():
        lines[number].append(str(line))
    return {
        number: f"number occurs in rows {', '.join(found[:_MOST_LINES_NAMED])}"
        + (f" and {len(found) - _MOST_LINES_NAMED} more" if len(found) > _MOST_LINES_NAMED else "")
        for number, found in lines.items()
    }


def equal_payments(payout: Payout, first_line: int = 1, last_line: int | None = None) -> dict[int, str]:
    """The rows of the round, by their lines, whose amount another payout pays to the same number, and which payout.

    Counted are payments that did not fail, from seven days before this payout was made until it reserved its money, and
    rows that wait to be sent.
    """
    mine: Any = PayoutItem.alias("mine")
    conditions = [mine.payout_id == payout.id, mine.is_ready, mine.round == payout.round, mine.line >= first_line]
    if last_line is not None:
        conditions.append(mine.line <= last_line)
    # Each number and amount once: thousands of equal rows would meet as many of another payout.
    wanted = mine.select(mine.phone_number, mine.amount_cents).where(*conditions).distinct().alias("wanted")
    equal = _equal_waiting(payout, wanted) | _equal_paid(payout, wanted)
    rows = mine.select(mine.line, mine.phone_number, mine.amount_cents).where(*conditions).tuples()
    return {line: equal[number, cents] for line, number, cents in rows if (number, cents) in equal}


_Equal = dict[tuple[str, int], str]


def _equal_waiting(payout: Payout, wanted: Any) -> _Equal:
    rows: Any = (
        PayoutItem.select(wanted.c.phone_number, wanted.c.amount_cents, Payout.reference, Payout.reserved_at)
        .join(wanted, on=_is_wanted(PayoutItem, wanted) & PayoutItem.waits)
        .join_from(PayoutItem, Payout, on=(Payout.id == PayoutItem.payout_id))
        .where(Payout.id != payout.id, Payout.client_id == payout.client_id)
        .distinct()
        .order_by(Payout.reserved_at)
    )
    if payout.reserved_at is not None:
        rows = rows.where(Payout.reserved_at < payout.reserved_at)
    return _named(rows)


def _equal_paid(payout: Payout, wanted: Any) -> _Equal:
    paid_at = fn.MAX(Transaction.created_at)
    rows: Any = (
        Transaction.select(wanted.c.phone_number, wanted.c.amount_cents, Payout.reference, paid_at)
        .join(wanted, on=_is_wanted(Transaction, wanted))
        .join_from(Transaction, Payout, on=(Payout.id == Transaction.payout_id))
        .where(Transaction.client_id == payout.client_id, Transaction.payout_id != payout.id)
        .where(Transaction.status != TransactionStatus.FAILED)
        .where(Transaction.id >= new_id_floor(payout.created_at - _RECENT))
        .group_by(wanted.c.phone_number, wanted.c.amount_cents, Payout.reference)
        .order_by(paid_at)
    )
    if payout.reserved_at is not None:
        rows = rows.where(Transaction.id < new_id_floor(payout.reserved_at))
    return _named(rows)


def _is_wanted(model: Any, wanted: Any) -> Any:
    return (model.phone_number == wanted.c.phone_number) & (model.amount_cents == wanted.c.amount_cents)


def _named(rows: Any) -> _Equal:
    """The newest payment of each number and amount, from rows in the order of their moments."""
    return {
        (number, cents): marked(f"equal payment in payout {reference} of {kampala_day(moment)}")
        for number, cents, reference, moment in rows.tuples()
    }


def item_view(
    payout: Payout, row: Any, state: ItemState, warning: str | None, attempts: Sequence[tuple[int, Transaction]] = ()
) -> PayoutItemView:
    """A row as its client sees it; `row.transaction` is its transaction where it has one."""
    is_looked_up = payout.status == PayoutStatus.DRAFT and payout.due_at is not None
    transaction = row.transaction if row.transaction_id is not None else None
    return view_of_row(
        PayoutItemView,
        row,
        name_match=None if row.name is None else NameMatch(row.name_match or NameMatch.UNKNOWN),
        is_name_awaited=is_looked_up and row.is_ready and row.name is not None and row.name_match is None,
        provider_transaction_id=None if transaction is None else transaction.provider_transaction_id,
        state=state,
        problems=tuple(row.problems or ()),
        warning=warning,
        failure=failure_of(transaction) if state is ItemState.FAILED and transaction is not None else None,
        attempts=tuple(
            AttemptView(number, each.id, TransactionStatus(each.status), failure_of(each), each.created_at)
            for number, each in attempts
        ),
        retry_at=None if state not in _NOT_PAID or transaction is None else retry_at(transaction),
    )


def retry_at(transaction: Transaction) -> datetime | None:
    """From when a failed row may be retried, where its provider may take the failure back until then."""
    moment: datetime | None = transaction.due_at
    return None if transaction.is_in_review or not transaction.ask_attempts else moment


def attempts_of(payout_id: str, lines: Collection[int] | None = None) -> Mapping[int, list[tuple[int, Transaction]]]:
    """The attempts to pay the rows with these lines, or all rows, each with its number, by the lines."""
    rows: Any = (
        PayoutAttempt.select(PayoutAttempt, Transaction)
        .join(Transaction, on=(Transaction.id == PayoutAttempt.transaction_id), attr="transaction")
        .where(PayoutAttempt.payout_id == payout_id)
    )
    if lines is not None:
        rows = rows.where(PayoutAttempt.line.in_(list(lines)))
    by_line = defaultdict[int, list[tuple[int, Transaction]]](list)
    for row in rows.order_by(PayoutAttempt.line, PayoutAttempt.number):
        by_line[row.line].append((row.number, row.transaction))
    return by_line


def mark_cancelled(row: Payout, now: datetime) -> None:
    """Make a payout cancelled, with nothing left to do. The caller saves it."""
    row.status, row.cancelled_at, row.updated_at = PayoutStatus.CANCELLED, now, now
    row.due_at = row.leased_until = row.lease_token = row.draft_digest = None


def begin_draft(row: Payout, now: datetime) -> None:
    """Make a payout a draft without an approval or a reservation, whose names are looked up. The caller saves it."""
    row.status = PayoutStatus.DRAFT
    row.approved_by = row.approved_at = row.approval_request_id = row.approval_digest = row.approved_fee_cents = None
    row.key_id = row.counted_key_id = row.key_limit_cents = None
    row.reserved_at = row.needs_money_at = None
    row.due_at = now


def complete(row: Payout, outbox: MailOutbox, now: datetime) -> None:
    """Complete a payout of which no row is under way. Call in its unit of work, with the row locked."""
    if row.status != PayoutStatus.CANCELLED:
        row.status = PayoutStatus.COMPLETED
    row.completed_at, row.due_at, row.updated_at = now, None, now
    row.save()
    write_payout_event(row, "payout.completed", outbox, now)


def write_payout_audit(action: str, row: Payout, reason: str | None, context: RequestContext, now: datetime) -> None:
    """Write an audit event about a payout, marked as automatic where nobody caused it."""
    is_automatic = context.caller.kind is CallerKind.NOBODY
    about = {"client_id": row.client_id, "object_id": row.id, "reason": reason}
    write_audit_event(action, context, now, is_automatic=is_automatic, **about)


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
        "rows": f"{row.round_count:,}",
        "amount": grouped(row.round_amount_cents),
        "cost": grouped(row.round_amount_cents + row.round_fee_cents),
        "succeeded": f"{view.succeeded_count:,}",
        "failed": f"{view.failed_count:,}",
        "notes": " ".join(f"“{note}”" for note in [*(each.note for each in view.approvals), row.cancel_note] if note),
        "withdrawal": row.withdrawal_reason or "",
    }
    without = ids_of_same_person(row.client_id, people_of_payout(row)) if kind is MailKind.NEEDS_APPROVAL else ()
    withdrawn_at = iso_milliseconds(row.withdrawn_at) if row.withdrawn_at else ""
    occasion = f"{kind}/{row.id}/{row.round}/{len(view.approvals)}/{withdrawn_at}"
    outbox.notify_people(kind, row.client_id, parameters, now, occasion=occasion, without=without)


def people_of_payout(row: Payout) -> frozenset[str]:
    """The people behind the makers of a payout and of its round, and behind its approvals."""
    return people_of_makers(row).union(*(each.people for each in standing(row)))


def people_of_makers(row: Payout) -> frozenset[str]:
    """The people behind the maker of a payout and behind the maker of its round."""
    people: frozenset[str] = row.people | row.round_people
    return people
