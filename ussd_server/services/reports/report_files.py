"""Report files: the daily report and the statement of each client, written once for each day that is over."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from pathlib import Path

from ussd_server.context import operator_context
from ussd_server.models.clients import Client
from ussd_server.runtime import Runtime
from ussd_server.services.accounts.messages import GetStatement
from ussd_server.services.accounts.statements import StatementService
from ussd_server.services.reports.daily_reports import DailyReportService
from ussd_server.services.reports.messages import GetDailyReport, bounds_of_day
from ussd_server.values import KAMPALA

# A report of a day is final an hour after its end.
_WRITTEN_AFTER = timedelta(hours=1)
# Days that passed while no worker ran are written later.
_DAYS_BACK = 7


class ReportFiles:
    """Writes `FOLDER/2026-11-20/`: `daily.csv` of all clients, and `daily.csv` and `statement.csv` in one folder each.

    The folder of a day appears whole, under its name, when all of its files are written. Several workers may write the
    same day: the first one to finish wins, and their files are equal.
    """

    def __init__(self, runtime: Runtime, reports: DailyReportService, statements: StatementService) -> None:
        """Without the setting USSD_REPORTS_DIR nothing is written."""
        self._folder = runtime.settings.reports_dir
        self._reports = reports
        self._statements = statements
        self._clock = runtime.clock

    def write(self) -> tuple[date, ...]:
        """Write the files of the past days that have none, and return these days. Raises OSError."""
        if self._folder is None:
            return ()
        last = (self._clock.now() - _WRITTEN_AFTER).astimezone(KAMPALA).date() - timedelta(days=1)
        days = [last - timedelta(days=back) for back in reversed(range(_DAYS_BACK))]
        missing = [day for day in days if not (self._folder / day.isoformat()).exists()]
        return tuple(day for day in missing if self._write_day(self._folder, day))

    def _write_day(self, folder: Path, day: date) -> bool:
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{day.isoformat()}-", dir=folder))
        try:
            _write(draft / "daily.csv", self._reports.csv(GetDailyReport(day), operator_context()))
            for client_id in _client_ids():
                context = operator_context(client_id)
                begin, end = bounds_of_day(day)
                statement = self._statements.csv(GetStatement(from_at=begin, to_at=end), context)
                _write(draft / client_id / "statement.csv", statement.parts)
                _write(draft / client_id / "daily.csv", self._reports.csv(GetDailyReport(day), context))
            draft.chmod(0o750)
            return _publish(draft, folder / day.isoformat())
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _publish(draft: Path, folder: Path) -> bool:
    """Give a finished folder its name. Returns False when another worker was first."""
    try:
        draft.rename(folder)
    except OSError:
        if folder.exists():
            return False
        raise
    return True


def _write(path: Path, parts: Iterable[bytes]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.writelines(parts)


def _client_ids() -> Iterator[str]:
    return (str(row.id) for row in list(Client.select(Client.id).order_by(Client.id)))
