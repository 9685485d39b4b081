"""Old and new code on one database: statements of this version still work, and no migration delays callers."""

from __future__ import annotations

import itertools
import re
import shutil
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

from testbed.postgres import create_database, drop_database
from tests.conftest import MovableClock
from tests.support.books import check_everything
from tests.support.eventually import eventually
from tests.support.money import work
from ussd_server.bootstrap import build_services
from ussd_server.database import schema
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, database, is_postgres
from ussd_server.models.transactions import Transaction
from ussd_server.settings import Settings
from ussd_server.values import new_id

MIGRATIONS = Path(schema.__file__).parent / "migrations"
# A migration of a later version: a column and an index of a big table, while this version serves callers.
NEXT = """
from ussd_server.database.schema import build_index, execute_statements
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()


def up(migrator, db):
    # Nullable and without a default: PostgreSQL changes no row, and code that does not know the column writes on.
    execute_statements(db, "ALTER TABLE transactions ADD COLUMN seen_at timestamptz;")
    build_index(db, "transactions_seen", "transactions (client_id, seen_at) WHERE seen_at IS NOT NULL")
    build_index(db, "sessions_seen", "ussd_sessions (client_id, id)", is_unique=True)
"""
BIG = (
    "transactions",
    "transaction_events",
    "ledger_transfers",
    "events",
    "deliveries",
    "ussd_sessions",
    "audit_events",
)
# The test's clock may begin two minutes behind the real time.
BEGUN = datetime.now(UTC) - timedelta(minutes=5)
NOW = f"{BEGUN:%Y-%m-%dT%H:%M:%S}.000Z"
_numbers = itertools.count(1)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database of today's version, while the program has one migration more."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/old.db"
    else:
        server_url = request.getfixturevalue("postgres_url")
        url = create_database(server_url)
    open_database(url, 4)
    migrate()
    close_connections()
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    (folder / "9999_made_up.py").write_text(NEXT)
    monkeypatch.setattr(schema, "_DIRECTORY", folder)
    yield url
    close_connections()
    if request.param == "postgres":
        drop_database(server_url, url)


def insert(table: str, **columns: Any) -> dict[str, Any]:
    """Write a row with exactly these columns, as the earlier version does."""
    places = ", ".join("%s" if is_postgres() else "?" for _ in columns)
    database.execute_sql(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", tuple(columns.values()))
    return columns


def fresh_id() -> str:
    return new_id(BEGUN)


def write_as_before() -> str:
    """One row of everything, in the statements of today's version; gives the transaction that is left to be done."""
    number = next(_numbers)
    client = insert("clients", id=fresh_id(), name=f"client {number}", is_active=True, created_at=NOW, updated_at=NOW)
    owner = {"client_id": client["id"], "created_at": NOW}
    user = insert(
        "users",
        id=fresh_id(),
        email=f"{number}@x.example",
        password_hash="x",
        role="owner",
        is_active=True,
        updated_at=NOW,
        **owner,
    )
    insert("logins", id=fresh_id(), user_id=user["id"], address="", refresh_number=1, expires_at=NOW, **owner)
    insert("audit_events", id=fresh_id(), actor="user", action="x", address="", request_id="r", **owner)
    key = insert(
        "api_keys",
        id=fresh_id(),
        apikey=f"key{number}",
        secret_sealed=b"x",
        secret_digest=b"x",
        digest_key_id="k",
        is_active=True,
        updated_at=NOW,
        **owner,
    )
    request = {
        "status": "created",
        "phone_number": "+256770000000",
        "amount_cents": 700,
        "fee_cents": 0,
        "currency": "UGX",
        "request_digest": "",
        "late": False,
        "updated_at": NOW,
        "ask_attempts": 0,
        "checks": 0,
        "due_at": NOW,
        **owner,
    }
    deposit = insert(
        "transactions", id=fresh_id(), type="deposit", account="main", reference="deposit", due_source="poll", **request
    )
    accounts = {
        name: insert(
            "ledger_accounts",
            id=fresh_id(),
            name=name,
            kind=name,
            currency="UGX",
            balance_cents=0,
            reserved_cents=0,
            **owner,
        )["id"]
        for name in ("deposits", "main")
    }
    transfer = {
        "id": fresh_id(),
        "transaction_id": deposit["id"],
        "kind": "move",
        "purpose": "amount",
        "debit_account_id": accounts["deposits"],
        "credit_account_id": accounts["main"],
        "amount_cents": 700,
        **owner,
    }
    insert("ledger_transfers", **transfer)
    report(deposit, "created", 1)
    mark = "%s" if is_postgres() else "?"
    database.execute_sql(
        f"UPDATE transactions SET status = 'succeeded', completed_at = {mark}, due_at = NULL WHERE id = {mark}",
        (NOW, deposit["id"]),
    )
    reported = report(deposit, "succeeded", 2)
    collection = insert(
        "transactions",
        id=fresh_id(),
        type="collection",
        account="main",
        provider="sandbox",
        reference=f"c{number}",
        provider_reference=str(uuid.uuid4()),
        due_source="poll",
        **request,
    )
    report(collection, "created", 1)
    webhook = insert(
        "webhooks",
        id=fresh_id(),
        url="https://x.example",
        secret_sealed=b"x",
        is_active=True,
        is_proven=False,
        updated_at=NOW,
        **owner,
    )
    insert(
        "deliveries",
        id=fresh_id(),
        event_id=reported,
        webhook_id=webhook["id"],
        object_id=deposit["id"],
        sequence=2,
        url="https://x.example",
        status="waiting",
        attempts=0,
        **owner,
    )
    menu = insert("menus", id=fresh_id(), client_id=client["id"], name="shop", draft="{}", draft_saved_at=NOW)
    insert(
        "ussd_sessions",
        id=fresh_id(),
        key_id=key["id"],
        phone_number="+256770000000",
        service_code="*1#",
        network="",
        status="active",
        menu_id=menu["id"],
        menu_version=1,
        node="n",
        language="en",
        turn=0,
        state="{}",
        turns="[]",
        action="continue",
        message="",
        last_seen_at=NOW,
        expires_at=f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%S.000Z}",
        **owner,
    )
    measures = '{"calls": [], "available": {}}'
    insert("worker_heartbeats", id=f"old:{number}", started_at=NOW, seen_at=NOW, measures=measures)
    return str(collection["id"])


