"""The worker writes the reports of each day that is over, once, and whole."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.money import deposit
from tests.support.program import Program
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.services.reports.daily_reports import ReportFiles
from ussd_server.services.reports.messages import bounds_of_day
from ussd_server.values import KAMPALA


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
