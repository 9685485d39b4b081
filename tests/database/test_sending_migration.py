"""The upgrade of keys: who may send now keeps it, and of others nothing but the sending of money goes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.postgres import create_database, drop_database
from ussd_server.database import schema
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, database

FOLDER = Path(schema.__file__).parent / "migrations"
MOMENT = "2026-11-20T08:00:00.000Z"
CLIENT = "0190d7a5-0000-7000-8000-000000000000"
PEOPLE = {
    "owner": ("owner", True),
    "admin": ("admin", True),
    "developer": ("developer", True),
    "left": ("owner", False),
}
WITHOUT = (
    "ussd:* menus:* transactions:read transactions:write balance:* collection:* webhooks:* payouts:read payouts:write "
    "statements:* messages:*"
)


def _id(number: int) -> str:
    return f"0190d7a5-0000-7000-8000-{number:012d}"


IDS = {name: _id(number) for number, name in enumerate(PEOPLE, 1)}


@pytest.fixture(params=["sqlite", "postgres"])
def first_version(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """A database as the first version made it, with a client and its people; `undo` brings the other migrations."""
    is_sqlite = request.param == "sqlite"
    server_url = "" if is_sqlite else request.getfixturevalue("postgres_url")
    url = f"sqlite:///{tmp_path}/old.db" if is_sqlite else create_database(server_url)
    folder = tmp_path / "migrations"
    folder.mkdir()
    shutil.copy(FOLDER / "0001_baseline.py", folder)
    monkeypatch.setattr(schema, "_DIRECTORY", folder)
    open_database(url, 4)
    migrate()
    run(f"INSERT INTO clients (id, name, is_active, created_at, updated_at) VALUES ('{CLIENT}', 'a', true, {MOMENTS})")
    for name, (role, is_active) in PEOPLE.items():
        run(
            "INSERT INTO users (id, client_id, email, password_hash, role, is_active, created_at, updated_at) "
            f"VALUES ('{IDS[name]}', '{CLIENT}', '{name}', 'x', '{role}', {is_active}, {MOMENTS})"
        )
    yield monkeypatch
    close_connections()
    if not is_sqlite:
        drop_database(server_url, url)


MOMENTS = f"'{MOMENT}', '{MOMENT}'"


def run(statement: str) -> None:
    database.execute_sql(statement)


def add_key(number: int, scopes: str | None, made_by: str | None, rotated_by: str | None = None) -> str:
    key_id = _id(100 + number)
    written, maker = f"'{scopes}'" if scopes else "NULL", f"'{IDS[made_by]}'" if made_by else "NULL"
    digest = "''"
    run(
        "INSERT INTO api_keys (id, client_id, apikey, secret_sealed, secret_digest, digest_key_id, scopes, is_active, "
        f"created_at, updated_at, created_by) VALUES ('{key_id}', '{CLIENT}', 'key{number}', "
        f"CAST({digest} AS {blob()}), CAST({digest} AS {blob()}), 'k', {written}, true, {MOMENTS}, {maker})"
    )
    if rotated_by:
        run(
            "INSERT INTO audit_events (id, client_id, user_id, actor, action, object_id, address, request_id, "
            f"created_at) VALUES ('{_id(200 + number)}', '{CLIENT}', '{IDS[rotated_by]}', 'user', 'api_key.rotated', "
            f"'{key_id}', '', '', '{MOMENT}')"
        )
    return key_id


def blob() -> str:
    return "blob" if schema.dialect().name == "SQLite" else "bytea"


KEYS = [
    # scopes, maker, last rotated by, scopes after the upgrade
    ("transactions:write", "owner", None, "transactions:write transactions:send"),
    (
        "balance:read transactions:write ussd:*",
        "admin",
        None,
        "balance:read transactions:write transactions:send ussd:*",
    ),
    ("transactions:write", None, None, "transactions:write transactions:send"),
    ("transactions:write", "developer", None, "transactions:write"),
    ("transactions:write", "left", None, "transactions:write"),
    ("transactions:write", "owner", "developer", "transactions:write"),
    ("transactions:write", "developer", "admin", "transactions:write transactions:send"),
    ("transactions:*", "owner", None, "transactions:*"),
    ("ussd:read transactions:*", "developer", None, "ussd:read transactions:read transactions:write"),
    ("transactions:read", "owner", None, "transactions:read"),
    (None, "owner", None, None),
    (None, None, None, None),
    (None, "developer", None, WITHOUT),
    (None, "left", None, WITHOUT),
    (None, "owner", "developer", WITHOUT),
]


def test_the_upgrade_gives_the_right_to_send_where_the_person_behind_a_key_may_give_it(
    first_version: pytest.MonkeyPatch,
) -> None:
    ids = [add_key(number, *key[:3]) for number, key in enumerate(KEYS)]
    first_version.undo()
    assert "0003_sending" in migrate()
    found = dict(database.execute_sql("SELECT CAST(id AS text), scopes FROM api_keys").fetchall())
    assert [found[key_id] for key_id in ids] == [key[3] for key in KEYS]
    ((changes,),) = database.execute_sql("SELECT number FROM unseen_changes").fetchall()
    assert changes == 1, "every process reads its cached keys anew"
