"""`statements`: 200,000 lines of a provider's statement compared with as many transactions, in CSV and in XLSX."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from openpyxl import Workbook

from benchmarks.database import CLIENT_ID, add_client, create_bench_database
from benchmarks.report import Size, print_table, spread
from benchmarks.services import Run, opened_services, run_command
from testbed.postgres import temporary_server
from ussd_server.database.unit_of_work import database, unit_of_work

LINES = 200_000
_HEADINGS = ("Id", "External id", "Date", "Status", "Type", "From", "To", "Amount", "Currency", "Fee", "Balance")
_COLUMNS = (
    "id, client_id, type, status, phone_number, amount_cents, fee_cents, currency, account, provider, "
    "provider_account, provider_reference, provider_transaction_id, reference, request_digest, late, created_at, "
    "updated_at, ask_attempts, checks, due_at, due_source"
)
_MEASURED = ("seconds", "processor_seconds", "megabytes")
_BATCH = 5000
# One line in so many differs.
_DIFFERENCE = 100


def measure_statements(size: Size) -> dict[str, Any]:
    """Run `ussd-server reconcile` on both databases and both formats; return seconds and megabytes."""
    count = min(LINES, size.rows)
    rows = []
    with temporary_server(is_durable=True) as server, TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        files = _write_files(folder, count)
        urls = {"PostgreSQL": create_bench_database(server.url), "SQLite": f"sqlite:///{folder / 'bench.db'}"}
        for title, url in urls.items():
            home = folder / title
            home.mkdir()
            settings = {"USSD_DATABASE_URL": url, "USSD_DATA_DIR": str(home)}
            with opened_services(home, settings):
                _fill(count)
            for file in files:
                # The first run stores the differences; the others find that the file was imported before.
                runs = [_reconcile(file, settings, count) for _ in range(min(3, size.rounds))]
                rows.append(
                    {
                        "database": title,
                        "file": file.suffix[1:],
                        "lines": count,
                        **{name: spread(getattr(run, name) for run in runs) for name in _MEASURED},
                    }
                )
    print_table(f"{count:,} lines of a statement", rows)
    return {"statements": rows}


def _reconcile(file: Path, settings: dict[str, str], count: int) -> Run:
    """Run the command, and verify its counts."""
    printed = file.with_name("printed.json")
    ended = run_command(["reconcile", "mtn", str(file), "--json", "--yes"], settings, printed)
    lines = json.loads(printed.read_text())["lines"]
    assert lines == {"matched": count - count // _DIFFERENCE, "amount_differs": count // _DIFFERENCE}, lines
    return ended


def _id(number: int, kind: int) -> str:
    return f"019a9f00-0000-7000-8000-{kind}{number:011}"


def _fill(count: int) -> None:
    add_client()
    at = "2025-11-20T11:03:12.000Z"
    for first in range(0, count, _BATCH):
        values = ", ".join(
            f"('{_id(number, 1)}', '{CLIENT_ID}', 'collection', 'created', '+256772123456', 500000, 0, 'UGX', "
            f"'main', 'mtn', 'mtn', '{_id(number, 2)}', '{23_503_452 + number}', 'r{number}', '', FALSE, '{at}', "
            f"'{at}', 1, 1, '{at}', 'poll')"
            for number in range(first, min(first + _BATCH, count))
        )
        with unit_of_work():
            database.execute_sql(f"INSERT INTO transactions ({_COLUMNS}) VALUES {values}")
            # A transaction begins as created.
            database.execute_sql(
                "UPDATE transactions SET status = 'succeeded', completed_at = created_at, due_at = NULL "
                "WHERE status = 'created'"
            )
    database.execute_sql("ANALYZE")


def _lines(count: int) -> Iterator[tuple[str, ...]]:
    yield _HEADINGS
    balance = 0
    for number in range(count):
        amount = "4,000" if number % _DIFFERENCE == 0 else "5,000"
        balance += int(amount.replace(",", ""))
        yield (
            str(23_503_452 + number),
            _id(number, 2),
            "2025-11-20 14:03:12",
            "Successful",
            "Payment",
            "FRI:256772123456/MSISDN",
            "FRI:41000001/MM",
            amount,
            "UGX",
            "0",
            f"{balance:,}",
        )


def _write_files(folder: Path, count: int) -> list[Path]:
    text, book = folder / "statement.csv", folder / "statement.xlsx"
    with text.open("w", newline="") as file:
        csv.writer(file).writerows(_lines(count))
    workbook = Workbook(write_only=True)
    sheet = workbook.create_sheet()
    for line in _lines(count):
        sheet.append(line)
    workbook.save(book)
    return [text, book]
