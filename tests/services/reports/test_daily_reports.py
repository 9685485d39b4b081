"""Daily reports: how many a process makes at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pytest

from tests.support.money import a_client, operator
from ussd_server.bootstrap import Services
from ussd_server.services.reports import daily_reports
from ussd_server.services.reports.messages import GetDailyReport
from ussd_server.status import Code, ServiceError


def test_a_process_makes_four_reports_at_a_time_and_two_of_a_client(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, third = a_client(), a_client("Other"), a_client("Third")
    make, may_end, under_way = daily_reports._report, threading.Event(), threading.Semaphore(0)

    def slowly(*given: Any) -> Any:
        under_way.release()
        assert may_end.wait(60)
        return make(*given)

    monkeypatch.setattr(daily_reports, "_report", slowly)
    days = [GetDailyReport(date(2026, 11, day)) for day in (1, 2, 3)]
    with ThreadPoolExecutor(4) as callers:
        running = [callers.submit(services.daily_reports.get, days[place], one) for place in range(2)]
        for _ in running:
            assert under_way.acquire(timeout=60)
        with pytest.raises(ServiceError) as refusal:
            services.daily_reports.get(days[2], one)
        assert (refusal.value.code, refusal.value.retry_after_seconds) == (Code.SERVICE_UNAVAILABLE, 1)
        running += [callers.submit(services.daily_reports.get, days[0], context) for context in (other, operator())]
        for _ in range(2):
            assert under_way.acquire(timeout=60)
        with pytest.raises(ServiceError):
            services.daily_reports.get(days[0], third)
        may_end.set()
        assert {report.result().rows for report in running} == {()}
    assert services.daily_reports.get(days[0], third).date == "2026-11-01"
