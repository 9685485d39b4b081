"""Coverage of days: a day is compared with all lines of all statements that cover it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from ussd_server.models.statements import CoverageKind, ProviderStatement, StatementCoverage, StatementState
from ussd_server.services.reconciliation.reading.running_balance import BalanceRun
from ussd_server.services.reconciliation.reading.statement_lines import Period
from ussd_server.status import Code, ServiceError
from ussd_server.values import bounds_of_day, new_id

# Statements whose balances join are looked for within this time before and after a day.
_LONGEST_CHAIN = timedelta(days=62)
_LONGEST_STATED = timedelta(days=399)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The statements that cover a day, the newest last, and the ends of what they cover."""

    statement_ids: tuple[str, ...]
    first_at: datetime
    last_at: datetime


def coverage_of(account: str, begin: datetime, end: datetime) -> Coverage | None:
    """The stored statements that cover the day from `begin` to `end`; None where the day is not covered.

    A statement covers a day by lines with an unbroken running balance from before the day to after it, also together
    with statements whose balances join; without balances, by lines before and after the day, or by titles that state
    a period from a day before it to a day after it; or because two operators stated it.
    """
    rows = list(
        StatementCoverage.select()
        .join(ProviderStatement, on=(ProviderStatement.id == StatementCoverage.statement_id))
        .where(
            ProviderStatement.state == StatementState.STORED,
            StatementCoverage.account == account,
            StatementCoverage.last_at >= begin - _LONGEST_CHAIN,
            StatementCoverage.first_at <= end + _LONGEST_CHAIN,
        )
    )
    stated = [row for row in rows if row.kind == CoverageKind.STATED and row.first_at <= begin and row.last_at >= end]
    around = [row for row in rows if row.kind == CoverageKind.LINES and row.first_at < begin and row.last_at >= end]
    joined = _joined([row for row in rows if row.kind == CoverageKind.BALANCE], begin, end)
    covering = [*stated, *around, *joined]
    if not covering:
        return None
    return Coverage(
        tuple(sorted({row.statement_id for row in covering})),
        min(row.first_at for row in covering),
        max(row.last_at for row in covering),
    )


def require_statable(days: tuple[date, date], now: datetime) -> None:
    """Raise INVALID_REQUEST for days in another order, more than 400 days, and a last day that is not over."""
    first, last = days
    if not timedelta(0) <= last - first <= _LONGEST_STATED or bounds_of_day(last)[1] > now:
        raise ServiceError(
            Code.INVALID_REQUEST, "A statement covers at most 400 days, in their order, of which the last is over"
        )


def period_with(period: Period, days: tuple[date, date]) -> Period:
    """The period of a statement, extended by days that it covers. INVALID_REQUEST where it has no line near them."""
    (begin, _), (_, end) = map(bounds_of_day, days)
    if period.last < begin or period.first >= end:
        raise ServiceError(Code.INVALID_REQUEST, "The statement has no line of the days that it is said to cover")
    return Period(min(period.first, begin), max(period.last, end))


def coverage_rows(
    statement: ProviderStatement, runs: Sequence[BalanceRun] | None, ends: tuple[datetime, datetime]
) -> list[StatementCoverage]:
    """The rows of a new statement: its runs of balances or, without balances, the ends of its lines and titles."""
    if runs is None:
        return [_row(statement, CoverageKind.LINES, *ends)]
    return [
        _row(
            statement,
            CoverageKind.BALANCE,
            run.first,
            run.last,
            opening_cents=run.opening_cents,
            closing_cents=run.closing_cents,
        )
        for run in runs
    ]


def stated_row(statement: ProviderStatement, days: tuple[date, date], names: Iterable[str]) -> StatementCoverage:
    """The row of days that two operators stated."""
    (begin, _), (_, end) = map(bounds_of_day, days)
    return _row(statement, CoverageKind.STATED, begin, end, stated_by=", ".join(names))


def _row(
    statement: ProviderStatement, kind: CoverageKind, first_at: datetime, last_at: datetime, **more: object
) -> StatementCoverage:
    return StatementCoverage(
        id=new_id(statement.imported_at),
        statement_id=statement.id,
        account=statement.account,
        kind=kind,
        first_at=first_at,
        last_at=last_at,
        **more,
    )


def _joined(runs: Sequence[StatementCoverage], begin: datetime, end: datetime) -> list[StatementCoverage]:
    """The runs that lead, each joining the next, from before the day to after it; of the days around it the nearest."""
    by_opening, by_closing = defaultdict(list), defaultdict(list)
    for run in runs:
        by_opening[run.opening_cents].append(run)
        by_closing[run.closing_cents].append(run)
    following = _reached(
        [run for run in runs if run.first_at < begin],
        lambda run: [other for other in by_opening[run.closing_cents] if run.last_at <= other.first_at],
    )
    leading = _reached(
        [run for run in runs if run.last_at >= end],
        lambda run: [other for other in by_closing[run.opening_cents] if other.last_at <= run.first_at],
    )
    chain = [run for run in runs if run.id in following and run.id in leading]
    before, after = ([run for run in chain if run.last_at < begin], [run for run in chain if run.first_at >= end])
    return [
        *(run for run in chain if run not in before and run not in after),
        *sorted(before, key=lambda run: run.last_at)[-1:],
        *sorted(after, key=lambda run: run.first_at)[:1],
    ]


def _reached(
    starts: Iterable[StatementCoverage], steps: Callable[[StatementCoverage], Iterable[StatementCoverage]]
) -> set[str]:
    """The ids of the runs that steps lead to, the first ones included."""
    waiting = list(starts)
    reached = {run.id for run in waiting}
    while waiting:
        for other in steps(waiting.pop()):
            if other.id not in reached:
                reached.add(other.id)
                waiting.append(other)
    return reached
