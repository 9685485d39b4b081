"""Queues of deliveries: in order for each object, shared by any number of senders; no receiver delays the others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import MovableClock
from tests.services.webhooks.receivers import Received, Receiver, deliver, happen, only_delivery, subscribe
from tests.support.money import a_client
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Delivery, Event, Webhook
from ussd_server.values import new_id

HOUR = 3600.0
DAY = 24 * HOUR


def every_queue_has_one_head() -> bool:
    waiting = list(Delivery.select().where(Delivery.status == "waiting"))
    heads = [(row.webhook_id, row.object_id) for row in waiting if row.due_at is not None]
    return sorted(heads) == sorted({(row.webhook_id, row.object_id) for row in waiting})


def test_a_later_event_waits_for_the_earlier_one_of_its_object_and_for_no_other(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    refused: list[str] = []

    def refuse_first(received: Received) -> int:
        if received.id == stuck and not refused:
            refused.append(received.id)
            return 503
        return 200

    with Receiver(refuse_first) as receiver:
        subscribe(services, call, receiver.url)
        stuck, behind = happen(services, call, times=2)
        (free,) = happen(services, call)
        deliver(services)
        assert sorted(received.id for received in receiver.calls) == sorted([stuck, free])
        assert every_queue_has_one_head()
        happen(services, call, Event.get_by_id(stuck).object_id)
        deliver(services)
        assert every_queue_has_one_head()
        clock.advance(6)
        deliver(services)
    of_object = [received.id for received in receiver.calls if received.id in (stuck, behind)]
    assert of_object == [stuck, stuck, behind]
    assert len(receiver.calls) == 5


def test_after_a_dead_event_the_later_ones_of_its_object_go_on(services: Services, clock: MovableClock) -> None:
    call = a_client()
    with Receiver(lambda received: 500 if received.document["data"]["number"] == 0 else 200) as receiver:
        subscribe(services, call, receiver.url, "ussd.session.ended")
        happen(services, call, times=3)
        deliver(services)
        assert {received.document["data"]["number"] for received in receiver.calls} == {0}
        deliver(services, clock, 36 * HOUR, 900)
    assert [received.document["data"]["number"] for received in receiver.calls] == [0] * 8 + [1, 2]


def test_events_of_one_moment_go_out_by_their_sequence_whatever_their_ids(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    now = clock.now()
    ids = sorted((new_id(now) for _ in range(4)), reverse=True)
    for sequence, event_id in enumerate(ids, start=1):
        Event.insert(
            id=event_id,
            client_id=call.client_id,
            type="ussd.session.ended",
            object_id="one",
            sequence=sequence,
            payload={},
            created_at=now,
        ).execute()
    with Receiver() as receiver:
        subscribe(services, call, receiver.url)
        deliver(services)
    assert [received.id for received in receiver.calls] == ids


def test_an_event_with_a_smaller_id_that_is_committed_later_is_not_missed(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    early, late = new_id(clock.now()), new_id(clock.now().replace(year=2090))
    with Receiver() as receiver:
        subscribe(services, call, receiver.url)
        for event_id in (late, early):
            Event.insert(
                id=event_id,
                client_id=call.client_id,
                type="ussd.session.ended",
                object_id=event_id,
                sequence=1,
                payload={},
                created_at=clock.now(),
            ).execute()
            deliver(services)
    assert [received.id for received in receiver.calls] == [late, early]


def test_a_delivery_whose_sender_died_is_sent_by_another_one(services: Services, clock: MovableClock) -> None:
    call = a_client()
    with Receiver() as receiver:
        subscribe(services, call, receiver.url)
        (event_id,) = happen(services, call)
        services.relay.run()
        assert len(services.deliveries.claim(10)) == 1
        deliver(services)
        assert receiver.calls == []
        clock.advance(31)
        deliver(services)
    assert [received.id for received in receiver.calls] == [event_id]


def test_a_sender_that_comes_back_too_late_changes_nothing(services: Services, clock: MovableClock) -> None:
    call = a_client()

    def outlive_the_lease(_: Received) -> int:
        if len(receiver.calls) == 1:
            clock.advance(31)
            deliver(services)
            return 500
        return 200

    with Receiver(outlive_the_lease) as receiver:
        subscribe(services, call, receiver.url)
        (event_id,) = happen(services, call)
        deliver(services)
    delivery = only_delivery(services, call, event_id)
    assert (len(receiver.calls), delivery.status, delivery.attempts) == (2, "delivered", 1)


@pytest.mark.both_databases
def test_side_by_side_claims_never_give_one_delivery_to_two(services: Services) -> None:
    call = a_client()
    with Receiver() as receiver:
        subscribe(services, call, receiver.url)
        happen(services, call)
        deliver(services)
        for _ in range(40):
            happen(services, call)
        services.relay.run()
        with ThreadPoolExecutor(8) as pool:
            claimed = [
                delivery for ids in pool.map(lambda _: services.deliveries.claim(3), range(8)) for delivery in ids
            ]
    assert len(claimed) == len(set(claimed)) == services.settings.delivery_slots // 4


def test_a_webhook_that_is_not_proven_gets_one_slot_and_all_of_them_half(
    services: Services, clock: MovableClock
) -> None:
    slots = services.settings.delivery_slots
    unproven = [a_client(f"new {number}") for number in range(slots)]
    for call in unproven:
        subscribe(services, call, "http://127.0.0.1:9999/")
        for _ in range(3):
            happen(services, call)
    services.relay.run()
    assert len(services.deliveries.claim(100)) == slots // 2
    assert services.deliveries.claim(100) == []
    proven = a_client("proven")
    with Receiver() as receiver:
        subscribe(services, proven, receiver.url)
        Webhook.update(is_proven=True).where(Webhook.client_id == proven.client_id).execute()
        for _ in range(slots):
            happen(services, proven)
        services.relay.run()
        assert len(services.deliveries.claim(100)) == slots // 4
