"""`exports`: a client's statement as a CSV file in constant memory, and the opening balance of a long account."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.database import CALL, FEW, FIRST_US, STEP_US, create_bench_database, fill
from benchmarks.report import Size, compared, print_table, ratios, spread
from benchmarks.services import opened_services, quick_ms, run_command
from testbed.postgres import temporary_server
from ussd_server.bootstrap import Services
from ussd_server.services.accounts.messages import GetStatement


def measure_exports(size: Size) -> dict[str, Any]:
    """Write statements and read opening balances of a short and a long account; return memory, seconds and costs."""
    exports, openings = [], []
    with temporary_server() as server, TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        for title in ("PostgreSQL", "SQLite"):
            settings = {}
            for rows in (FEW, size.rows):
                home = folder / f"{title}-{rows}"
                home.mkdir()
                url = create_bench_database(server.url) if title == "PostgreSQL" else f"sqlite:///{home / 'b.db'}"
                settings[rows] = {"USSD_DATABASE_URL": url, "USSD_DATA_DIR": str(home)}
                with opened_services(home, settings[rows]):
                    fill(rows, 0, has_movements=True)
            exports.append({"database": title, **_export(folder, settings, size)})
            openings.append({"database": title, **_read_openings(settings, size)})
    print_table(f"A statement of {size.rows:,} lines as CSV, beside one of {FEW:,}", exports)
    print_table(f"The opening balance in milliseconds, of {FEW:,} and of {size.rows:,} movements", openings)
    return {"exports": exports, "openings": openings}


def _export(folder: Path, settings: dict[int, dict[str, str]], size: Size) -> dict[str, Any]:
    """The seconds of the long statement, and the memory of both."""
    file = folder / "statement.csv"
    seen = defaultdict(list)
    for _ in range(min(3, size.rounds)):
        for rows, its in settings.items():
            ended = run_command(["accounts", "statement", "Bench", "--csv"], its, file)
            with file.open("rb") as written:
                assert sum(1 for _ in written) == rows + 1
            seen[rows].append(ended)
    few, many = ([run.megabytes for run in seen[rows]] for rows in (FEW, size.rows))
    seconds = [run.seconds for run in seen[size.rows]]
    return {
        "lines": size.rows,
        "seconds": spread(seconds),
        "lines_per_second": spread(size.rows / each for each in seconds),
        "megabytes_of_few": spread(few),
        "megabytes_of_many": spread(many),
        "ratio": ratios(many, few),
    }


def _read_openings(settings: dict[int, dict[str, str]], size: Size) -> dict[str, Any]:
    seen: dict[int, list[float]] = defaultdict(list)
    for _ in range(size.rounds):
        for rows, its in settings.items():
            with opened_services(Path(its["USSD_DATA_DIR"]), its) as services:
                seen[rows].append(_opening_ms(services, rows))
    return compared(seen[FEW], seen[size.rows])


def _opening_ms(services: Services, rows: int) -> float:
    """The time of a statement that begins in the middle of the account and has one line."""
    begin = datetime.fromtimestamp((FIRST_US + rows // 2 * STEP_US) / 1_000_000, UTC)
    request = GetStatement(from_at=begin, limit=1)
    assert services.statements.get(request, CALL).opening_balance_cents == (rows // 2 - 1) * 100
    return quick_ms(lambda: services.statements.get(request, CALL))
