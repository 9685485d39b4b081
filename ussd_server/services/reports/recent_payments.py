"""Recent payments: the sums of periods, and the results of each provider in the last hour and the last day."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import dialect, run_query
from ussd_server.services.reports.messages import (
    MovedInSpan,
    MovedMoney,
    PaymentFigures,
    PeriodSums,
    ProviderPayments,
    RecentPayments,
)
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import SUCCESSFUL, TransactionType
from ussd_server.values import KAMPALA, bounds_of_day, iso_milliseconds, kampala_day, new_id_floor

MOST_PAYMENTS = 100_000
_KEPT_FOR = timedelta(seconds=10)
_MOST_KEPT = 1000
_HOURS = 24
_MOST_DAYS_READ = 5


class RecentPaymentsService:
    """Counts payments by the moment at which they became final. Its replies are at most ten seconds old."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self._kept: dict[str | None, RecentPayments] = {}
        self._sums: dict[tuple[str | None, int], PeriodSums] = {}

    def get(self, context: RequestContext) -> RecentPayments:
        """The payments of the caller's client; of all clients together for an operator who acts for none.

        Reads at most MOST_PAYMENTS rows.
        """
        client_id, now = _whose(context), self._clock.now()
        kept = self._kept.get(client_id)
        if kept is None or not kept.as_of <= now < kept.as_of + _KEPT_FOR:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            kept = self._kept[client_id] = _read(client_id, now)
        return kept

    def sums(self, days: int, context: RequestContext) -> PeriodSums:
        """What was collected and paid out on the last `days` days up to now, and in the same time before them.

        Whose payments: as `get`. The sums are at most ten seconds old for each day. Reads at most MOST_PAYMENTS rows
        for each day, for five days at most.
        """
        key, now = (_whose(context), days), self._clock.now()
        kept = self._sums.get(key)
        if kept is None or not kept.as_of <= now < kept.as_of + days * _KEPT_FOR:
            if len(self._sums) >= _MOST_KEPT:
                self._sums.clear()
            kept = self._sums[key] = _read_sums(*key, now)
        return kept


def _whose(context: RequestContext) -> str | None:
    context.require("transactions:read")
    if context.caller.client_id is None:
        context.require_operator()
    return context.caller.client_id


def _read_sums(client_id: str | None, days: int, now: datetime) -> PeriodSums:
    since = bounds_of_day(now.astimezone(KAMPALA).date() - timedelta(days=days - 1))[0]
    length = timedelta(days=days)
    moments = {"since": since - length, "until_before": now - length, "present_since": since}
    most = MOST_PAYMENTS * min(days, _MOST_DAYS_READ)
    parameters: dict[str, Any] = {name: iso_milliseconds(at) for name, at in moments.items()} | {"most": most}
    parameters |= {"client_id": client_id} if client_id is not None else {"first_id": new_id_floor(moments["since"])}
    query = _SUMS.replace("{rows}", _OF_ALL if client_id is None else _OF_CLIENT).replace("{hour}", _hour_text())
    counts, sums, read_count = Counter[tuple[str, bool]](), Counter[tuple[str, bool]](), 0
    by_day: Counter[tuple[str, str]] = Counter()
    for kind, status, is_present, is_before, hour, count, cents in run_query(query, **parameters):
        read_count += count
        if status in SUCCESSFUL and is_present:
            by_day[kampala_day(datetime.fromisoformat(f"{hour}:00Z")), kind] += int(cents)
        if status in SUCCESSFUL and (is_present or is_before):
            counts[kind, bool(is_present)] += count
            sums[kind, bool(is_present)] += int(cents)
    collected, paid_out = (
        MovedMoney(counts[kind, True], sums[kind, True], sums[kind, False])
        for kind in (TransactionType.COLLECTION, TransactionType.DISBURSEMENT)
    )
    begins = (since + timedelta(days=passed) for passed in range(days))
    return PeriodSums(
        now,
        days,
        collected,
        paid_out,
        tuple(_span(by_day, begin, kampala_day(begin)) for begin in begins),
        is_complete=read_count < most,
    )


