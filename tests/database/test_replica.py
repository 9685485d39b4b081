"""Lists are read from a streaming replica while its lag is small; money is always read from the primary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import psycopg
import pytest
from peewee import Table

from testbed.postgres import PostgresServer, create_database, drop_database, temporary_server
from tests.support.eventually import eventually
from tests.support.money import a_client, deposit, request
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.cli.service.doctor_database import examine_replica
from ussd_server.context import RequestContext
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.servers import Replica, rows_that_may_lag
from ussd_server.database.unit_of_work import close_connections, database
from ussd_server.services.transactions.messages import CreatedTransaction, GetTransaction, ListTransactions
from ussd_server.services.webhooks.messages import ListEvents
from ussd_server.settings import Settings


@dataclass
class Pair:
    """A primary and its replica."""

    primary: PostgresServer
    replica: PostgresServer

    def replay(self, what: str) -> None:
        """Let the replica `pause` or `resume` making the changes that it receives."""
        with psycopg.connect(self.replica.url, autocommit=True) as hand:
            hand.execute(f"SELECT pg_wal_replay_{what}()")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with temporary_server() as primary, temporary_server(replica_of=primary) as replica:
        yield Pair(primary, replica)


@pytest.fixture
def database_url(pair: Pair) -> Iterator[str]:
    url = create_database(pair.primary.url)
    open_database(url, 2)
    migrate()
    close_connections()
    yield url
    drop_database(pair.primary.url, url)


@pytest.fixture
def settings(settings: Settings, pair: Pair, database_url: str) -> Settings:
    url = f"{pair.replica.url.rpartition('/')[0]}/{database_url.rpartition('/')[2]}"
    # Long enough for a machine that is busy with other tests.
    return replace(settings, replica_url=url, replica_lag_seconds=60)


@dataclass
class Desk:
    """A client with money, and the lists that its programs see."""

    services: Services
    call: RequestContext

    @property
    def replica(self) -> Replica:
        """The replica of the services."""
        assert self.services.runtime.replica is not None
        return self.services.runtime.replica

    def pay(self, reference: str, kind: str = "collection") -> CreatedTransaction:
        """Create a payment of 700 shillings."""
        return self.services.transactions.create(request(kind, shillings=700, reference=reference), self.call)

    def listed(self, **filters: str) -> list[str]:
        """The references of the newest transactions."""
        page = self.services.transactions.list(ListTransactions(limit=10, **filters), self.call)
        return [item.reference for item in page.items]


@pytest.fixture
def desk(services: Services) -> Desk:
    """Where one payment has been made that the replica knows as well."""
    desk = Desk(services, a_client())
    deposit(services, desk.call, 10_000)
    desk.pay("known")
    # At first the replica lacks the database of this test.
    eventually(lambda: "known" in desk.listed() and not desk.replica.is_away)
    return desk


def test_lists_may_lag_and_money_may_not(desk: Desk, pair: Pair) -> None:
    services, call = desk.services, desk.call
    pair.replay("pause")
    try:
        made = desk.pay("fresh", "disbursement").transaction
        desk.pay("collected")
        assert desk.listed() == ["known", "deposit"]
        assert [item.reference for item in services.transactions.list_collected(ListTransactions(), call).items] == [
            "known"
        ]
        assert made.transaction_id not in {event.object_id for event in services.events.list(ListEvents(), call).items}
        # Values that a caller decides by.
        assert desk.listed(reference="fresh") == ["fresh"]
        assert services.transactions.get(GetTransaction(made.transaction_id), call).reference == "fresh"
        assert services.balances.get(None, call).reserved_cents == 70_000
        assert desk.pay("fresh", "disbursement").replayed
        assert not desk.replica.is_away
    finally:
        pair.replay("resume")
    eventually(lambda: desk.listed()[:2] == ["collected", "fresh"])


def test_a_replica_that_is_too_far_behind_is_not_asked(desk: Desk, pair: Pair) -> None:
    strict = Replica(str(desk.services.settings.replica_url), 2, 0.5, lambda _: None)
    desk = Desk(Services(other_runtime(desk.services, replica=strict)), desk.call)
    pair.replay("pause")
    try:
        desk.pay("fresh")
        eventually(lambda: "fresh" in desk.listed())
        assert examine_replica(str(desk.services.settings.replica_url), 0).mend is not None
    finally:
        pair.replay("resume")
        strict.close()


def test_the_primary_answers_while_the_replica_lacks_a_migration(desk: Desk, pair: Pair) -> None:
    pair.replay("pause")
    try:
        database.execute_sql("CREATE TABLE made_later (id integer)")
        database.execute_sql("INSERT INTO made_later VALUES (7)")
        later = Table("made_later", ["id"], _database=database)
        assert rows_that_may_lag(later.select(later.id), desk.replica) == [{"id": 7}]
        assert desk.replica.is_away
    finally:
        pair.replay("resume")
    eventually(lambda: "known" in desk.listed() and not desk.replica.is_away)


def test_while_the_replica_is_away_the_primary_answers(
    desk: Desk, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.replica.stop()
    try:
        desk.pay("meanwhile")
        assert "meanwhile" in desk.listed()
    finally:
        pair.replica.start()
    eventually(lambda: "meanwhile" in desk.listed() and not desk.replica.is_away)
    results = [json.loads(line)["event"].partition(":")[0] for line in caplog.messages]
    # It starts from its last checkpoint, and may be away a second time until it has the tables again.
    assert (results[0], results[-1]) == ("the replica is away or too far behind", "the replica is back")


def test_a_database_that_is_no_replica_is_not_taken_for_one(desk: Desk, pair: Pair) -> None:
    assert examine_replica(pair.primary.url, 60).found == "it does not answer as a replica"
    assert examine_replica(str(desk.services.settings.replica_url), 60).mend is None
