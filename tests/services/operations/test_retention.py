"""Old sessions and deliveries are removed; money, status histories and the audit trail stay."""

from __future__ import annotations

from tests.conftest import MovableClock
from tests.services.webhooks.receivers import Receiver, subscribe
from tests.support.books import check_everything
from tests.support.money import a_client, request, work
from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent
from ussd_server.models.ledger import Transfer
from ussd_server.models.sending import Delivery, Event, Sms
from ussd_server.models.transactions import StatusChange, Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.sms.outbox import queue_sms
from ussd_server.services.ussd.messages import BeginSession

_DAY_SECONDS = 86_400
FOR_EVER = (Transaction, StatusChange, Transfer, AuditEvent)


def test_sessions_that_are_long_over_go_with_their_events(services: Services, clock: MovableClock) -> None:
    shop = Shop(services)
    for _ in range(3):
        services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call)
    clock.advance(300)
    services.api_sessions.end_expired()
    assert (UssdSession.select().count(), Event.select().count()) == (3, 3)
    clock.advance(89 * _DAY_SECONDS)
    assert services.retention.clean() == 0
    clock.advance(_DAY_SECONDS)
    # However much there is, a step is small.
    assert [services.retention.clean(limit=2) for _ in range(3)] == [2, 1, 0]
    assert (UssdSession.select().count(), Event.select().count()) == (0, 0)


def test_a_session_that_is_under_way_stays(services: Services, clock: MovableClock) -> None:
    shop = Shop(services)
    services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call)
    clock.advance(100 * _DAY_SECONDS)
    assert services.retention.clean() == 0


def test_deliveries_that_are_done_go_and_money_stays(services: Services, clock: MovableClock) -> None:
    call = a_client()
    with Receiver() as receiver:
        subscribe(services, call, receiver.url)
        services.transactions.create(request(), call)
        work(services, clock)
        while services.relay.run():
            continue
        while sent := services.deliveries.claim(10):
            for delivery in sent:
                services.deliveries.send(delivery)
    done = Delivery.select().count()
    kept = [table.select().count() for table in (*FOR_EVER, Event)]
    assert done > 1
    clock.advance(31 * _DAY_SECONDS)
    assert services.retention.clean() == done
    assert Delivery.select().count() == 0
    clock.advance(4000 * _DAY_SECONDS)
    assert services.retention.clean() == 0
    assert [table.select().count() for table in (*FOR_EVER, Event)] == kept
    assert check_everything() == []


def test_a_delivery_that_is_on_its_way_stays(services: Services, clock: MovableClock) -> None:
    call = a_client()
    subscribe(services, call, "http://127.0.0.1:1024")
    services.transactions.create(request(), call)
    services.relay.run()
    clock.advance(100 * _DAY_SECONDS)
    assert services.retention.clean() == 0
    assert Delivery.select().count() == 1


def test_messages_go_after_the_days_of_sessions(services: Services, clock: MovableClock) -> None:
    queue_sms(a_client().client_id, PHONE, "Your order is ready", "order-7", clock.now())
    clock.advance(89 * _DAY_SECONDS)
    assert services.retention.clean() == 0
    clock.advance(2 * _DAY_SECONDS)
    assert services.retention.clean() == 1
    assert not Sms.select().exists()
