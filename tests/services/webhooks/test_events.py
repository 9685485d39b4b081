"""Events can be read and sent again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.conftest import MovableClock
from tests.services.webhooks.receivers import (
    Receiver,
    answering,
    deliver,
    happen,
    only_delivery,
    subscribe,
)
from tests.support.money import a_client, request
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Event, PendingEvent, Webhook
from ussd_server.services.webhooks.messages import ListEvents, RedeliverEvents
from ussd_server.values import iso_milliseconds, new_id

HOUR = 3600.0
DAY = 24 * HOUR


def test_events_of_one_object_are_listed_in_their_order_though_processes_differ_about_the_time(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    services.transactions.create(request(), call)
    (claimed,) = services.processing.claim(1)
    clock.advance(-0.1)
    services.processing.advance(claimed)
    assert [event.sequence for event in services.events.list(ListEvents(), call).items] == [3, 2, 1]


def test_asking_again_for_what_is_being_tried_hurries_it_and_doubles_nothing(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    with Receiver(answering(500, 500, 200)) as receiver:
        subscribe(services, call, receiver.url)
        (event_id,) = happen(services, call)
        deliver(services, clock, 10)
        assert len(receiver.calls) == 2
        services.events.redeliver(event_id, call)
        deliver(services)
    assert len(receiver.calls) == 3
    assert only_delivery(services, call, event_id).status == "delivered"


def test_a_period_is_sent_again_in_the_order_of_each_object(services: Services, clock: MovableClock) -> None:
    call = a_client()
    begin = clock.now()
    happen(services, call, times=5)
    clock.advance(1)
    end = clock.now()
    happen(services, call)
    deliver(services)
    with Receiver() as receiver:
        subscribe(services, call, receiver.url)
        again = services.events.redeliver_range(RedeliverEvents(begin, end, "ussd.session.ended"), call)
        nothing = services.events.redeliver_range(RedeliverEvents(begin, end, "transaction.failed"), call)
        deliver(services)
    assert (again.events, nothing.events) == (5, 0)
    assert [received.document["data"]["number"] for received in receiver.calls] == [0, 1, 2, 3, 4]


def test_only_what_a_webhook_missed_is_sent_again(services: Services, clock: MovableClock) -> None:
    call = a_client()
    begin = clock.now()
    happen(services, call)
    deliver(services)
    clock.advance(1)
    with Receiver(answering(200)) as receiver:
        webhook = subscribe(services, call, receiver.url)
        clock.advance(1)
        happen(services, call)
        deliver(services, clock, 10)
        Webhook.update(is_active=False, disabled_at=clock.now()).where(Webhook.id == webhook.id).execute()
        missed = happen(services, call, times=2)
        deliver(services, clock, 10)
        Webhook.update(is_active=True, disabled_at=None).where(Webhook.id == webhook.id).execute()
        request = RedeliverEvents(begin, datetime.max.replace(tzinfo=UTC), None, "failed")
        assert services.events.redeliver_range(request, call).events == len(missed)
        with Receiver() as other:
            subscribe(services, call, other.url)
            deliver(services, clock, 10)
            assert other.calls == [], "it missed nothing"
        assert len(receiver.calls) == 3
        assert services.events.redeliver_range(request, call).events == 0


def test_what_one_webhook_missed_does_not_go_again_to_another(services: Services, clock: MovableClock) -> None:
    call = a_client()
    begin = clock.now()
    with Receiver(answering(410, 200)) as receiver, Receiver() as other:
        webhook = subscribe(services, call, receiver.url, "ussd.session.ended")
        subscribe(services, call, other.url, "ussd.session.ended")
        (event_id,) = happen(services, call)
        deliver(services)
        services.webhooks.enable(webhook.id, call)
        request = RedeliverEvents(begin, datetime.max.replace(tzinfo=UTC), None, "failed")
        assert services.events.redeliver_range(request, call).events == 1
        deliver(services)
        assert ([each.id for each in receiver.calls], len(other.calls)) == ([event_id, event_id], 1)
        services.events.redeliver_range(RedeliverEvents(begin, request.to_at), call)
        services.events.redeliver_range(request, call)
        deliver(services)
        assert len(other.calls) == 2, "all that was asked for goes to all, whatever is asked for beside it"


def test_a_webhook_that_accepts_events_again_is_reported_with_the_moment_of_the_first_that_it_missed(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    statuses = [200]
    with Receiver(lambda _: statuses[0]) as receiver, Receiver() as watcher:
        webhook = subscribe(services, call, receiver.url, "ussd.session.ended")
        subscribe(services, call, watcher.url, "webhook.recovered")
        happen(services, call)
        deliver(services)
        statuses[0] = 500
        happen(services, call)
        deliver(services)
        statuses[0] = 200
        deliver(services, clock, 60)
        assert watcher.calls == [], "what is retried is not missed"
        statuses[0] = 410
        happen(services, call)
        missed = Event.select().where(Event.type == "ussd.session.ended").order_by(Event.id.desc()).get()
        clock.advance(60)
        deliver(services)
        services.webhooks.enable(webhook.id, call)
        statuses[0] = 200
        happen(services, call)
        deliver(services)
        deliver(services)
    (reported,) = watcher.calls
    assert reported.document["data"] == {
        "webhook_id": webhook.id,
        "url": receiver.url,
        "missed_since": iso_milliseconds(missed.created_at),
    }


def test_at_most_a_thousand_events_are_sent_again_at_once(services: Services, clock: MovableClock) -> None:
    call = a_client()
    now = clock.now()
    rows = [
        {
            "id": new_id(now),
            "client_id": call.client_id,
            "type": "ussd.session.ended",
            "object_id": f"o{number}",
            "sequence": 1,
            "payload": {},
            "created_at": now,
        }
        for number in range(1001)
    ]
    for start in range(0, 1001, 200):
        Event.insert_many(rows[start : start + 200]).execute()
    PendingEvent.delete().execute()
    with pytest.raises(Exception, match="More than 1000 events"):
        services.events.redeliver_range(RedeliverEvents(now, datetime.max.replace(tzinfo=UTC)), call)
    assert not PendingEvent.select().exists()
