"""Closing of days: the figures of a day in Kampala at a provider, kept with the bridge from ours to theirs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta

from peewee import IntegrityError

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.movements import Movement, counts
from ussd_server.models.providers import ProviderAccount
from ussd_server.models.statements import ClosedDay, ProviderStatement, StatementDay, StatementState
from ussd_server.models.transactions import Transaction
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.gates.given_back import is_given_back
from ussd_server.services.operator_names import require_name, require_two_names
from ussd_server.services.providers.accounts import provider_of
from ussd_server.services.reconciliation.days.bridge import (
    SETTLES_WITHIN,
    DayBridge,
    DayPayment,
    bridge_of,
    ended_within,
)
from ussd_server.services.reconciliation.days.coverage import Coverage, coverage_of
from ussd_server.services.reconciliation.days.proofs import DayProofs
from ussd_server.services.reconciliation.imports import add_missing, lasting_movements, lock_imports
from ussd_server.services.reconciliation.messages import (
    BridgeStep,
    CloseDay,
    ClosedDayView,
    ComparedLine,
    DayState,
    Verdict,
)
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import SUCCESSFUL
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA, bounds_of_day, kampala_day, new_id, written_amount
from ussd_server.wire import columns_of, view_of_row

_DAYS_LISTED = 31


@dataclass(frozen=True, slots=True)
class DayPage:
    """What operators see of a day: how it was closed, or the bridge with which it can be, or why there is none.

    `statement_id` is the newest statement with a line of a day that none covers: operators can state that it does. A
    day that `may_be_empty` has no payment either.
    """

    closed: ClosedDayView | None = None
    bridge: DayBridge | None = None
    refusal: str | None = None
    statement_id: str | None = None
    may_be_empty: bool = False


class DayService:
    """Closes days, for operators. A closed day never changes: what comes later counts on the day on which it comes."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._vault, self._providers = runtime.clock, runtime.vault, runtime.providers

    def close(self, request: CloseDay, context: RequestContext) -> ClosedDayView:
        """Close a day: compute both sums and the bridge between them, and keep them with their proof.

        INVALID_REQUEST for an unknown account, a day that is not over or is closed, that no statement covers, while one
        of its differences is open, and with one name where the bridge takes two. Payments of ours that the statements
        lack become differences of the newest statement first. A day without payments here is also closed with an empty
        statement.
        """
        context.require_operator()
        by, second = request.by, request.second
        names = (require_name(by),) if second is None else require_two_names(by, second)
        covered, closed_count = _covered(request), _closed_count(request)
        now = self._clock.now()
        bridge = self._bridge(request, covered, now)
        if bridge.missing and covered is not None:
            missing = [_without_line(each) for each in bridge.missing]
            add_missing(covered.statement_ids[-1], request.account, missing, now)
            raise _refusal(f"{_of_missing(len(missing))}; end the reviews of these differences first")
        _require_signable(bridge, len(names))
        with unit_of_work():
            lock_imports()
            # Nothing else that the bridge was computed from changes: its payments ended a minute ago at least, and what
            # was given back since then counts later.
            if _covered(request) != covered:
                raise _refusal("Statements of this day were imported or removed meanwhile; close it again")
            if _closed_count(request) != closed_count:
                raise _refusal("Another day was closed meanwhile; close it again")
            row = ClosedDay(
                account=request.account,
                day=request.date.isoformat(),
                statement_id=covered.statement_ids[-1] if covered else None,
                ours_cents=bridge.ours_cents,
                theirs_cents=bridge.theirs_cents,
                bridge=[asdict(step) for step in bridge.steps],
                closed_by=names[0],
                closed_at=now,
                confirmed_by=names[1] if len(names) > 1 else None,
            )
            self._keep(row, covered, bridge, context)
        return _view(row)

    def show(self, request: CloseDay, context: RequestContext) -> ClosedDayView | None:
        """A closed day; None for one that is open."""
        context.require_operator()
        row = ClosedDay.get_or_none(account=request.account, day=request.date.isoformat())
        return _view(row) if row else None

    def bridge(self, request: CloseDay, context: RequestContext) -> DayBridge:
        """Both sums of an open day and what is between them, also what is open yet; changes nothing.

        INVALID_REQUEST for a day that is not over, or that no statement covers.
        """
        context.require_operator()
        return self._bridge(request, _covered(request), self._clock.now())

    def preview(self, request: CloseDay, context: RequestContext) -> DayBridge:
        """The bridge with which two operators can close a day now. Raises as `close`, and changes nothing."""
        if self.show(request, context) is not None:
            raise _refusal("The day is closed already")
        bridge = self.bridge(request, context)
        if bridge.missing:
            raise _refusal(_of_missing(len(bridge.missing)))
        _require_signable(bridge, 2)
        return bridge

    def page(self, request: CloseDay, context: RequestContext) -> DayPage:
        """What is known of a day; changes nothing."""
        if (closed := self.show(request, context)) is not None:
            return DayPage(closed)
        covered, now = _covered(request), self._clock.now()
        statement_id = None if covered else _statement_with_lines(request)
        try:
            return DayPage(bridge=self._bridge(request, covered, now), statement_id=statement_id)
        except ServiceError as refusal:
            may_be_empty = not (covered or statement_id or _has_payments(request, now))
            return DayPage(refusal=refusal.message, statement_id=statement_id, may_be_empty=may_be_empty)

    def list(self, context: RequestContext) -> tuple[DayState, ...]:
        """The past 31 days of each account while the settings had it, newest first, and which of them are closed.

        Days before the first client was made are left out.
        """
        context.require_operator()
        now = self._clock.now()
        today, began = (at.astimezone(KAMPALA).date() for at in (now, _first_moment() or now))
        past = (today - timedelta(days=back) for back in range(1, _DAYS_LISTED + 1))
        days = [day.isoformat() for day in past if day >= began]
        closed = {(row.account, row.day): _view(row) for row in ClosedDay.select().where(ClosedDay.day.in_(days))}
        until = {row.account: kampala_day(row.asked_at) for row in ProviderAccount.select()}
        until |= dict.fromkeys(self._providers.accounts, days[0] if days else "")
        names = sorted({*until, *(account for account, _ in closed)})
        return tuple(
            _state(day, name, closed.get((name, day)))
            for day in days
            for name in names
            if day <= until.get(name, "") or (name, day) in closed
        )

    def _bridge(self, request: CloseDay, covered: Coverage | None, now: datetime) -> DayBridge:
        """The bridge of a day that is over, if it is closed now."""
        provider_of(request.account, self._providers)
        if bounds_of_day(request.date)[1] + SETTLES_WITHIN > now:
            raise _refusal("The day is not over, or has just ended; wait a minute")
        if covered is not None:
            bridge = bridge_of(request.account, request.date, covered, now)
            return replace(bridge, undecided_count=_undecided(bridge))
        if not request.is_empty:
            raise _refusal(
                "No statement covers this day from before its first moment to after its last; import one that does, or "
                "state that its statement covers it, which another operator confirms"
            )
        if _has_payments(request, now):
            raise _refusal("There are payments of this day here, so its statement cannot be empty")
        if _statement_with_lines(request):
            raise _refusal("A statement has lines of this day, so its statement cannot be empty")
        return DayBridge(0, 0, (), (), 0, frozenset(), frozenset(), "")

    def _keep(self, row: ClosedDay, covered: Coverage | None, bridge: DayBridge, context: RequestContext) -> None:
        try:
            with unit_of_work():
                ClosedDay.insert(columns_of(row)).execute()
        except IntegrityError:
            raise _refusal("The day is closed already") from None
        DayProofs(self._vault).write(new_id(row.closed_at), row, covered, bridge)
        write_audit_event(
            "day.closed",
            context,
            row.closed_at,
            client_id=None,
            object_id=f"{row.account} {row.day}",
            reason=None if covered else "Its statement was empty",
            decided_by=f"{row.closed_by}, {row.confirmed_by}" if row.confirmed_by else None,
        )


