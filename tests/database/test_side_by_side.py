"""An upgrade while this version serves callers: it goes on beside the next migration, which keeps nobody waiting."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from testbed.postgres import create_database, drop_database
from tests.conftest import MovableClock
from tests.support.books import check_everything
from tests.support.eventually import eventually
from tests.support.money import a_client, call_with_key, deposit, request, work
from ussd_server.bootstrap import build_services
from ussd_server.context import RequestContext
from ussd_server.database import schema
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections
from ussd_server.models.transactions import Transaction
from ussd_server.settings import Settings

MIGRATIONS = Path(schema.__file__).parent / "migrations"
# A migration of a later version: a column that never changes, and indexes of big tables.
NEXT = """
from ussd_server.database.schema import build_index, execute_statements
from ussd_server.database.unit_of_work import is_postgres

# PostgreSQL builds an index beside writers outside of every transaction only.
atomic = not is_postgres()

# Nullable and without a default: PostgreSQL changes no row, and code that does not know the column writes on.
STATEMENTS = '''
ALTER TABLE transactions ADD COLUMN invoice_number text;

CREATE TRIGGER transactions_invoice_number BEFORE UPDATE OF invoice_number ON transactions -- PostgreSQL
    FOR EACH ROW WHEN (NEW.invoice_number IS DISTINCT FROM OLD.invoice_number) -- PostgreSQL
    EXECUTE FUNCTION refuse_change(); -- PostgreSQL

CREATE TRIGGER transactions_invoice_number BEFORE UPDATE OF invoice_number ON transactions -- SQLite
WHEN NEW.invoice_number IS NOT OLD.invoice_number -- SQLite
BEGIN SELECT RAISE(ABORT, 'rows of transactions are never changed or removed'); END; -- SQLite
'''


def up(migrator, db):
    execute_statements(db, STATEMENTS)
    build_index(db, "transactions_invoiced", "transactions (client_id, id) WHERE invoice_number IS NOT NULL")
    build_index(db, "sessions_seen", "ussd_sessions (client_id, id)", is_unique=True)
"""


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


def test_what_is_recorded_before_and_after_the_migration_is_finished_by_the_same_code(
    settings: Settings, clock: MovableClock
) -> None:
    services = build_services(settings, clock)

    def pay(name: str, call: RequestContext) -> None:
        for kind in ("collection", "disbursement"):
            services.transactions.create(request(kind, reference=f"{kind}-{name}"), call)

    call = call_with_key(services, a_client())
    deposit(services, call, 100_000)
    pay("before", call)
    assert migrate() == ["9999_made_up"]
    pay("after", call)
    pay("new", call_with_key(services, call))
    work(services, clock, 1)
    paid = Transaction.select(Transaction.status).where(Transaction.type != "deposit")
    assert [row.status for row in paid] == ["succeeded"] * 6
    assert check_everything() == []
    services.gauges.read()
    services.close()


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
