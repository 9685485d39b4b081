"""Behind a real pgbouncer the service works as its setting says, and refuses one that was not named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from testbed.postgres import create_database, drop_database
from tests.conftest import MovableClock
from tests.support.crowd import at_once
from tests.support.money import a_client, deposit, request, work
from tests.support.pgbouncer import pgbouncer
from tests.support.sandbox import sandbox_settings
from ussd_server.bootstrap import build_services
from ussd_server.database.dialect import UnsupportedDatabaseError
from ussd_server.database.opening import database_at, open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections, database, unit_of_work

pytestmark = pytest.mark.needs_pgbouncer

MODES = pytest.mark.parametrize("mode", ["session", "transaction"])
TIMES = 60


@pytest.fixture
def direct_url(postgres_url: str) -> Iterator[str]:
    """An empty database of a user who is this test's alone, because users keep their limits."""
    url = create_database(postgres_url)
    name = url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f"CREATE ROLE {name} LOGIN SUPERUSER")
    yield re.sub(r"//[^@]*@", f"//{name}@", url)
    drop_database(postgres_url, url)
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f"DROP ROLE {name}")


def answer(number: int) -> str:
    """What the database says to one of nine statements, each of which a driver would prepare."""
    (text,) = database.execute_sql(f"SELECT '{number % 9}: ' || %s::integer", (number,)).fetchone()
    return str(text)


@MODES
def test_a_pooler_that_was_not_named_is_refused_in_one_sentence(direct_url: str, tmp_path: Path, mode: str) -> None:
    with pgbouncer(tmp_path, direct_url, mode) as url, pytest.raises(UnsupportedDatabaseError) as refused:
        database_at(url, 1).now()
    assert str(refused.value).startswith("A connection pooler stands between the service and PostgreSQL. Set USSD_DATA")


@MODES
def test_payments_at_once_through_few_lent_connections_keep_to_themselves(
    direct_url: str, tmp_path: Path, redis_url: str, clock: MovableClock, mode: str
) -> None:
    open_database(direct_url, 2, mode)
    migrate()
    with pgbouncer(tmp_path, direct_url, mode) as url:
        settings = sandbox_settings(tmp_path, url, redis_url, USSD_DATABASE_POOLER=mode, USSD_THREADS="2")
        services = build_services(settings, clock)
        try:
            context = a_client()
            deposit(services, context, 1_000_000)
            payments = [request("disbursement", shillings=500 + number) for number in range(TIMES)]
            made = at_once([partial(services.transactions.create, each, context) for each in payments], threads=8)
            assert [each.transaction.amount_cents for each in made] == [each.amount_cents for each in payments]
            assert at_once([partial(answer, number) for number in range(10 * TIMES)], threads=8) == [
                f"{number % 9}: {number}" for number in range(10 * TIMES)
            ]
            work(services, clock, seconds=5)
            total = sum(each.amount_cents for each in payments)
            assert services.balances.get(None, context).current_cents == 100_000_000 - total
            with unit_of_work():
                shown = database.execute_sql("SELECT current_setting('statement_timeout'), current_setting('timezone')")
            assert shown.fetchone() == ("5s", "UTC")
        finally:
            services.close()
            close_connections()


def test_limits_that_a_user_lacks_are_refused_and_set_by_migrating_without_the_pooler(
    direct_url: str, tmp_path: Path
) -> None:
    with pgbouncer(tmp_path, direct_url, "transaction") as url:
        with pytest.raises(UnsupportedDatabaseError, match="The database's user lacks its limits"):
            database_at(url, 1, "transaction").now()
        open_database(direct_url, 2, "transaction")
        migrate()
    with pgbouncer(tmp_path, direct_url, "transaction") as url:
        open_database(url, 2, "transaction")
        with pytest.raises(UnsupportedDatabaseError, match="Migrations need the address of PostgreSQL itself"):
            migrate()
        close_connections()
