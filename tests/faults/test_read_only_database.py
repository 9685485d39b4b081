"""A read-only database, as during a failover, is handled like one that is away; no restart is needed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import psycopg
import pytest
from flask.testing import FlaskClient

from testbed.postgres import temporary_server
from tests.cli.test_doctor import diagnose
from tests.support.books import check_everything
from tests.support.eventually import eventually
from tests.support.example_client import ExampleClient
from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.cli.service.doctor_database import losses_of_a_failover
from ussd_server.database.opening import database_at, open_database, postgres_pool
from ussd_server.database.schema import migrate
from ussd_server.database.servers import present_standbys
from ussd_server.database.unit_of_work import DATABASE_ERRORS, close_connections, database, database_fault
from ussd_server.security.key_ring import Keyring
from ussd_server.services.operations.gauges import measures_of_server
from ussd_server.services.operations.messages import DoctorFinding
from ussd_server.settings import Settings
from ussd_server.worker import Worker

PAYMENT = {"type": "collection", "phone_number": PHONE, "amount": 5000, "reference": "order-1"}

on_postgres = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)


@contextmanager
def read_only(url: str) -> Iterator[None]:
    """Let the database of `url` take no writes on any connection, and end those that are open, as a failover does."""
    server, _, name = url.rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as hand:
        set_and_end = (
            f"ALTER DATABASE {name} SET default_transaction_read_only = {{}}",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        for statement in set_and_end:
            hand.execute(statement.format("on"))
        try:
            yield
        finally:
            for statement in set_and_end:
                hand.execute(statement.format("off"))


@contextmanager
def working(services: Services) -> Iterator[None]:
    """Let a background worker run during the block."""
    stop = Event()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(Worker(services).run, stop)
        try:
            yield
        finally:
            stop.set()
            running.result()


def pay(web: FlaskClient, key: dict[str, str]) -> tuple[int, str | None]:
    reply = web.post("/api/transactions", json=PAYMENT, headers=key)
    return reply.status_code, reply.headers.get("Retry-After")


@on_postgres
def test_calls_get_503_readiness_and_gauges_name_it_and_no_restart_is_needed(
    services: Services, web: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    made = ExampleClient(services).create_key()
    key = {"x-api-key": made.apikey, "x-api-secret": made.apisecret}
    shop = Shop(services)
    step = {"sessionId": "s1", "phoneNumber": PHONE, "serviceCode": shop.code, "text": "", "networkCode": "99999"}
    with working(services):
        with read_only(services.settings.database_url):
            close_connections()
            assert pay(web, key) == (503, "1")
            assert web.get("/health/ready").json["message"] == "The database is read-only"
            assert "ussd_database_up 0.0" in web.get("/metrics").text
            assert "ussd_database_read_only 1.0" in web.get("/metrics").text
            screen = web.post(shop.channel.gateway_path, data=step)
            assert (screen.status_code, screen.text[:4]) == (200, "END ")
        eventually(lambda: pay(web, key)[0] in (200, 201))
        assert web.get("/health/ready").status_code == 200
        eventually(lambda: web.get("/data/collection", headers=key).json["data"]["items"][0]["status"] == "succeeded")
    assert not [record for record in caplog.records if "mistake of ours" in record.getMessage()]
    assert check_everything() == []


@on_postgres
def test_the_doctor_names_it(settings: Settings, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    Keyring.create(tmp_path / "secrets.json")
    with read_only(settings.database_url):
        status, found = diagnose(tmp_path, USSD_DATABASE_URL=settings.database_url, USSD_REDIS_URL=settings.redis_url)
    assert status == 1
    assert found["database"]["found"] == "the postgresql database only reads"


@on_postgres
def test_what_a_server_reports_as_it_goes_away_is_trouble_and_no_bug(services: Services) -> None:
    # It is stopped, has crashed, starts, and ended a connection that was idle in a transaction.
    for sqlstate in ("57P01", "57P02", "57P03", "25P03"):
        with pytest.raises(DATABASE_ERRORS):
            database.execute_sql(f"DO $$ BEGIN RAISE SQLSTATE '{sqlstate}'; END $$")


@on_postgres
@pytest.mark.parametrize("sqlstate", ["42501", "XX000"])
def test_a_disk_that_became_read_only_is_trouble_and_no_bug(services: Services, sqlstate: str) -> None:
    text = 'could not open file "base/16384/16861": Read-only file system'
    with pytest.raises(DATABASE_ERRORS):
        database.execute_sql(f"DO $$ BEGIN RAISE '{text}' USING ERRCODE = '{sqlstate}'; END $$")


def test_of_several_hosts_the_one_that_takes_writes_is_used_also_after_a_failover() -> None:
    with temporary_server() as primary, temporary_server(replica_of=primary) as standby:
        open_database(standby.url, 2)
        assert database_fault() == "read-only"
        url = f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/postgres"
        open_database(url, 2)
        migrate()
        assert (database_fault(), connected_to()) == (None, primary.port)
        assert losses().mend is not None, "the standby receives commits after they were answered"
        assert losses(are_accepted=True).mend is None
        found = {each.name: each.value for each in measures_of_server()}
        assert (found["ussd_database_standbys"], found["ussd_database_may_lose_commits"]) == (1, 1)
        assert found["ussd_database_standby_lag_bytes"] >= 0
        assert 0 < found["ussd_database_connections_share"] < 1
        with psycopg.connect(primary.url, autocommit=True) as hand:
            hand.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            hand.execute("SELECT pg_reload_conf()")
        eventually(lambda: losses().mend is None)
        assert {each.name: each.value for each in measures_of_server()}["ussd_database_may_lose_commits"] == 0
        primary.stop()
        with psycopg.connect(standby.url, autocommit=True) as hand:
            hand.execute("SELECT pg_promote()")
        eventually(lambda: database_fault() is None)
        assert connected_to() == standby.port
        close_connections()


def losses(*, are_accepted: bool = False) -> DoctorFinding:
    standbys = present_standbys()
    assert standbys is not None
    return losses_of_a_failover(standbys, are_accepted=are_accepted)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:p@one,two/ussd",
        "postgresql:///ussd?host=one,two",
        "postgresql://u@one/ussd?host=one,two&user=u",
    ],
)
def test_several_hosts_are_seen_wherever_the_address_names_them(address: str) -> None:
    assert database_at(address, 1).pool.connect_params["target_session_attrs"] == "read-write"
    chosen = f"{address}{'&' if '?' in address else '?'}target_session_attrs=any"
    assert "target_session_attrs" not in database_at(chosen, 1).pool.connect_params


def test_a_comma_in_a_password_makes_no_second_host() -> None:
    assert "target_session_attrs" not in database_at("postgresql://u:a,b@one/ussd", 1).pool.connect_params


def test_the_doctor_survives_an_address_with_an_unknown_option(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    Keyring.create(tmp_path / "secrets.json")
    status, found = diagnose(tmp_path, USSD_DATABASE_URL="postgresql://127.0.0.1/ussd?nonsense=1")
    assert status == 1
    assert found["database"]["mend"]


def test_of_several_replicas_none_has_to_take_writes() -> None:
    assert "target_session_attrs" not in postgres_pool("postgresql://one,two/ussd", 1).connect_params


def connected_to() -> int:
    """The port of the server that answers."""
    (port,) = database.execute_sql("SELECT inet_server_port()").fetchone()
    return int(port)
