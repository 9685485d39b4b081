"""Closing of days: the figures of a day in Kampala at a provider, kept with the bridge from ours to theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from peewee import JOIN, IntegrityError

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.incoming import IncomingPayment
from ussd_server.models.statements import (
    ClosedDay,
    DifferenceInStatement,
    ProviderStatement,
    StatementDifference,
    StatementState,
)
from ussd_server.models.transactions import Transaction, counts_elsewhere
from ussd_server.providers.statement_format import LineStatus
from ussd_server.runtime import Service
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.operator_names import require_name
from ussd_server.services.reconciliation.imports import lock_imports
from ussd_server.services.reconciliation.matching import AT_PROVIDERS, LONGEST_PAYMENT
from ussd_server.services.reconciliation.messages import BridgeStep, CloseDay, ClosedDayView, DayState, Verdict
from ussd_server.services.transactions.messages import SUCCESSFUL, Origin, TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA, bounds_of_day, kampala_day
from ussd_server.wire import view_of_row

_DAYS_LISTED = 31


class DayService(Service):
    """Closes days, for operators. A closed day never changes: what comes later counts on the day on which it comes."""

    def close(self, request: CloseDay, context: RequestContext) -> ClosedDayView:
        """Close a day: compute both sums and the bridge between them, and keep them.

        INVALID_REQUEST for a day that is not over or is closed, without a statement of this day alone, and while one of
        its differences is open. A day without payments here is also closed with an empty statement.
        """
        context.require_operator()
        by, now = require_name(request.by), self._clock.now()
        begin, end = bounds_of_day(request.date)
        if end > now:
            raise _refusal("The day is not over")
        with unit_of_work():
            lock_imports()
            row = {
                "provider": request.provider,
                "day": request.date.isoformat(),
                **_figures(request, begin, end),
                "closed_by": by,
                "closed_at": now,
            }
            try:
                with unit_of_work():
                    ClosedDay.insert(row).execute()
            except IntegrityError:
                raise _refusal("The day is closed already") from None
            write_audit_event(
                "day.closed",
                context,
                now,
                client_id=None,
                object_id=f"{request.provider} {request.date}",
                reason=None if row["statement_id"] else "Its statement was empty",
            )
        return _view(ClosedDay(**row))

    def may_be_empty(self, request: CloseDay, context: RequestContext) -> bool:
        """Whether a day without a statement of its own has no payment here either."""
        context.require_operator()
        begin, end = bounds_of_day(request.date)
        return _statement_of(request.provider, begin, end) is None and not _has_payments(request.provider, begin, end)

    def list(self, context: RequestContext) -> tuple[DayState, ...]:
        """The past 31 days of each provider that is switched on, newest first, and which of them are closed.

        Days before the first client are left out.
        """
        context.require_operator()
        today = self._clock.now().astimezone(KAMPALA).date()
        oldest = Client.select(Client.created_at).order_by(Client.created_at).first()
        first = kampala_day(oldest.created_at) if oldest else today.isoformat()
        past = ((today - timedelta(days=back)).isoformat() for back in range(1, _DAYS_LISTED + 1))
        days = [each for each in past if each >= first]
        closed = {(row.provider, row.day): _view(row) for row in ClosedDay.select().where(ClosedDay.day.in_(days))}
        names = sorted({*(each.name for each in self._providers), *(provider for provider, _ in closed)})
        return tuple(DayState(day, name, closed.get((name, day))) for day in days for name in names)


def _figures(request: CloseDay, begin: datetime, end: datetime) -> dict[str, Any]:
    """The statement of a day, both sums and the bridge between them."""
    provider, statement = request.provider, _statement_of(request.provider, begin, end)
    if statement is None:
        if not request.is_empty:
            raise _refusal(
                "No statement of this day alone was imported; download it from the provider and compare it first"
            )
        if _has_payments(provider, begin, end):
            raise _refusal("There are payments of this day here, so its statement cannot be empty")
        return {"statement_id": None, "ours_cents": 0, "theirs_cents": 0, "bridge": []}
    differences = _differences_of(statement)
    if count := sum(each.ended_at is None for each in differences):
        raise _refusal(f"{count} of its differences {'is' if count == 1 else 'are'} open; end their reviews first")
    payments = list(Transaction.select().where(_ended_within(provider, begin, end)))
    ours = sum(map(_signed_cents, payments))
    late = _late_changes(provider, payments, _paid_at(provider, begin, end))
    bridge = _bridge(ours - statement.theirs_cents, statement, differences, late)
    return {
        "statement_id": statement.id,
        "ours_cents": ours,
        "theirs_cents": statement.theirs_cents,
        "bridge": [asdict(step) for step in bridge],
    }


def _statement_of(provider: str, begin: datetime, end: datetime) -> ProviderStatement | None:
    """The newest stored statement whose lines are all of one day; None without one."""
    is_of_day = (ProviderStatement.first_at >= begin) & (ProviderStatement.last_at < end)
    stored = ProviderStatement.select().where(
        ProviderStatement.provider == provider, ProviderStatement.state == StatementState.STORED, is_of_day
    )
    row: ProviderStatement | None = stored.order_by(ProviderStatement.id.desc()).first()
    return row


def _has_payments(provider: str, begin: datetime, end: datetime) -> bool:
    """Whether a payment ended here on a day, or a payer paid on it."""
    came = (IncomingPayment.provider == provider) & (IncomingPayment.paid_at >= begin) & (IncomingPayment.paid_at < end)
    ended = Transaction.select().where(_ended_within(provider, begin, end))
    return bool(ended.exists() or IncomingPayment.select().where(came).exists())


def _differences_of(statement: ProviderStatement) -> Sequence[Any]:
    rows: Any = (
        StatementDifference.select(StatementDifference, Transaction)
        .join(DifferenceInStatement, on=(DifferenceInStatement.difference_id == StatementDifference.id))
        .switch(StatementDifference)
        .left_outer_join(Transaction, on=(Transaction.id == StatementDifference.transaction_id), attr="payment")
        .where(DifferenceInStatement.statement_id == statement.id)
    )
    return list(rows)


def _ended_within(provider: str, begin: datetime, end: datetime) -> Any:
    """The condition on what succeeded at a provider on a day, by its end here."""
    return (
        Transaction.client_id.in_(Client.select(Client.id))
        & (Transaction.completed_at >= begin)
        & (Transaction.completed_at < end)
        & (Transaction.provider == provider)
        & Transaction.status.in_(SUCCESSFUL)
        & Transaction.type.in_(AT_PROVIDERS)
        & ~counts_elsewhere()
    )


def _paid_at(provider: str, begin: datetime, end: datetime) -> dict[str, datetime]:
    """When payers paid what was booked on a day, by transaction; of a statement's line, when its closed day began."""
    rows: Any = (
        IncomingPayment.select(IncomingPayment.transaction_id, IncomingPayment.paid_at, ProviderStatement.first_at)
        .join(Transaction, on=(Transaction.id == IncomingPayment.transaction_id))
        .join_from(
            IncomingPayment,
            DifferenceInStatement,
            JOIN.LEFT_OUTER,
            on=(DifferenceInStatement.difference_id == IncomingPayment.difference_id),
        )
        .join(ClosedDay, JOIN.LEFT_OUTER, on=(ClosedDay.statement_id == DifferenceInStatement.statement_id))
        .join(ProviderStatement, JOIN.LEFT_OUTER, on=(ProviderStatement.id == ClosedDay.statement_id))
        .where(_ended_within(provider, begin, end), Transaction.origin == Origin.PAYER)
        .tuples()
    )
    return {each: paid or first for each, paid, first in rows if paid or first}


