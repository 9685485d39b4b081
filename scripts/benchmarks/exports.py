"""`exports`: a client's statement as a CSV file in constant memory, and the opening balance of a long account."""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.commands import run_command
from benchmarks.database import CLIENT_ID, FIRST_NUMBER, create_bench_database
from benchmarks.report import Size, print_table, ratios, spread
from benchmarks.services import opened_services
from testbed.postgres import PostgresServer
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.database.unit_of_work import database, is_postgres, release_connection, unit_of_work, without_timeouts
from ussd_server.messages.accounts.statements import GetStatement

FEW = 1_000
_MAIN, _PROVIDER = f"{CLIENT_ID[:-1]}1", f"{CLIENT_ID[:-1]}2"
_FIRST_US = 1_767_225_600_000_000
_STEP_US = 1_000_000
_AT = "2026-01-01T00:00:00.000Z"
_WARM_UPS, _CALLS_A_ROUND = 20, 200
# Written without the triggers, which would take hours to enter so many movements one by one.
_ROWS = (
    """INSERT INTO clients (id, name, is_active, created_at, updated_at)
    SELECT '{client}', 'Bench', true, '{at}', '{at}' WHERE NOT EXISTS (SELECT 1 FROM clients WHERE id = '{client}')""",
    """INSERT INTO ledger_accounts (id, client_id, name, kind, currency, balance_cents, reserved_cents, created_at)
    VALUES ('{main}', '{client}', 'main', 'main', 'UGX', {last} * 100, 0, '{at}'),
        ('{provider}', '{client}', 'provider:mtn', 'provider', 'UGX', {last} * -100, 0, '{at}')""",
    """INSERT INTO transactions (id, client_id, type, status, phone_number, amount_cents, fee_cents, currency, account,
        provider, reference, request_digest, late, created_at, updated_at, completed_at, ask_attempts, checks,
        due_source)
    SELECT {id}, '{client}', 'collection', 'succeeded', '+256772123456', 100, 0, 'UGX', 'main', 'mtn',
        'order-' || n, '', false, '{at}', '{at}', '{at}', 1, 1, 'poll' FROM {numbers}""",
    """INSERT INTO ledger_transfers (id, client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id,
        amount_cents, created_at)
    SELECT {id}, '{client}', {id}, 'move', 'amount', '{provider}', '{main}', 100, '{at}' FROM {numbers}""",
    """INSERT INTO ledger_entries (account_id, posted_us, transfer_id, balance_cents)
    SELECT '{main}', {first_us} + n * {step_us}, {id}, n * 100 FROM {numbers}""",
)


def measure_exports(size: Size) -> dict[str, Any]:
    """Write statements and read opening balances of a short and a long account; return memory, seconds and costs."""
    exports, openings = [], []
    with TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "server").mkdir()
        server = PostgresServer(folder / "server", is_durable=True)
        try:
            for title in ("PostgreSQL", "SQLite"):
                settings = {}
                for rows in (FEW, size.rows):
                    home = folder / f"{title}-{rows}"
                    home.mkdir()
                    url = create_bench_database(server.url) if title == "PostgreSQL" else f"sqlite:///{home / 'b.db'}"
                    settings[rows] = {"USSD_DATABASE_URL": url, "USSD_DATA_DIR": str(home)}
                    with opened_services(home, settings[rows]):
                        _fill(rows)
                exports.append({"database": title, **_export(folder, settings, size)})
                openings.append({"database": title, **_read_openings(settings, size)})
        finally:
            server.stop()
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
        "lines": size.rows, "seconds": spread(seconds),
        "lines_per_second": spread(size.rows / each for each in seconds),
        "megabytes_of_few": spread(few), "megabytes_of_many": spread(many), "ratio": ratios(many, few),
    }  # fmt: skip


def _read_openings(settings: dict[int, dict[str, str]], size: Size) -> dict[str, Any]:
    seen: dict[int, list[float]] = defaultdict(list)
    for _ in range(size.rounds):
        for rows, its in settings.items():
            with opened_services(Path(its["USSD_DATA_DIR"]), its) as services:
                seen[rows].append(_quick_ms(services, rows))
    few, many = seen[FEW], seen[size.rows]
    return {"ms_of_few": spread(few), "ms_of_many": spread(many), "ratio": ratios(many, few)}


def _quick_ms(services: Services, rows: int) -> float:
    """The time of a statement that begins in the middle of the account and has one line.

    A tenth of the calls takes less: other work of the machine slows most calls of a server process, and hides theirs.
    """
    context = RequestContext(Caller(CallerKind.KEY, client_id=CLIENT_ID, grants=None))
    begin = datetime.fromtimestamp((_FIRST_US + rows // 2 * _STEP_US) / 1_000_000, UTC)
    costs = []
    for number in range(_WARM_UPS + _CALLS_A_ROUND):
        began = time.perf_counter()
        page = services.accounts.statements.get(GetStatement(from_at=begin, limit=1), context)
        release_connection()
        if number >= _WARM_UPS:
            costs.append(1000 * (time.perf_counter() - began))
        assert page.opening_balance_cents == (rows // 2 - 1) * 100
    return quantiles(costs, n=10)[0]


def _fill(rows: int) -> None:
    """Give the client so many collections of one shilling, a second apart."""
    numbers = (
        f"generate_series(1::bigint, {rows}) AS n"
        if is_postgres()
        else f"(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s)"
    )
    an_id = f"'01900000-0000-7000-8000-' || ({FIRST_NUMBER} + n)"
    values = {
        "client": CLIENT_ID, "at": _AT, "main": _MAIN, "provider": _PROVIDER, "last": rows, "numbers": numbers,
        "id": f"({an_id})::uuid" if is_postgres() else f"({an_id})", "first_us": _FIRST_US, "step_us": _STEP_US,
    }  # fmt: skip
    with without_timeouts():
        if is_postgres():
            database.execute_sql("SET statement_timeout = 0")
        with unit_of_work():
            _drop_rules()
            for statement in _ROWS:
                database.execute_sql(statement.format(**values))
        # Otherwise the server would do it by itself, while something is measured.
        database.execute_sql("VACUUM ANALYZE" if is_postgres() else "ANALYZE")


def _drop_rules() -> None:
    """Let rows be written without triggers: in this transaction, and on SQLite for good."""
    if is_postgres():
        database.execute_sql("SET LOCAL session_replication_role = replica")
        return
    for (name,) in database.execute_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute_sql(f"DROP TRIGGER {name}")
