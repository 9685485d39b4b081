"""Recent payments: sums of periods, and each provider's share of successes and time to final."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conftest import MovableClock
from tests.support.money import a_client, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.models.transactions import Transaction
from ussd_server.services.reports import recent_payments
from ussd_server.services.reports.messages import MovedMoney
from ussd_server.status import ServiceError
from ussd_server.values import KAMPALA, bounds_of_day

MINUTE = timedelta(minutes=1)


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
    assert seen.is_complete
    (sandbox,) = seen.providers
    assert (sandbox.hour.count, sandbox.hour.success_rate) == (1, 1.0)
    assert (sandbox.day.count, sandbox.day.success_rate) == (5, 0.8)
    assert sandbox.day.median_seconds is not None
    hours = [(hour.began_at.hour, hour.collected_cents) for hour in seen.hours]
    assert [hours[0], *hours[-3:]] == [(21, 0), (18, 600_000), (19, 0), (20, 50_000)]
    assert len(hours) == 24
    create(request(shillings=7), call)
    work(services, clock)
    assert recent.get(call) == seen
    clock.advance(2 * 3600)
    assert recent.get(call).providers[0].day.count == 6
    Transaction.update(completed_at=clock.now()).execute()
    monkeypatch.setattr(recent_payments, "MOST_PAYMENTS", 2)
    clock.advance(11)
    bounded = recent.get(call)
    assert (bounded.is_complete, bounded.providers[0].day.count) == (False, 2)
    clock.advance(2 * 86_400)
    assert recent.get(call).providers == ()


def test_sums_of_a_period_are_compared_with_the_same_time_before_it(
    services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.advance(9 * 3600)
    today, _ = bounds_of_day(clock.now().astimezone(KAMPALA).date())
    call, recent, before = a_client(), services.recent_payments, clock.now() - timedelta(days=1)
    ends = {
        3000: clock.now(), 40: today, 1000: before - MINUTE, 9: before + MINUTE, 500: today - timedelta(days=6),
        20: today - timedelta(days=13), 7: today - timedelta(days=13, seconds=1),
    }  # fmt: skip
    for shillings, at in ends.items():
        made = services.transactions.create(request(shillings=shillings), call).transaction
        work(services, clock)
        Transaction.update(completed_at=at).where(Transaction.id == made.transaction_id).execute()
    services.transactions.create(request(shillings=50), a_client("Other"))
    work(services, clock)
    day, week = recent.sums(1, call), recent.sums(7, call)
    assert (day.collected, day.paid_out.cents) == (MovedMoney(2, 304_000, 100_000), 0)
    assert week.collected == MovedMoney(5, 454_900, 2_000)
    assert [each.collected_cents for each in day.by_day] == [304_000]
    assert (len(week.by_day), sum(each.collected_cents for each in week.by_day)) == (7, 454_900)
    assert week.by_day[-1] == day.by_day[0]
    assert (day.collected.change, day.paid_out.change) == (2.04, None)
    assert recent.sums(1, operator()).collected.count == 3
    monkeypatch.setattr(recent_payments, "MOST_PAYMENTS", 1)
    clock.advance(11)
    assert not recent.sums(1, call).is_complete
    with pytest.raises(ServiceError):
        recent.sums(1, RequestContext(Caller(CallerKind.NOBODY)))
