"""The message to the operator for each fault of a database, on real databases."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from peewee import PeeweeException

from testbed.postgres import create_database, drop_database
from ussd_server.cli.refusals import explain
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, database


def trouble_at(url: str) -> str:
    """What is said when the database at `url` is migrated."""
    open_database(url, 2)
    with pytest.raises(PeeweeException) as raised:
        migrate()
    close_connections()
    trouble = explain(raised.value)
    assert trouble is not None
    return f"{trouble.found}. {trouble.mend}"


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