def _first_moment() -> datetime | None:
    """When the first client was made; None before."""
    first = Client.select(Client.created_at).order_by(Client.created_at).first()
    return first.created_at if first else None


def _state(day: str, account: str, closed: ClosedDayView | None) -> DayState:
    is_covered = closed is None and coverage_of(account, *bounds_of_day(date.fromisoformat(day))) is not None
    return DayState(day, account, closed, is_covered)


def _covered(request: CloseDay) -> Coverage | None:
    return coverage_of(request.account, *bounds_of_day(request.date))


def _closed_count(request: CloseDay) -> int:
    """How many days of the account are closed; none is opened again."""
    return int(ClosedDay.select().where(ClosedDay.account == request.account).count())


def _require_signable(bridge: DayBridge, people: int) -> None:
    if count := bridge.open_count + bridge.undecided_count:
        are_open = f"{count} of its differences {'is' if count == 1 else 'are'} open"
        raise _refusal(f"{are_open}; end their reviews, or say first what a held movement beside a payment is")
    if people < 2 and bridge.steps_for_two:
        names = ", ".join(f"{step.verdict} {written_amount(step.amount_cents)}" for step in bridge.steps_for_two)
        raise _refusal(f"This bridge takes two operators: {names}")


def _undecided(bridge: DayBridge) -> int:
    """How many held movements of a day may be successes of ours, which two operators have to say first.

    Not one that the newest statement replaced, where the older one cannot be undone any more.
    """
    undecided = bridge.held_ids - lasting_movements(bridge.replaced_ids)
    beside = {
        each["transaction_id"]
        for row in Movement.select().where(Movement.id.in_(undecided))
        for each in row.beside
        if each.get("transaction_id")
    }
    count = Transaction.status.in_(SUCCESSFUL) & ~is_given_back()
    return int(Transaction.select().where(Transaction.id.in_(beside), count).count())


def _has_payments(request: CloseDay, now: datetime) -> bool:
    """Whether a payment ended here on a day, or a payer paid on it."""
    begin, end = bounds_of_day(request.date)
    came = counts() & (Movement.account == request.account) & (Movement.at >= begin) & (Movement.at < end)
    ended = Transaction.select().where(ended_within(request.account, begin, end, now))
    return bool(ended.exists() or Movement.select().where(came).exists())


def _statement_with_lines(request: CloseDay) -> str | None:
    """The newest stored statement with a line of a day."""
    of_account = (ProviderStatement.account == request.account) & (ProviderStatement.state == StatementState.STORED)
    lines = ProviderStatement.select().join(StatementDay, on=(ProviderStatement.id == StatementDay.statement_id))
    of_day = lines.where(of_account, StatementDay.day == request.date.isoformat())
    newest = of_day.order_by(ProviderStatement.id.desc()).first()
    return newest.id if newest else None


def _without_line(payment: DayPayment) -> ComparedLine:
    return ComparedLine(
        line=None,
        verdict=Verdict.NOT_THEIRS,
        provider_id=payment.provider_id,
        reference=payment.reference,
        transaction_id=payment.id,
        ours=payment.signed_cents,
        theirs=None,
        is_difference=True,
        at=payment.completed_at,
    )


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


def _of_missing(count: int) -> str:
    return f"{count:,} payment{' of ours has' if count == 1 else 's of ours have'} no line in its statements"
