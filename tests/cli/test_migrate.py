"""Two machines that start at once bring a database to today's shape together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from testbed.postgres import create_database, drop_database
from tests.journeys.service import environment
from ussd_server.database.connections import UnsupportedDatabaseError
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, database, open_database

STEPS = sorted(
    path.stem for path in (Path(__file__).parents[2] / "ussd_server" / "database" / "migrations").glob("[0-9]*.py")
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


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def badly_encoded_url(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[str]:
    """An empty PostgreSQL database that does not keep all of Unicode."""
    url = create_database(postgres_url, "template0", f"ENCODING '{request.param}' LC_COLLATE 'C' LC_CTYPE 'C'")
    yield url
    drop_database(postgres_url, url)


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
    monkeypatch.setattr("ussd_server.database.schema._OLDEST_POSTGRES", 99)
    monkeypatch.setattr("ussd_server.database.schema._OLDEST_SQLITE", (99, 0))
    open_database(empty_database_url, 2)
    with pytest.raises(UnsupportedDatabaseError, match="version 99"):
        migrate()
    assert database.get_tables() == []
    close_connections()


def test_a_database_with_another_encoding_than_utf8_is_refused_by_migrate_start_and_doctor(
    badly_encoded_url: str, tmp_path: Path
) -> None:
    settings = environment(tmp_path, USSD_DATABASE_URL=badly_encoded_url)
    started = [
        subprocess.Popen(
            [sys.executable, *command], env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for command in (
            ["-m", "ussd_server.cli", "migrate"],
            ["-m", "ussd_server.cli", "worker"],
            ["-m", "ussd_server.cli", "doctor"],
            ["-c", "import wsgi"],
        )
    ]
    said = [process.communicate(timeout=60)[0] for process in started]
    assert [process.returncode for process in started] == [1] * 4
    assert ["UTF8 is needed" in each for each in said[:3]] == [True] * 3
    with psycopg.connect(badly_encoded_url) as connection:
        assert connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall() == []


@pytest.mark.parametrize("empty_database_url", ["postgres"], indirect=True)
def test_the_environment_does_not_choose_the_encoding_of_the_connection(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    open_database(empty_database_url, 2)
    assert database.execute_sql("SELECT %s", ("Ŋ",)).fetchone() == ("Ŋ",)
    close_connections()
