"""The largest tables, partitioned by month with the operators' file: the service works as before."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread

import psycopg
import pytest
from peewee import OperationalError

from tests.conftest import MovableClock
from tests.database.divided import divide, drop_months
from tests.services.webhooks.receivers import Receiver, deliver, subscribe
from tests.support.books import check_everything
from tests.support.money import a_client, deposit, request, work
from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.database.partitions import ends_of_partitions
from ussd_server.database.unit_of_work import close_connections, database
from ussd_server.models.sending import Event
from ussd_server.services.transactions.messages import GetTransaction, ListTransactions
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.services.webhooks.messages import ListEvents
from ussd_server.settings import Settings

pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)

_DAY_SECONDS = 86_400
_A_SESSION_WAITS = """
SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database
WHERE datname = current_database() AND relation = 'transactions'::regclass AND NOT granted
"""


def months_ahead(clock: MovableClock) -> int:
    """For how many whole months from the next on every table has partitions; -1 without one for this month."""
    now = clock.now()
    return min(12 * (end.year - now.year) + end.month - now.month for end in ends_of_partitions().values()) - 1


def rows_of(table: str) -> dict[str, int]:
    """How many rows lie in each partition that has any."""
    counted = f"SELECT tableoid::regclass::text, count(*) FROM {table} GROUP BY 1"
    return dict(database.execute_sql(counted).fetchall())


def test_a_divided_service_goes_on_where_it_was(services: Services, clock: MovableClock, settings: Settings) -> None:
    call = a_client()
    deposit(services, call, 10_000)
    before = services.transactions.create(request("disbursement", "+256770000004", 100), call).transaction
    services.processing.advance(*services.processing.claim(1))
    divide(settings.database_url)
    with Receiver() as receiver:
        subscribe(services, call, receiver.url)
        work(services, clock, 10)
        clock.advance(40 * _DAY_SECONDS)
        after = services.transactions.create(request(shillings=300), call).transaction
        work(services, clock, 2)
        deliver(services)
        reported = [called.document["data"]["transaction_id"] for called in receiver.calls]
    for one in (before, after):
        assert services.transactions.get(GetTransaction(one.transaction_id), call).status == "succeeded"
        assert reported.count(one.transaction_id) >= 2
    assert [item.transaction_id for item in services.transactions.list(ListTransactions(limit=1), call).items] == [
        after.transaction_id
    ]
    newest = services.events.list(ListEvents(), call).items[0]
    assert services.events.get(newest.id, call).deliveries[0].status == "delivered"
    for table in ("events", "transaction_events"):
        assert len(rows_of(table)) == 2
        assert f"{table}_first" in rows_of(table)
    assert check_everything() == []
    # A guard that is missing on a single partition is reported.
    database.execute_sql("ALTER TABLE events_first DISABLE TRIGGER events_keep")
    assert [(one.id, one.rule) for one in check_everything()] == [
        ("events", "has lost or changed the trigger events_keep")
    ]


def test_a_divided_table_is_guarded_as_before_and_cleaned_as_before(
    services: Services, clock: MovableClock, settings: Settings
) -> None:
    shop = Shop(services)
    services.transactions.create(request(), shop.call)
    divide(settings.database_url)
    with psycopg.connect(settings.database_url, autocommit=True) as hand:
        for statement in (
            "UPDATE events SET payload = '{}'",
            "DELETE FROM events",
            "TRUNCATE events CASCADE",
            "UPDATE transaction_events SET status = 'succeeded'",
            "DELETE FROM transaction_events",
            "INSERT INTO transaction_events (transaction_id, sequence, client_id, status, source, created_at) "
            "SELECT transaction_id, 9, client_id, status, source, created_at FROM transaction_events",
        ):
            with pytest.raises(psycopg.errors.IntegrityError):
                hand.execute(statement)
    services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call)
    clock.advance(300)
    services.api_sessions.end_expired()
    clock.advance(91 * _DAY_SECONDS)
    assert services.retention.clean() == 1
    assert Event.select().where(Event.type == "ussd.session.ended").count() == 0


def test_nothing_is_read_or_built_while_the_tables_are_locked(services: Services, settings: Settings) -> None:
    divide(settings.database_url)
    named = "SELECT indexname FROM pg_indexes WHERE tablename IN ('events_first', 'transaction_events_first')"
    # What PostgreSQL had to build for a partition would be named after it.
    assert {name for (name,) in database.execute_sql(named)} == {
        "events_pkey", "events_object_id_sequence_key", "events_of_object", "events_newest", "events_newest_of_type",
        "transaction_events_pkey",
    }  # fmt: skip
    checked = "SELECT count(*) FROM pg_constraint WHERE conname = 'events_first' AND convalidated"
    assert database.execute_sql(checked).fetchone() == (2,)


def test_a_period_is_looked_for_in_its_own_partitions_alone(
    services: Services, clock: MovableClock, settings: Settings
) -> None:
    divide(settings.database_url)
    begin, end = "01a50000-0000-7000-8000-000000000000", "01a50fff-0000-7000-8000-000000000000"
    plan = database.execute_sql(f"EXPLAIN SELECT * FROM events WHERE id >= '{begin}' AND id < '{end}'").fetchall()
    assert str(plan).count(" on events_") == 1


@pytest.mark.parametrize("days", [0, 500])
def test_the_worker_makes_the_months_to_come(
    services: Services, clock: MovableClock, settings: Settings, days: int
) -> None:
    call = a_client()
    divide(settings.database_url)
    drop_months(settings.database_url)
    clock.advance(days * _DAY_SECONDS)
    services.retention.clean()
    assert months_ahead(clock) >= 3
    for _ in range(12):
        clock.advance(31 * _DAY_SECONDS)
        services.transactions.create(request(reference=str(clock.now())), call)
        services.retention.clean()
        assert months_ahead(clock) >= 3
    assert len(rows_of("events")) == len(rows_of("transaction_events")) == 12
    assert check_everything() == []


def test_a_payment_that_is_under_way_goes_on_while_a_month_is_added(services: Services, settings: Settings) -> None:
    divide(settings.database_url)
    drop_months(settings.database_url)

    def clean() -> None:
        with suppress(OperationalError):
            services.retention.clean()
        close_connections()

    with psycopg.connect(settings.database_url) as payment, psycopg.connect(settings.database_url) as onlooker:
        payment.execute("LOCK TABLE transactions IN ROW EXCLUSIVE MODE")
        worker = Thread(target=clean)
        worker.start()
        while worker.is_alive() and not onlooker.execute(_A_SESSION_WAITS).fetchone():
            continue
        payment.execute("LOCK TABLE transaction_events, events IN ROW EXCLUSIVE MODE NOWAIT")
    worker.join()


def test_the_worker_leaves_a_locked_table_alone_and_tries_again_later(
    services: Services, clock: MovableClock, settings: Settings
) -> None:
    call = a_client()
    divide(settings.database_url)
    drop_months(settings.database_url)
    with psycopg.connect(settings.database_url) as backup:
        backup.execute("LOCK TABLE events, transaction_events IN ACCESS SHARE MODE")
        with pytest.raises(OperationalError):
            services.retention.clean()
        assert services.retention.clean() == 0
        services.transactions.create(request(), call)
    assert months_ahead(clock) == 0
    clock.advance(3600)
    services.retention.clean()
    assert months_ahead(clock) >= 3
