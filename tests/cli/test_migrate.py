"""Two machines that start at once bring a database to today's shape together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.service import environment
from tests.postgres_server import create_database, drop_database
from ussd_server.models.base import close_connections, database, open_database
from ussd_server.models.schema import UnsupportedDatabaseError, migrate

STEPS = sorted(
    path.stem for path in (Path(__file__).parents[2] / "ussd_server" / "models" / "migrations").glob("[0-9]*.py")
)


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without a single table."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/empty.db"
        return
    server_url = request.getfixturevalue("postgres_url")
    url = create_database(server_url)
    yield url
    drop_database(server_url, url)


def test_two_processes_that_migrate_at_once_both_end_well(empty_database_url: str, tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "ussd_server.cli", "migrate", "--json"],
            env=environment(tmp_path, USSD_DATABASE_URL=empty_database_url),
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    applied = [json.loads(process.communicate()[0])["applied"] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(applied) == [[], STEPS]


def test_a_database_that_is_too_old_is_refused_before_anything_is_made(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ussd_server.models.schema._OLDEST_POSTGRES", 99)
    monkeypatch.setattr("ussd_server.models.schema._OLDEST_SQLITE", (99, 0))
    open_database(empty_database_url, 2)
    with pytest.raises(UnsupportedDatabaseError, match="version 99"):
        migrate()
    assert database.get_tables() == []
    close_connections()