def _late_changes(provider: str, payments: Sequence[Transaction], paid_at: dict[str, datetime]) -> Sequence[BridgeStep]:
    """What ended on this day, long after it began on a day that is closed."""
    found: dict[str, list[int]] = {}
    for row in payments:
        began = paid_at.get(row.id, row.created_at)
        if row.late or row.completed_at - began > LONGEST_PAYMENT:
            found.setdefault(kampala_day(began), []).append(_signed_cents(row))
    closed = {
        row.day for row in ClosedDay.select().where(ClosedDay.provider == provider, ClosedDay.day.in_(list(found)))
    }
    return [
        BridgeStep("late_change", len(cents), sum(cents), day) for day, cents in sorted(found.items()) if day in closed
    ]


def _bridge(
    difference: int, statement: ProviderStatement, differences: Sequence[Any], late: Sequence[BridgeStep]
) -> list[BridgeStep]:
    amounts, counts = Counter[str](), Counter(statement.counts)
    for each in differences:
        amounts[each.verdict] += _contribution(each)
    steps = [
        BridgeStep(verdict.value, counts[verdict.value], amounts[verdict.value])
        for verdict in Verdict
        if counts[verdict.value]
    ]
    steps += late
    rest = difference - sum(step.amount_cents for step in steps)
    return [*steps, BridgeStep("timing", 0, rest)] if rest else steps


def _contribution(difference: Any) -> int:
    """What a difference adds to our sum and not to theirs, as the payment is now."""
    if difference.verdict != Verdict.STATUS_DIFFERS:
        return (difference.ours or 0) - (difference.theirs or 0)
    payment = difference.payment
    ours = _signed_cents(payment) if payment.status in SUCCESSFUL else 0
    theirs = _signed_cents(payment) if difference.theirs == LineStatus.SUCCEEDED else 0
    return ours - theirs


def _signed_cents(row: Transaction) -> int:
    cents: int = row.amount_cents
    return cents if row.type == TransactionType.COLLECTION else -cents


def _view(row: ClosedDay) -> ClosedDayView:
    return view_of_row(
        ClosedDayView,
        row,
        date=row.day,
        difference_cents=row.ours_cents - row.theirs_cents,
        bridge=tuple(BridgeStep(**step) for step in row.bridge),
    )


def _refusal(sentence: str) -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, sentence)
