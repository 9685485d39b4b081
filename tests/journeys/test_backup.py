"""The backup of SQLite that docs/OPERATIONS.md describes; that of PostgreSQL is in `tests/cli/test_restore.py`."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.support.book import DOCS
from tests.support.commands import run_command
from tests.support.money import a_client, deposit, request, work
from tests.support.real_service.service import environment
from ussd_server.bootstrap import Services
from ussd_server.services.clients.keys.messages import CreateApiKey

TABLES = ("transactions", "transaction_events", "ledger_transfers", "ledger_accounts", "events", "api_keys")


@pytest.fixture
def busy(services: Services, clock: MovableClock) -> Services:
    """A service that moved money, with some payments unfinished."""
    call = a_client()
    deposit(services, call, 50_000)
    services.api_keys.create(CreateApiKey(None), call)
    for number in range(8):
        services.transactions.create(request(number=f"+25677000000{number}"), call)
        services.transactions.create(request("disbursement", number=f"+25677000000{number}", shillings=700), call)
    work(services, clock, 5)
    services.transactions.create(request(shillings=1), call)
    return services


def rows(connection: Any) -> dict[str, list[str]]:
    """Every row of the tables that matter."""
    return {name: sorted(map(str, connection.execute(f"SELECT * FROM {name}").fetchall())) for name in TABLES}


def check(url: str, folder: Path) -> str:
    """What `ussd-server check` says of a database."""
    settings = {"USSD_DATABASE_URL": url, "USSD_SECRETS_FILE": str(folder / "secrets.json")}
    return run_command("check", "--full", env=environment(folder, **settings)).stdout


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_backup_of_sqlite_taken_while_it_is_open_keeps_the_books(busy: Services, tmp_path: Path) -> None:
    file = busy.settings.database_url.removeprefix("sqlite:///")
    copy = tmp_path / "copy.db"
    # One snapshot. The shell's `.backup` begins anew at each write of another process: of a large file it never ends.
    statement = re.search(r'sqlite3 \S+ussd.db "(VACUUM INTO .*?)"', (DOCS / "OPERATIONS.md").read_text())
    with closing(sqlite3.connect(file)) as original:
        original.execute(statement[1].replace("/backup/ussd.db", str(copy)))
    with closing(sqlite3.connect(file)) as original, closing(sqlite3.connect(copy)) as restored:
        assert rows(restored) == rows(original)
    assert "everything is as it must be" in check(f"sqlite:///{copy}", tmp_path)