def _read(client_id: str | None, now: datetime) -> RecentPayments:
    hour = now - timedelta(hours=1)
    in_hour: dict[str, Counter[tuple[bool, float]]] = defaultdict(Counter)
    in_day: dict[str, Counter[tuple[bool, float]]] = defaultdict(Counter)
    read_count = 0
    by_hour: Counter[tuple[str, str]] = Counter()
    for provider, kind, status, seconds, bucket, is_in_hour, count, cents in _groups(client_id, now, hour):
        read_count += count
        if status in SUCCESSFUL:
            by_hour[bucket, kind] += int(cents)
        if provider:
            outcome = (status in SUCCESSFUL, float(seconds))
            in_day[provider][outcome] += count
            if is_in_hour:
                in_hour[provider][outcome] += count
    providers = (ProviderPayments(name, _figures(in_hour[name]), _figures(in_day[name])) for name in sorted(in_day))
    return RecentPayments(
        as_of=now,
        providers=tuple(providers),
        is_complete=read_count < MOST_PAYMENTS,
        hours=tuple(_hours(by_hour, now)),
    )


def _groups(client_id: str | None, now: datetime, hour: datetime) -> Any:
    """Counts of the payments of the last day, by all that the figures distinguish."""
    since = now - timedelta(days=1)
    seconds = dialect().seconds_between("created_at", "completed_at")
    query = _GROUPS.replace("{seconds}", seconds).replace("{hour}", _hour_text())
    # No index orders the payments of all clients by their end, so for all clients a payment that began earlier is left
    # out.
    query = query.replace("{rows}", _OF_ALL if client_id is None else _OF_CLIENT)
    parameters: dict[str, Any] = {"most": MOST_PAYMENTS}
    parameters |= {name: iso_milliseconds(at) for name, at in (("since", since), ("hour", hour))}
    parameters |= {"client_id": client_id} if client_id is not None else {"first_id": new_id_floor(since)}
    return run_query(query, **parameters)


def _hours(by_hour: Counter[tuple[str, str]], now: datetime) -> Iterator[MovedInSpan]:
    for before in reversed(range(_HOURS)):
        began_at = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=before)
        yield _span(by_hour, began_at, began_at.strftime("%Y-%m-%dT%H"))


def _span(sums: Counter[tuple[str, str]], began_at: datetime, name: str) -> MovedInSpan:
    return MovedInSpan(began_at, sums[name, TransactionType.COLLECTION], sums[name, TransactionType.DISBURSEMENT])


def _hour_text() -> str:
    """The SQL of the hour in UTC at which a payment became final, as text."""
    return f"substr({dialect().moment('completed_at')}, 1, 13)"


def _figures(outcomes: Counter[tuple[bool, float]]) -> PaymentFigures:
    total = outcomes.total()
    if not total:
        return PaymentFigures(0, None, None)
    succeeded = sum(count for (has_succeeded, _), count in outcomes.items() if has_succeeded)
    passed = 0
    for seconds, count in sorted((seconds, count) for (_, seconds), count in outcomes.items()):
        passed += count
        if 2 * passed >= total:
            return PaymentFigures(total, round(succeeded / total, 4), seconds)
    raise AssertionError("the median is among the outcomes")


_OF_CLIENT = "client_id = :client_id AND completed_at >= :since ORDER BY completed_at DESC"
_OF_ALL = "id >= :first_id AND completed_at >= :since ORDER BY id DESC"
_GROUPS = """
WITH recent AS (
    SELECT provider, type, status, amount_cents, created_at, completed_at
    FROM transactions WHERE {rows} LIMIT :most
)
SELECT provider, type, status, round({seconds}, 1), {hour}, completed_at >= :hour, count(*), sum(amount_cents)
FROM recent GROUP BY 1, 2, 3, 4, 5, 6
"""
_SUMS = """
WITH recent AS (
    SELECT type, status, amount_cents, completed_at FROM transactions WHERE {rows} LIMIT :most
)
SELECT type, status, completed_at >= :present_since, completed_at < :until_before, {hour}, count(*), sum(amount_cents)
FROM recent GROUP BY 1, 2, 3, 4, 5
"""
