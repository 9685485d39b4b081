"""Daily reports: the payments that became final on a day in Kampala, by type, provider and status; and their files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from ussd_server.context import RequestContext, operator_context
from ussd_server.database.unit_of_work import dialect, run_query
from ussd_server.models.clients import Client
from ussd_server.services.accounts.messages import GetStatement
from ussd_server.services.accounts.statements import StatementService
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.gates.given_back import IS_GIVEN_BACK
from ussd_server.services.reports.messages import DailyReport, GetDailyReport, PeriodReport, PeriodRow, ReportRow
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import TransactionStatus
from ussd_server.services.transactions.transactions import FILL
from ussd_server.spreadsheets.delimited import csv_parts, shillings_cell
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA, bounds_of_day, iso_milliseconds

# So long after the day, its units of work are certainly committed.
_SETTLES_WITHIN = timedelta(hours=1)
_MOST_KEPT = 1000
# Files of days that passed while no worker ran are written later.
_DAYS_BACK = 7
_MOST_DAYS = 31
_COLUMNS = (
    "type", "provider", "status", "count", "amount", "fees", "median_seconds",
    "given_back_count", "given_back_amount", "given_back_fees",
)  # fmt: skip


class DailyReportService:
    """Makes daily reports. A day that is over shows each payment as it was when the day ended, and never changes."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self._kept: dict[tuple[str | None, date], DailyReport] = {}
        # A report reads a whole day. Forty at a time held payments up for seconds on SQLite.
        self._bulkhead = Bulkhead(4, 2)

    def get(self, request: GetDailyReport, context: RequestContext) -> DailyReport:
        """The report of the caller's client; of all clients together for an operator who acts for none.

        SERVICE_UNAVAILABLE while this process makes as many reports as it may, in all or for the client.
        """
        context.require("statements:read")
        if (client_id := context.caller.client_id) is None:
            context.require_operator()
        now = self._clock.now()
        day = request.date or now.astimezone(KAMPALA).date()
        if (kept := self._kept.get((client_id, day))) is not None:
            return kept
        with self._bulkhead.permit(client_id or "") as has_permit:
            if not has_permit:
                raise ServiceError(Code.SERVICE_UNAVAILABLE, "Too many reports are being made", retry_after_seconds=1)
            report = _report(client_id, day)
        if bounds_of_day(day)[1] + _SETTLES_WITHIN < now:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[client_id, day] = report
        return report

    def add_up(self, first: date, last: date, context: RequestContext) -> PeriodReport:
        """The reports of `first` to `last`, at most 31 days, added up. Raises what `get` raises."""
        days = [first + timedelta(days=after) for after in range(min((last - first).days + 1, _MOST_DAYS))]
        sums: dict[tuple[str, str, str], PeriodRow] = {}
        for row in (row for day in days for row in self.get(GetDailyReport(day), context).rows):
            group = row.type, row.provider or "", row.status
            before = sums.get(group) or PeriodRow(row.type, row.provider, row.status, 0, 0, 0)
            sums[group] = replace(
                before,
                count=before.count + row.count,
                amount_cents=before.amount_cents + row.amount_cents,
                fees_cents=before.fees_cents + row.fees_cents,
                given_back_count=before.given_back_count + row.given_back_count,
                given_back_amount_cents=before.given_back_amount_cents + row.given_back_amount_cents,
                given_back_fees_cents=before.given_back_fees_cents + row.given_back_fees_cents,
            )
        rows = tuple(sums[group] for group in sorted(sums))
        return PeriodReport(rows, _success_rate(rows))

    def csv(self, request: GetDailyReport, context: RequestContext) -> Iterator[bytes]:
        """The same report as a CSV file, amounts in shillings."""
        return csv_parts(_COLUMNS, map(_cells, self.get(request, context).rows))


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
        last = (self._clock.now() - _SETTLES_WITHIN).astimezone(KAMPALA).date() - timedelta(days=1)
        days = [last - timedelta(days=back) for back in reversed(range(_DAYS_BACK))]
        missing = [day for day in days if not (self._folder / day.isoformat()).exists()]
        return tuple(day for day in missing if self._write_day(self._folder, day))

    def _write_day(self, folder: Path, day: date) -> bool:
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{day.isoformat()}-", dir=folder))
        try:
            _write(draft / "daily.csv", self._reports.csv(GetDailyReport(day), operator_context()))
            for client in list(Client.select(Client.id).order_by(Client.id)):
                context = operator_context(client.id)
                begin, end = bounds_of_day(day)
                statement = self._statements.csv(GetStatement(from_at=begin, to_at=end), context)
                _write(draft / client.id / "statement.csv", statement.parts)
                _write(draft / client.id / "daily.csv", self._reports.csv(GetDailyReport(day), context))
            draft.chmod(0o750)
            return _publish(draft, folder / day.isoformat())
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _cells(row: ReportRow) -> tuple[object, ...]:
    sums = row.amount_cents, row.fees_cents, row.given_back_amount_cents, row.given_back_fees_cents
    amount, fees, back, fees_back = map(shillings_cell, sums)
    final = row.type, row.provider, row.status, row.count, amount, fees, row.median_seconds
    return *final, row.given_back_count, back, fees_back