def report(transaction: dict[str, Any], status: str, sequence: int) -> str:
    """Add to a transaction's status history, and write the event of it."""
    insert(
        "transaction_events",
        transaction_id=transaction["id"],
        sequence=sequence,
        client_id=transaction["client_id"],
        status=status,
        source="submit",
        created_at=NOW,
    )
    event_id = fresh_id()
    names = ("reference", "type", "phone_number", "currency", "account", "provider", "provider_reference", "late")
    unset = ("to_phone_number", "session_id", "description", "metadata", "failure", "provider_transaction_id")
    payload = (
        {name: transaction.get(name) for name in names}
        | dict.fromkeys(unset)
        | {
            "transaction_id": transaction["id"],
            "status": status,
            "amount": 7,
            "fee": 0,
            "created_at": NOW,
            "updated_at": NOW,
            "completed_at": NOW if status == "succeeded" else None,
            "next_check_at": None,
            "origin": "client",
        }
    )
    insert(
        "events",
        id=event_id,
        client_id=transaction["client_id"],
        type=f"transaction.{status}",
        payload=orjson.dumps(payload).decode(),
        object_id=transaction["id"],
        sequence=sequence,
        created_at=NOW,
    )
    return event_id


def test_what_old_code_writes_before_and_after_the_migration_is_taken_and_finished_by_new_code(
    settings: Settings, clock: MovableClock
) -> None:
    open_database(settings.database_url, 4)
    before = write_as_before()
    close_connections()
    migrate()
    after = write_as_before()
    services = build_services(settings, clock)
    work(services, clock, 1)
    assert {row.status for row in Transaction.select().where(Transaction.id.in_([before, after]))} == {"succeeded"}
    assert check_everything() == []
    services.gauges.read()
    services.close()


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_no_migration_keeps_writers_out_of_a_big_table_for_long(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No migration reads or writes a whole table under an exclusive lock, by its statements and by the files."""
    open_database(database_url, 4)
    write_as_before()
    before = files()
    said: list[str] = []
    execute = database.execute_sql

    def listen(statement: str, *more: Any, **options: Any) -> Any:
        said.append(" ".join(statement.split()))
        return execute(statement, *more, **options)

    monkeypatch.setattr(database.obj, "execute_sql", listen)
    migrate()
    monkeypatch.undo()
    table = rf"(ONLY )?({'|'.join(BIG)})\b"
    held = re.compile(
        rf"CREATE (UNIQUE )?INDEX (?!CONCURRENTLY).* ON {table}|ALTER TABLE {table}.*(SET NOT NULL|\bTYPE\b|"
        rf"ADD (CONSTRAINT|CHECK|UNIQUE|PRIMARY|FOREIGN|EXCLUDE)(?!.*NOT VALID))|ALTER TABLE {table} ADD COLUMN.*"
        rf"(REFERENCES|CHECK|UNIQUE)|(UPDATE|DELETE FROM|LOCK|CLUSTER|VACUUM FULL|REINDEX) {table}"
    )
    # Bodies of functions and triggers run later, row by row.
    assert [
        one for one in said if not re.match(r"CREATE (OR REPLACE )?(FUNCTION|TRIGGER)", one) and held.search(one)
    ] == []
    assert files() == before
    assert [one for one in said if one.startswith("CREATE UNIQUE INDEX CONCURRENTLY sessions_seen ")]


def files() -> dict[str, int]:
    """The file of each big table: it changes when a migration rewrites the table."""
    named = ", ".join(f"'{table}'" for table in BIG)
    return dict(
        database.execute_sql(f"SELECT relname, relfilenode FROM pg_class WHERE relname IN ({named})").fetchall()
    )


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_migration_that_waits_for_a_long_reader_lets_the_others_through(database_url: str) -> None:
    open_database(database_url, 4)
    applied: list[str] = []
    migration = threading.Thread(target=lambda: applied.extend(migrate()))
    with psycopg.connect(database_url) as reader, psycopg.connect(database_url, autocommit=True) as caller:
        reader.execute("SELECT FROM transactions")
        migration.start()
        waits = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        eventually(lambda: caller.execute(waits).rowcount > 0)
        caller.execute("SET lock_timeout = '10s'")
        caller.execute("UPDATE transactions SET checks = checks")
        assert applied == []
        reader.rollback()
        migration.join()
    assert applied == ["9999_made_up"]
