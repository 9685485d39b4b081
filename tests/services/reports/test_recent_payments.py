"""Recent payments: today's sums, and each provider's share of successes and time to final."""

from __future__ import annotations

import pytest

from tests.conftest import MovableClock
from tests.support.money import a_client, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.models.transactions import Transaction
from ussd_server.services.reports import recent_payments
from ussd_server.status import ServiceError
from ussd_server.values import KAMPALA, bounds_of_day


def test_payments_count_by_the_moment_at_which_they_became_final(
    services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    today, _ = bounds_of_day(clock.now().astimezone(KAMPALA).date())
    clock.advance((today - clock.now()).total_seconds() + 86_400 - 3 * 3600)  # 21:00 in Kampala
    call, other, recent = a_client(), a_client("Other"), services.recent_payments
    create = services.transactions.create
    for shillings in (1000, 2000, 3000):
        create(request(shillings=shillings), call)
    create(request("collection", "+256770000001"), call)
    create(request(shillings=50), other)
    work(services, clock)
    clock.advance(2 * 3600)
    create(request(shillings=500), call)
    work(services, clock)
    seen = recent.get(call)
    assert (seen.collected_count, seen.collected_cents, seen.paid_out_cents, seen.is_complete) == (4, 650_000, 0, True)
    (sandbox,) = seen.providers
    assert (sandbox.hour.count, sandbox.hour.success_rate) == (1, 1.0)
    assert (sandbox.day.count, sandbox.day.success_rate) == (5, 0.8)
    assert sandbox.day.median_seconds is not None
    hours = [(hour.began_at.hour, hour.collected_cents) for hour in seen.hours]
    assert [hours[0], *hours[-3:]] == [(21, 0), (18, 600_000), (19, 0), (20, 50_000)]
    assert len(hours) == 24
    assert recent.get(operator()).collected_cents == 655_000
    create(request(shillings=7), call)
    work(services, clock)
    assert recent.get(call) == seen
    clock.advance(2 * 3600)
    midnight = recent.get(call)
    assert (midnight.collected_cents, midnight.providers[0].day.count) == (0, 6)
    Transaction.update(completed_at=clock.now()).execute()
    monkeypatch.setattr(recent_payments, "MOST_PAYMENTS", 2)
    clock.advance(11)
    bounded = recent.get(call)
    assert (bounded.is_complete, bounded.providers[0].day.count) == (False, 2)
    clock.advance(2 * 86_400)
    assert recent.get(call).providers == ()
    with pytest.raises(ServiceError):
        recent.get(RequestContext(Caller(CallerKind.NOBODY)))
