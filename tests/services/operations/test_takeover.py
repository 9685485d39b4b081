"""Other workers soon continue the work of a killed worker, and leave that of a live one alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.conftest import MovableClock
from tests.support.money import a_client, request
from ussd_server.bootstrap import Services, build_services
from ussd_server.models.operations import WorkerHeartbeat
from ussd_server.models.sending import Delivery
from ussd_server.models.transactions import Transaction
from ussd_server.services.webhooks.messages import DeliveryStatus
from ussd_server.settings import Settings
from ussd_server.values import new_id


@pytest.fixture
def other(services: Services, settings: Settings, clock: MovableClock) -> Iterator[Services]:
    """Another worker on the same database."""
    services = build_services(settings, clock)
    yield services
    services.close()


def a_payment(services: Services) -> str:
    return services.transactions.create(request(), a_client()).transaction.transaction_id


def a_delivery(services: Services, lease_token: str | None, clock: MovableClock) -> str:
    now, ids = clock.now(), [new_id(clock.now()) for _ in range(3)]
    client_id = Transaction.get_by_id(a_payment(services)).client_id
    (event_id,) = Transaction._meta.database.execute_sql("SELECT id FROM events LIMIT 1").fetchone()
    Delivery.insert(
        id=ids[0],
        client_id=client_id,
        event_id=event_id,
        webhook_id=ids[1],
        object_id=ids[2],
        sequence=1,
        url="https://x.example",
        status=DeliveryStatus.WAITING,
        attempts=0,
        created_at=now,
        due_at=now,
        lease_token=lease_token,
    ).execute()
    return ids[0]


def claim(services: Services) -> list[str]:
    return [claimed.id for claimed in services.processing.claim(10)]


def held_by(services: Services) -> str:
    """A payment that a live worker has claimed."""
    payment = a_payment(services)
    services.runtime.heartbeat.beat()
    assert claim(services) == [payment]
    return payment


def take_over(other: Services) -> int:
    """The number of silent workers whose leases another worker frees after its heartbeat."""
    other.runtime.heartbeat.beat()
    return other.runtime.heartbeat.take_over()


def test_what_a_silent_worker_held_is_claimed_by_another_within_eight_seconds(
    services: Services, other: Services, clock: MovableClock
) -> None:
    payment = held_by(services)
    delivery = a_delivery(services, services.runtime.leases.new_token(), clock)
    Delivery.update(leased_until=clock.now() + timedelta(seconds=30)).execute()
    for _ in range(3):
        clock.advance(2)
        take_over(other)
        assert payment not in claim(other)
    clock.advance(2)
    assert take_over(other) == 1
    assert payment in claim(other)
    row = Delivery.get_by_id(delivery)
    assert (row.lease_token, row.leased_until) == (None, None)
    assert other.runtime.heartbeat.take_over() == 0
    assert WorkerHeartbeat.select().count() == 2, "its silence is still to be noticed"


def test_a_worker_that_starts_takes_over_at_once(
    services: Services, other: Services, settings: Settings, clock: MovableClock
) -> None:
    payment = held_by(services)
    clock.advance(8)
    take_over(other)
    assert claim(other) == [payment]


def test_what_a_living_worker_holds_stays_its_own(services: Services, other: Services, clock: MovableClock) -> None:
    held_by(services)
    for _ in range(10):
        clock.advance(4)
        services.runtime.heartbeat.beat()
        assert take_over(other) == 0
    assert claim(other) == []


def test_a_worker_that_was_silent_and_lives_can_be_taken_over_from_again(
    services: Services, other: Services, clock: MovableClock
) -> None:
    for _ in range(2):
        payment = held_by(services)
        clock.advance(8)
        assert take_over(other) == 1
        (claimed,) = other.processing.claim(10)
        assert claimed.id == payment
        other.processing.advance(claimed)


def test_after_the_database_was_down_no_worker_takes_over_before_its_own_heartbeat(
    services: Services, other: Services, clock: MovableClock
) -> None:
    services.runtime.heartbeat.beat()
    assert other.runtime.heartbeat.take_over() == 0
    other.runtime.heartbeat.beat()
    clock.advance(60)
    assert other.runtime.heartbeat.take_over() == 0


def test_a_worker_that_stops_frees_what_it_could_not_finish(
    services: Services, other: Services, clock: MovableClock
) -> None:
    payment = held_by(services)
    services.runtime.heartbeat.end()
    assert claim(other) == [payment]


def test_a_worker_that_was_overtaken_leaves_the_other_workers_lease_alone(
    services: Services, other: Services, clock: MovableClock
) -> None:
    payment = held_by(services)
    clock.advance(8)
    take_over(other)
    claim(other)
    services.runtime.heartbeat.end()
    token = Transaction.get_by_id(payment).lease_token
    assert token is not None
    assert token.startswith(f"{other.runtime.leases.worker_id}/")