def _report(client_id: str | None, day: date) -> DailyReport:
    begin, end = map(iso_milliseconds, bounds_of_day(day))
    mine = "= :client_id" if client_id is not None else "IN (SELECT id FROM clients)"
    query = _FINAL_ON.replace("{mine}", mine).replace("{is_given_back}", IS_GIVEN_BACK)
    query = query.replace("{fill}", FILL).replace("{seconds}", dialect().seconds_between("created_at", "final_at"))
    parameters = {"begin": begin, "end": end} | ({"client_id": client_id} if client_id is not None else {})
    rows = {
        (kind, provider, status): ReportRow(
            kind, provider, status, count, int(amount), int(fees), round(float(median), 3)
        )
        for kind, provider, status, count, amount, fees, median in run_query(query, **parameters)
    }
    given_back = _GIVEN_BACK_ON.replace("{mine}", mine)
    for kind, provider, count, amount, fees in run_query(given_back, **parameters):
        key = kind, provider, TransactionStatus.REVERSED.value
        row = rows.get(key) or ReportRow(*key, 0, 0, 0, 0.0)
        rows[key] = replace(
            row, given_back_count=count, given_back_amount_cents=int(amount), given_back_fees_cents=int(fees)
        )
    ordered = tuple(rows[key] for key in sorted(rows, key=lambda key: (key[0], key[1] or "", key[2])))
    return DailyReport(day.isoformat(), ordered, _success_rate(ordered))


def _success_rate(rows: Sequence[ReportRow | PeriodRow]) -> float | None:
    total = sum(row.count for row in rows)
    failed = sum(row.count for row in rows if row.status == TransactionStatus.FAILED)
    return round((total - failed) / total, 4) if total else None


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


# The report shows states at the end of the day. A success after a failure, or a reversal after a success, that came
# later does not count; nor does the end of a reversal, by which its refund counts nowhere. What fills a shortfall moves
# no money of the client: the debit that it lacked counts already.
_FINAL_ON = """
WITH final AS (
    SELECT type, provider, CASE effect WHEN 'debit' THEN -amount_cents ELSE amount_cents END AS amount_cents,
        fee_cents, created_at, completed_at AS final_at,
        CASE WHEN {is_given_back} THEN 1 ELSE 0 END AS is_given_back,
        CASE WHEN status = 'reversed' OR id IN (
            SELECT refund_of FROM transactions WHERE refund_of IS NOT NULL AND client_id {mine} AND released_at >= :end
        ) THEN (
            SELECT change.status FROM transaction_events AS change
            WHERE change.transaction_id = paid.id AND change.created_at < :end
            ORDER BY change.sequence DESC LIMIT 1
        ) ELSE status END AS status
    FROM transactions AS paid WHERE client_id {mine} AND completed_at >= :begin AND completed_at < :end
        AND NOT (type = 'correction' AND substr(reference, 1, length('{fill}')) = '{fill}')
    UNION ALL
    SELECT type, provider, amount_cents, fee_cents, paid.created_at, change.created_at, 0, 'failed'
    FROM transactions AS paid JOIN transaction_events AS change
        ON change.transaction_id = paid.id AND change.status = 'failed'
    WHERE paid.client_id {mine} AND late AND completed_at >= :end
        AND change.created_at >= :begin AND change.created_at < :end
), ordered AS (
    SELECT type, provider, status, amount_cents,
        CASE WHEN status = 'failed' OR (status = 'reversed' AND is_given_back = 1) THEN 0 ELSE fee_cents END
            AS fee_cents,
        seconds, row_number() OVER (PARTITION BY type, provider, status ORDER BY seconds) AS place,
        count(*) OVER (PARTITION BY type, provider, status) AS places
    FROM (SELECT final.*, {seconds} AS seconds FROM final) AS timed
)
SELECT type, provider, status, count(*), sum(amount_cents), sum(fee_cents),
    avg(CASE WHEN 2 * place BETWEEN places AND places + 2 THEN seconds END)
FROM ordered GROUP BY type, provider, status ORDER BY type, coalesce(provider, ''), status
"""

# What was released stays in the report of its day. On the day on which it counts no more, it is taken back.
_GIVEN_BACK_ON = """
SELECT type, provider, count(*), sum(CASE effect WHEN 'debit' THEN -amount_cents ELSE amount_cents END), sum(fee_cents)
FROM transactions AS paid WHERE paid.client_id {mine} AND completed_at < :begin
    AND released_at >= :begin AND released_at < :end
GROUP BY type, provider
"""
