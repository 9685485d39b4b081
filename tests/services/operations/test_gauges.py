"""What waits, for how long, and who works on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import MovableClock
from tests.services.incoming.till import Till
from tests.services.webhooks.receivers import happen, subscribe
from tests.support.example_client import OPERATOR
from tests.support.money import a_client, request, work
from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services, build_services
from ussd_server.database.unit_of_work import close_connections
from ussd_server.models.operations import WorkerHeartbeat
from ussd_server.models.sending import Sms
from ussd_server.models.ussd import UssdSession
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.menus.replays import MOST_PLACES, DropOffs
from ussd_server.services.operations.book_check.examinations import keep_check
from ussd_server.services.operations.messages import BoundedCheck
from ussd_server.services.sms.outbox import queue_sms
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.worker import Worker


def read(services: Services) -> dict[str, float]:
    """Every gauge by its name and the values of its labels."""
    return {" ".join([each.name, *each.labels.values()]): each.value for each in services.gauges.read()}


def test_an_idle_service_waits_for_nothing(services: Services) -> None:
    found = read(services)
    assert found.pop("ussd_database_up") == 1
    # What a server has used up is of all its databases, and never nothing.
    assert {value for name, value in found.items() if not name.startswith("ussd_database_")} == {0}


def test_the_last_check_is_measured(services: Services, clock: MovableClock) -> None:
    assert not [name for name in read(services) if name.startswith("ussd_check")]
    keep_check(BoundedCheck({"transactions": 9}, ("A balance is wrong",), None), clock.now(), is_whole=True)
    clock.advance(60)
    found = read(services)
    assert found["ussd_check_violations"] == 1
    assert found["ussd_check_ended_seconds"] >= 60


def test_unfinished_transactions_are_counted_by_state_and_age(services: Services, clock: MovableClock) -> None:
    call = a_client()
    services.transactions.create(request(number="+256770000000"), call)
    clock.advance(700)
    services.transactions.create(request(number="+256770000004"), call)
    found = read(services)
    assert found["ussd_transactions_unfinished created 1h"] == 1
    assert found["ussd_transactions_unfinished created 1m"] == 1
    assert 700 <= found["ussd_transactions_oldest_unfinished_seconds"] < 720
    assert 700 <= found["ussd_transactions_overdue_seconds"] < 720
    assert found["ussd_transactions_recent sandbox collection created"] == 2
    work(services, clock, 10)
    found = read(services)
    assert found["ussd_transactions_recent sandbox collection succeeded"] == 2
    assert found["ussd_transactions_oldest_unfinished_seconds"] == 0


def test_a_transaction_that_needs_an_operator_is_counted(services: Services, clock: MovableClock) -> None:
    services.transactions.create(request(number="+256770000009"), a_client())
    work(services, clock, 60)
    assert read(services)["ussd_transactions_in_review"] == 1


def test_a_held_payment_is_counted(services: Services) -> None:
    Till(services).pay("a code that is not known")
    assert read(services)["ussd_movements_held"] == 1


def test_events_and_deliveries_that_are_not_sent_are_counted(services: Services, clock: MovableClock) -> None:
    call = a_client()
    subscribe(services, call, "http://127.0.0.1:1024")
    happen(services, call, times=1)
    clock.advance(30)
    found = read(services)
    assert found["ussd_events_pending"] >= 1
    assert found["ussd_events_lag_seconds"] >= 30
    services.relay.run()
    clock.advance(40)
    found = read(services)
    assert (found["ussd_events_pending"], found["ussd_deliveries_queued"]) == (0, 1)
    assert found["ussd_deliveries_overdue_seconds"] >= 40


def test_a_webhook_that_fails_is_late_by_itself(services: Services, clock: MovableClock) -> None:
    call = a_client()
    url = "http://127.0.0.1:1024"
    webhook = subscribe(services, call, url)
    for _ in range(3):
        happen(services, call)
    services.relay.run()
    for delivery_id in services.deliveries.claim(1):
        services.deliveries.send(delivery_id)
    clock.advance(100)
    found = read(services)
    assert found["ussd_deliveries_overdue_seconds"] == 0
    (late,) = [value for name, value in found.items() if name.startswith("ussd_webhook_late_seconds")]
    assert 100 <= late < 110
    (shown,) = services.system.show(OPERATOR).late_webhooks
    assert (shown.webhook_id, shown.url) == (webhook.id, url)
    assert shown.failing_since is not None


def test_sessions_are_counted_by_their_node(services: Services, clock: MovableClock) -> None:
    shop = Shop(services)
    for _ in range(2):
        services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call)
    found = read(services)
    assert found["ussd_sessions_active"] == 2
    assert found["ussd_steps_recent"] == 2
    assert found[f"ussd_sessions_recent {shop.code} root active "] == 2
    clock.advance(200)
    services.api_sessions.end_expired()
    found = read(services)
    assert found["ussd_sessions_active"] == 0
    assert found[f"ussd_sessions_recent {shop.code} root timed_out idle"] == 2
    services.runtime.heartbeat.beat()
    (worker,) = WorkerHeartbeat.select()
    timed_out = f"ussd_sessions_timed_out_total {worker.id} {shop.code} shop root idle"
    assert read(services)[timed_out] == 2
    services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call)
    clock.advance(200)
    services.api_sessions.end_expired()
    services.runtime.heartbeat.beat()
    assert read(services)[timed_out] == 3, "it counts on, whatever becomes of the rows"


def test_only_so_many_nodes_of_drop_offs_are_counted_apart(services: Services) -> None:
    shop = Shop(services)
    row = UssdSession.get_by_id(services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call).session_id)
    row.end_reason = "idle"
    drop_offs = DropOffs()
    for number in range(MOST_PLACES + 5):
        row.node = f"node{number}"
        drop_offs.count(row)
    counts = dict(drop_offs.counts())
    assert len(counts) == MOST_PLACES + 1
    assert counts["(other)", "(other)", "(other)", "idle"] == 5


def test_a_worker_reports_its_heartbeat_and_the_outcomes_of_providers(services: Services, clock: MovableClock) -> None:
    Worker(services)
    services.transactions.create(request(number="+256770000000"), a_client())
    work(services, clock)
    services.runtime.heartbeat.count_call("sandbox", "enquire", ProviderAnswer(Outcome.UNKNOWN), 5)
    services.runtime.heartbeat.beat()
    clock.advance(25)
    (worker,) = WorkerHeartbeat.select()
    found = read(services)
    assert 25 <= found[f"ussd_worker_silent_seconds {worker.id}"] < 30
    assert found[f"ussd_provider_available {worker.id} sandbox"] == 1
    assert found[f"ussd_provider_calls_total {worker.id} sandbox ask succeeded"] == 1
    assert found[f"ussd_provider_calls_total {worker.id} sandbox enquire unknown"] == 1
    clock.advance(100)
    assert f"ussd_provider_available {worker.id} sandbox" not in read(services)
    services.runtime.heartbeat.beat()
    assert read(services)[f"ussd_worker_silent_seconds {worker.id}"] < 5
    services.runtime.heartbeat.end()
    assert not WorkerHeartbeat.select().exists()


def test_a_worker_that_was_silent_for_a_day_is_forgotten(services: Services, clock: MovableClock) -> None:
    now = clock.now()
    WorkerHeartbeat.create(id="gone:1", started_at=now, seen_at=now, measures={"calls": [], "available": {}})
    clock.advance(90_000)
    services.runtime.heartbeat.beat()
    assert "gone:1" not in {row.id for row in WorkerHeartbeat.select()}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_without_a_database_only_that_gauge_is_returned(services: Services) -> None:
    lost = build_services(replace(services.settings, database_url="postgresql://nobody@127.0.0.1:1/none"))
    assert read(lost) == {"ussd_database_up": 0, "ussd_database_read_only": 0, "ussd_database_full": 0}
    lost.close()
    close_connections()


def test_messages_that_were_refused_are_counted_and_those_that_wait_have_an_age(
    services: Services, clock: MovableClock
) -> None:
    client_id = a_client().client_id
    for reference in ("first", "refused"):
        queue_sms(client_id, PHONE, "Your order is ready", reference, clock.now())
    Sms.update(status="failed", failure_code="SENDER_REFUSED", due_at=None, completed_at=clock.now()).where(
        Sms.reference == "refused"
    ).execute()
    clock.advance(400)
    found = read(services)
    assert found["ussd_messages_refused_recent"] == 1
    assert 400 <= found["ussd_messages_oldest_seconds"] < 420
