"""What waits, for how long, and who works on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.services.money import a_client, wish, work
from tests.services.receivers import happen, subscribe
from tests.shop import PHONE, Shop
from ussd_server.house import Services, build_services
from ussd_server.messages.providers import Outcome
from ussd_server.messages.ussd import BeginSession
from ussd_server.models.base import close_connections
from ussd_server.models.ussd import UssdSession
from ussd_server.models.workers import WorkerPulse
from ussd_server.services.drop_offs import MOST_PLACES, DropOffs
from ussd_server.worker import Worker


def read(house: Services) -> dict[str, float]:
    """Every gauge by its name and the values of its labels."""
    return {" ".join([each.name, *each.labels.values()]): each.value for each in house.gauges.read()}


def test_an_idle_service_waits_for_nothing(house: Services) -> None:
    found = read(house)
    assert found.pop("ussd_database_up") == 1
    assert set(found.values()) == {0}


def test_unfinished_transactions_are_counted_by_state_and_age(house: Services, clock: MovableClock) -> None:
    call = a_client()
    house.transactions.create(wish(number="+256770000000"), call)
    clock.advance(700)
    house.transactions.create(wish(number="+256770000004"), call)
    found = read(house)
    assert found["ussd_transactions_unfinished created 1h"] == 1
    assert found["ussd_transactions_unfinished created 1m"] == 1
    assert 700 <= found["ussd_transactions_oldest_unfinished_seconds"] < 720
    assert 700 <= found["ussd_transactions_overdue_seconds"] < 720
    assert found["ussd_transactions_recent sandbox collection created"] == 2
    work(house, clock, 10)
    found = read(house)
    assert found["ussd_transactions_recent sandbox collection succeeded"] == 2
    assert found["ussd_transactions_oldest_unfinished_seconds"] == 0


def test_a_transaction_that_waits_for_a_person_is_told(house: Services, clock: MovableClock) -> None:
    house.transactions.create(wish(number="+256770000009"), a_client())
    work(house, clock, 60)
    clock.advance(500)
    found = read(house)
    assert found["ussd_transactions_in_review"] == 1
    assert found["ussd_transactions_longest_review_seconds"] >= 500


def test_events_and_deliveries_that_nobody_sends_are_told(house: Services, clock: MovableClock) -> None:
    call = a_client()
    subscribe(house, call, "http://127.0.0.1:1024")
    happen(house, call, times=1)
    clock.advance(30)
    found = read(house)
    assert found["ussd_events_pending"] >= 1
    assert found["ussd_events_lag_seconds"] >= 30
    house.fanout.run()
    clock.advance(40)
    found = read(house)
    assert (found["ussd_events_pending"], found["ussd_deliveries_queued"]) == (0, 1)
    assert found["ussd_deliveries_overdue_seconds"] >= 40


def test_conversations_are_told_by_the_node_where_they_stand(house: Services, clock: MovableClock) -> None:
    shop = Shop(house)
    for _ in range(2):
        house.ussd.begin(BeginSession(PHONE, shop.code), shop.call)
    found = read(house)
    assert found["ussd_sessions_active"] == 2
    assert found["ussd_steps_recent"] == 2
    assert found[f"ussd_sessions_recent {shop.code} root active "] == 2
    clock.advance(200)
    house.ussd.end_expired()
    found = read(house)
    assert found["ussd_sessions_active"] == 0
    assert found[f"ussd_sessions_recent {shop.code} root timed_out idle"] == 2
    house.pulse.beat()
    (worker,) = WorkerPulse.select()
    timed_out = f"ussd_sessions_timed_out_total {worker.id} {shop.code} shop root idle"
    assert read(house)[timed_out] == 2
    house.ussd.begin(BeginSession(PHONE, shop.code), shop.call)
    clock.advance(200)
    house.ussd.end_expired()
    house.pulse.beat()
    assert read(house)[timed_out] == 3, "it counts on, whatever becomes of the rows"


def test_only_so_many_places_where_conversations_break_off_are_told_apart(house: Services) -> None:
    shop = Shop(house)
    row = UssdSession.get_by_id(house.ussd.begin(BeginSession(PHONE, shop.code), shop.call).session_id)
    row.end_reason = "idle"
    drop_offs = DropOffs()
    for number in range(MOST_PLACES + 5):
        row.node = f"node{number}"
        drop_offs.count(row)
    counts = dict(drop_offs.counts())
    assert len(counts) == MOST_PLACES + 1
    assert counts["(other)", "(other)", "(other)", "idle"] == 5


def test_a_worker_says_that_it_works_and_what_companies_answered(house: Services, clock: MovableClock) -> None:
    Worker(house)
    house.transactions.create(wish(number="+256770000000"), a_client())
    work(house, clock)
    house.pulse.count_call("sandbox", "enquire", Outcome.UNKNOWN)
    house.pulse.beat()
    clock.advance(25)
    (worker,) = WorkerPulse.select()
    found = read(house)
    assert 25 <= found[f"ussd_worker_silent_seconds {worker.id}"] < 30
    assert found[f"ussd_company_available {worker.id} sandbox"] == 1
    assert found[f"ussd_company_calls_total {worker.id} sandbox ask succeeded"] == 1
    assert found[f"ussd_company_calls_total {worker.id} sandbox enquire unknown"] == 1
    clock.advance(100)
    assert f"ussd_company_available {worker.id} sandbox" not in read(house)
    house.pulse.beat()
    assert read(house)[f"ussd_worker_silent_seconds {worker.id}"] < 5
    house.pulse.end()
    assert not WorkerPulse.select().exists()


def test_a_worker_that_was_silent_for_a_day_is_forgotten(house: Services, clock: MovableClock) -> None:
    now = clock.now()
    WorkerPulse.create(id="gone:1", started_at=now, seen_at=now, measures={"calls": [], "available": {}})
    clock.advance(90_000)
    house.pulse.beat()
    assert "gone:1" not in {row.id for row in WorkerPulse.select()}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_without_a_database_only_that_is_told(house: Services) -> None:
    lost = build_services(replace(house.settings, database_url="postgresql://nobody@127.0.0.1:1/none"))
    assert read(lost) == {"ussd_database_up": 0}
    lost.limiter.close()
    close_connections()
