"""Daily reports: how many a process makes at a time, and the files of each day that is over, written once and whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.money import a_client, deposit, operator
from tests.support.program import Program
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.services.reports import daily_reports
from ussd_server.services.reports.daily_reports import ReportFiles
from ussd_server.services.reports.messages import GetDailyReport
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA, bounds_of_day


@pytest.mark.both_databases
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


@pytest.fixture(autouse=True)
def noon(clock: MovableClock) -> None:
    """The tests begin in the middle of a day: in its first hour the report of the day before is not due yet."""
    clock.anchor(bounds_of_day(clock.now().astimezone(KAMPALA).date())[0] + timedelta(hours=12))


@pytest.fixture
def program(services: Services, web: FlaskClient) -> Program:
    return Program(services, web)


@pytest.fixture
def files(services: Services, tmp_path: Path) -> ReportFiles:
    return ReportFiles(
        other_runtime(services, reports_dir=tmp_path / "reports"), services.daily_reports, services.statements
    )


def test_the_reports_of_a_day_are_written_an_hour_after_its_end(
    files: ReportFiles, services: Services, clock: MovableClock, program: Program, tmp_path: Path
) -> None:
    today = clock.now().astimezone(KAMPALA).date()
    files.write()
    deposit(services, program.call, shillings=5000)
    clock.advance((bounds_of_day(today)[1] - clock.now()).total_seconds() + 3500)
    assert files.write() == ()
    clock.advance(101)
    assert files.write() == (today,)
    folder = tmp_path / "reports" / today.isoformat()
    assert (folder / "daily.csv").read_text().splitlines()[1].startswith("deposit,,succeeded,1,5000,0,")
    assert (folder / program.client_id / "daily.csv").read_bytes() == (folder / "daily.csv").read_bytes()
    assert (folder / program.client_id / "statement.csv").read_text().splitlines()[1].endswith(",,5000,5000")
    assert files.write() == ()


def test_days_without_a_worker_follow_and_a_day_that_fails_leaves_nothing_behind(
    files: ReportFiles, clock: MovableClock, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(files.write()) == 7
    clock.advance(timedelta(days=2).total_seconds())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(PermissionError))
        with pytest.raises(PermissionError):
            files.write()
    assert not list((tmp_path / "reports").glob(".*"))
    assert len(files.write()) == 2


def test_a_day_that_another_worker_has_written_first_stays_as_it_is(
    files: ReportFiles, services: Services, program: Program, tmp_path: Path
) -> None:
    class Slow:
        """Reports that take so long that another worker writes the days first."""

        def csv(self, *given: Any) -> Iterator[bytes]:
            files.write()
            return services.daily_reports.csv(*given)

    slow = ReportFiles(other_runtime(services, reports_dir=tmp_path / "reports"), Slow(), services.statements)  # type: ignore[arg-type]
    assert slow.write() == ()
    assert len(list((tmp_path / "reports").iterdir())) == 7


def test_without_a_folder_nothing_is_written(services: Services) -> None:
    assert services.report_files.write() == ()
