"""Two machines that start at once migrate a database together; each fault of a database has its own message."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from peewee import PeeweeException

from testbed.postgres import create_database, drop_database
from tests.support.commands import Command, run_command
from tests.support.real_service.service import environment
from ussd_server.cli.refusals import explain
from ussd_server.database.dialect import UnsupportedDatabaseError
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, database

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
    """An empty PostgreSQL database whose encoding is not UTF-8."""
    url = create_database(postgres_url, "template0", f"ENCODING '{request.param}' LC_COLLATE 'C' LC_CTYPE 'C'")
    yield url
    drop_database(postgres_url, url)


def test_two_processes_that_migrate_at_once_both_end_well(empty_database_url: str, tmp_path: Path) -> None:
    settings = environment(tmp_path, USSD_DATABASE_URL=empty_database_url)
    ended = [command.result() for command in [Command("migrate", "--json", env=settings) for _ in range(2)]]
    assert [each.returncode for each in ended] == [0, 0]
    assert sorted(json.loads(each.stdout)["applied"] for each in ended) == [[], STEPS]


def test_a_database_that_is_too_old_is_refused_before_anything_is_made(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ussd_server.database.postgres._OLDEST_VERSION", 99)
    monkeypatch.setattr("ussd_server.database.sqlite._OLDEST_VERSION", (99, 0))
    open_database(empty_database_url, 2)
    with pytest.raises(UnsupportedDatabaseError, match="version 99"):
        migrate()
    assert database.get_tables() == []
    close_connections()


def test_a_database_with_another_encoding_than_utf8_is_refused_by_migrate_start_and_doctor(
    badly_encoded_url: str, tmp_path: Path
) -> None:
    settings = environment(tmp_path, USSD_DATABASE_URL=badly_encoded_url)
    web = subprocess.Popen([sys.executable, "-c", "import wsgi"], env=settings, stderr=subprocess.DEVNULL)
    ended = [run_command(name, env=settings) for name in ("migrate", "worker", "doctor")]
    assert [each.returncode for each in ended] == [1] * 3
    assert ["UTF8 is needed" in each.stdout + each.stderr for each in ended] == [True] * 3
    assert web.wait(60) == 1
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


def trouble_at(url: str) -> str:
    """What is said when the database at `url` is migrated."""
    open_database(url, 2)
    with pytest.raises(PeeweeException) as raised:
        migrate()
    close_connections()
    trouble = explain(raised.value)
    assert trouble is not None
    return f"{trouble.problem}. {trouble.mend}"


@pytest.mark.parametrize(
    ("role", "address", "words"),
    [
        ("", "nobody@HOST/DATABASE", "does not exist"),
        ("", "postgres@HOST/nothing", "does not exist"),
        ("LOGIN", "ROLE@HOST/DATABASE", "rights it needs"),
        ("LOGIN CONNECTION LIMIT 0", "ROLE@HOST/DATABASE", "no connection left"),
        ("NOLOGIN", "ROLE@HOST/DATABASE", "does not let this user in"),
        ("", "postgres@HOST/DATABASE?sslmode=require", "TLS"),
        ("", "postgres@HOST/DATABASE?colour=green", "PostgreSQL does not take"),
        ("", "postgres@127.0.0.1:1/DATABASE", "does not answer"),
    ],
)
def test_each_refusal_of_a_server_has_its_own_message(postgres_url: str, role: str, address: str, words: str) -> None:
    url = create_database(postgres_url)
    place, _, name = url.rpartition("@")[2].rpartition("/")
    for placeholder, value in {"HOST": place, "DATABASE": name, "ROLE": f"r{name}"}.items():
        address = address.replace(placeholder, value)
    with psycopg.connect(postgres_url, autocommit=True) as server:
        if role:
            server.execute(f"CREATE ROLE r{name} {role}")
        said = trouble_at(f"postgresql://{address}")
        drop_database(postgres_url, url)
        server.execute(f"DROP ROLE IF EXISTS r{name}")
    assert words in said


def test_a_file_that_is_no_database_and_a_missing_folder_have_different_errors(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("These are notes. " * 100)
    assert "damaged" in trouble_at(f"sqlite:///{tmp_path}/notes.txt")
    assert "cannot be opened" in trouble_at(f"sqlite:///{tmp_path}/none/x.db")


def test_a_statement_of_ours_that_is_wrong_is_not_blamed_on_the_database(database_url: str) -> None:
    open_database(database_url, 2)
    with pytest.raises(PeeweeException) as raised:
        database.execute_sql("SELECT FROM WHERE")
    close_connections()
    assert explain(raised.value) is None


def test_a_database_that_was_never_migrated_says_so(database_url: str) -> None:
    open_database(database_url, 2)
    with pytest.raises(PeeweeException) as raised:
        database.execute_sql("SELECT 1 FROM table_of_tomorrow")
    close_connections()
    trouble = explain(raised.value)
    assert trouble is not None
    assert "migrate" in trouble.mend
