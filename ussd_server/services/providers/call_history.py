"""Calls to providers over time: each worker writes its counts of a quarter of an hour, operators see them as charts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

from ussd_server.context import RequestContext
from ussd_server.models.providers import ProviderCalls
from ussd_server.runtime import Runtime, Service
from ussd_server.services.providers.call_counts import WINDOW, CallSums, quarter_of
from ussd_server.services.providers.messages import CALLS_KEPT_DAYS, QuarterOfCalls

_QUARTERS = 96


class CallHistory(Service):
    """Keeps what workers counted for eight days. A killed worker loses the counts of its last minute."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._recent_calls = runtime.heartbeat.recent_calls
        self._worker_id = runtime.leases.worker_id

    def write(self) -> None:
        """Write this worker's counts of the present and the last quarter of an hour, and remove old counts."""
        for (provider, began_at), sums in self._recent_calls.quarters().items():
            counts = {
                "answered_count": sums.answered,
                "failed_count": sums.failed,
                "unanswered_count": sums.unanswered,
                "took": {str(step): count for step, count in sums.took.items()},
            }
            key = {"began_at": began_at, "provider": provider, "worker_id": self._worker_id}
            written = ProviderCalls.insert(**key, **counts)
            columns = [ProviderCalls.began_at, ProviderCalls.provider, ProviderCalls.worker_id]
            written.on_conflict(conflict_target=columns, update=counts).execute()
        ProviderCalls.delete().where(
            ProviderCalls.began_at < self._clock.now() - timedelta(days=CALLS_KEPT_DAYS)
        ).execute()

    def get(self, until: datetime | None, context: RequestContext) -> Mapping[str, tuple[QuarterOfCalls, ...]]:
        """The 96 quarters of an hour of each provider that is set up here, up to that of `until`; None: up to now."""
        context.require_operator()
        last = quarter_of(until or self._clock.now())
        quarters = [last - WINDOW * before for before in reversed(range(_QUARTERS))]
        sums: dict[tuple[str, datetime], CallSums] = defaultdict(CallSums)
        for row in ProviderCalls.select().where(ProviderCalls.began_at.between(quarters[0], last)):
            sums[row.provider, row.began_at].add(row.answered_count, row.failed_count, row.unanswered_count, row.took)
        return {
            provider.name: tuple(_figures(began_at, sums[provider.name, began_at]) for began_at in quarters)
            for provider in self._providers
        }


def _figures(began_at: datetime, sums: CallSums) -> QuarterOfCalls:
    return QuarterOfCalls(began_at, sums.failed + sums.unanswered, sums.good_share, sums.median_seconds)
