"""What arrives at a webhook: everything of its client, signed, once in order; and what happens when it fails."""

from __future__ import annotations

from copy import copy

import pytest
import time_machine

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk, row
from tests.services.webhooks.receivers import Receiver, answering, deliver, happen, only_delivery, subscribe
from tests.support.money import a_client, request, work
from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.logs import now_about
from ussd_server.models.sending import Delivery, Webhook
from ussd_server.outbound.addresses import AddressGuard
from ussd_server.outbound.transport import Transport
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.services.webhooks.deliveries import DeliveryService, RetrySchedule
from ussd_server.services.webhooks.messages import RotateCallbacks, RotateWebhook

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HOUR = 3600.0
DAY = 24 * HOUR


def test_an_event_arrives_signed_after_the_specification(services: Services) -> None:
    call = a_client()
    with Receiver() as receiver:
        webhook = subscribe(services, call, receiver.url)
        (event_id,) = happen(services, call)
        deliver(services)
        (received,) = receiver.calls
    assert received.is_signed_with(webhook.secret)
    assert not received.is_signed_with("whsec_" + "A" * 43 + "=")
    assert received.id == event_id
    assert set(received.document) == {"type", "timestamp", "data"}
    assert received.document["type"] == "ussd.session.ended"
    assert received.document["data"] == {"number": 0}
    assert received.headers["content-type"] == "application/json"
    delivery = only_delivery(services, call, event_id)
    assert (delivery.status, delivery.attempts, delivery.answer_status) == ("delivered", 1, 200)
    assert (delivery.webhook_id, delivery.url) == (webhook.id, receiver.url)
    assert delivery.took_ms is not None
    assert delivery.completed_at is not None


def test_every_step_of_a_transaction_arrives_in_its_order(services: Services, clock: MovableClock) -> None:
    call = a_client()
    with Receiver() as receiver:
        subscribe(services, call, receiver.url)
        services.transactions.create(request(number="+256770000009"), call)
        work(services, clock, 12)
        deliver(services)
    steps = ("created", "submitted", "pending", "failed", "succeeded", "needs_review")
    assert receiver.types == [f"transaction.{step}" for step in steps]


def test_a_webhook_carries_the_trace_of_the_call_that_created_its_payment(services: Services) -> None:
    call = a_client()
    with Receiver() as receiver:
        subscribe(services, call, receiver.url)
        for number, given in enumerate((TRACE, TRACE.upper(), None)):
            now_about(traceparent=given)
            services.transactions.create(request(reference=f"order-{number}"), call)
        deliver(services)
        now_about()
    assert sorted(received.headers.get("traceparent", "") for received in receiver.calls) == ["", "", TRACE]


def test_a_session_and_a_payout_report_their_end_under_the_trace_of_the_call_that_made_them(
    services: Services, clock: MovableClock
) -> None:
    desk = PayoutDesk(services, clock)
    shop = Shop(services, client_id=desk.client_id)
    with Receiver() as receiver:
        subscribe(services, desk.maker, receiver.url, "payout.completed", "ussd.session.ended")
        now_about(traceparent=TRACE)
        services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call)
        draft = desk.draft(row())
        now_about()
        desk.approve(draft)
        desk.work(5)
        clock.advance(300)
        now_about()
        services.api_sessions.end_expired()
        deliver(services)
    traces = {received.document["type"]: received.headers.get("traceparent") for received in receiver.calls}
    assert traces == dict.fromkeys(("payout.completed", "ussd.session.ended"), TRACE)


def test_a_webhook_gets_only_the_types_it_asked_for_and_only_of_its_client(
    services: Services, clock: MovableClock
) -> None:
    call, stranger = a_client(), a_client("Other")
    with Receiver() as receiver, Receiver() as others:
        subscribe(services, call, receiver.url, "transaction.succeeded")
        subscribe(services, stranger, others.url)
        services.transactions.create(request(), call)
        work(services, clock)
        deliver(services)
    assert (receiver.types, others.types) == (["transaction.succeeded"], [])


def test_events_are_sent_to_the_callback_url_of_a_transaction_in_the_same_way(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    with Receiver() as receiver:
        secret = services.webhooks.rotate_callbacks(RotateCallbacks(), call).secret
        services.transactions.create(request(callback_url=receiver.url), call)
        services.transactions.create(request(number="+256770000002"), call)
        work(services, clock)
        deliver(services)
    assert receiver.types == ["transaction.created", "transaction.submitted", "transaction.succeeded"]
    assert all(received.is_signed_with(secret) for received in receiver.calls)
    delivery = only_delivery(services, call, receiver.calls[0].id)
    assert (delivery.webhook_id, delivery.url, delivery.status) == (None, receiver.url, "delivered")
    assert services.webhooks.list(call).items == ()


def test_a_callback_is_sent_even_before_its_secret_was_read(services: Services) -> None:
    call = a_client()
    with Receiver() as receiver:
        services.transactions.create(request(callback_url=receiver.url), call)
        deliver(services)
        assert receiver.types == ["transaction.created"]
        # Asking for the secret later keeps the calls of the grace period readable with both.
        secret = services.webhooks.rotate_callbacks(RotateCallbacks(), call).secret
        services.transactions.create(request(callback_url=receiver.url, reference="second"), call)
        deliver(services)
        assert receiver.calls[-1].is_signed_with(secret)


def test_while_a_secret_rotates_both_secrets_verify_and_afterwards_the_new_one_alone(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    with Receiver() as receiver:
        old = subscribe(services, call, receiver.url)
        new = services.webhooks.rotate(RotateWebhook(old.id, 60), call)
        happen(services, call)
        deliver(services)
        clock.advance(61)
        happen(services, call)
        deliver(services)
    both, alone = receiver.calls
    with time_machine.travel(clock.now(), tick=False):
        assert (both.is_signed_with(old.secret), both.is_signed_with(new.secret)) == (True, True)
        assert (alone.is_signed_with(old.secret), alone.is_signed_with(new.secret)) == (False, True)
    assert len(both.headers["webhook-signature"].split(" ")) == 2


def test_without_grace_the_old_secret_ends_at_once(services: Services) -> None:
    call = a_client()
    with Receiver() as receiver:
        old = subscribe(services, call, receiver.url)
        services.webhooks.rotate(RotateWebhook(old.id), call)
        new = services.webhooks.rotate(RotateWebhook(old.id, 0), call)
        happen(services, call)
        deliver(services)
        (received,) = receiver.calls
    assert new.previous_secret_expires_at is None
    assert (received.is_signed_with(old.secret), received.is_signed_with(new.secret)) == (False, True)


def test_a_failed_delivery_is_tried_again_after_each_pause_and_then_given_up(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    with Receiver(answering(500)) as receiver:
        subscribe(services, call, receiver.url)
        (event_id,) = happen(services, call)
        for attempt, pause in enumerate((5, 30, 120, 600, HOUR, 6 * HOUR, DAY), start=1):
            deliver(services)
            delivery = only_delivery(services, call, event_id)
            assert (len(receiver.calls), delivery.attempts, delivery.status) == (attempt, attempt, "waiting")
            assert delivery.next_attempt_at is not None
            left = (delivery.next_attempt_at - clock.now()).total_seconds()
            assert 0.85 * pause < left <= 1.1 * pause
            clock.advance(left + 0.1)
        deliver(services)
        delivery = only_delivery(services, call, event_id)
        assert (len(receiver.calls), delivery.status, delivery.next_attempt_at) == (8, "dead", None)
        clock.advance(2 * DAY)
        deliver(services)
        assert len(receiver.calls) == 8
    assert len({received.id for received in receiver.calls}) == 1
    assert len({received.body for received in receiver.calls}) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 404, 500])
def test_whatever_is_not_2xx_is_a_failure_and_a_redirect_is_never_followed(services: Services, status: int) -> None:
    call = a_client()
    with Receiver() as inside, Receiver(answering(status), headers={"Location": inside.url}) as receiver:
        subscribe(services, call, receiver.url)
        (event_id,) = happen(services, call)
        deliver(services)
    delivery = only_delivery(services, call, event_id)
    assert (delivery.status, delivery.attempts, delivery.answer_status) == ("waiting", 1, status)
    assert inside.calls == []


def test_the_first_kib_of_the_answer_is_kept_for_the_client_alone(services: Services) -> None:
    call, stranger = a_client(), a_client("Other")
    with Receiver(answering(400), body=b"no\0pe " + b"x" * 5000) as receiver:
        subscribe(services, call, receiver.url)
        (event_id,) = happen(services, call)
        deliver(services)
    delivery = only_delivery(services, call, event_id)
    assert delivery.answer == "no\ufffdpe " + "x" * 1018
    assert delivery.trouble is None
    with pytest.raises(Exception, match="Event not found"):
        services.events.get(event_id, stranger)


def test_a_name_that_turns_to_a_private_address_after_registration_is_never_connected_to(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    with Receiver() as inside:
        webhook = subscribe(services, call, "https://hooks.example.com:8443/in")
        (event_id,) = happen(services, call)
        port = inside.url.rpartition(":")[2].removesuffix("/hook")
        Webhook.update(url=f"https://hooks.example.com:{port}/in").where(Webhook.id == webhook.id).execute()
        sender = with_sender(services, transport=Transport(AddressGuard(), resolve=lambda host, port: ["127.0.0.1"]))
        deliver(sender)
    delivery = only_delivery(services, call, event_id)
    assert (delivery.trouble, delivery.status, inside.calls) == ("address_refused", "waiting", [])


def test_410_switches_the_webhook_off_at_once_and_the_others_get_an_event(services: Services) -> None:
    call = a_client()
    with Receiver(answering(410)) as gone, Receiver() as watcher:
        webhook = subscribe(services, call, gone.url)
        subscribe(services, call, watcher.url, "webhook.disabled")
        happen(services, call, times=3)
        deliver(services)
        happen(services, call)
        deliver(services)
    seen = services.webhooks.get(webhook.id, call)
    assert (seen.is_active, seen.disabled_reason) == (False, "The receiver answered 410 Gone")
    assert len(gone.calls) == 1
    (reported,) = watcher.calls
    assert reported.document["data"]["webhook_id"] == webhook.id
    assert {row.status for row in Delivery.select().where(Delivery.webhook_id == webhook.id)} == {"dead", "cancelled"}


def test_five_days_without_success_switch_the_webhook_off_and_enabling_starts_afresh(
    services: Services, clock: MovableClock
) -> None:
    call = a_client()
    statuses = [500]
    with Receiver(lambda _: statuses[0]) as receiver:
        webhook = subscribe(services, call, receiver.url, "ussd.session.ended")
        for _ in range(6):
            happen(services, call)
            deliver(services, clock, 36 * HOUR, 900)
            if not services.webhooks.get(webhook.id, call).is_active:
                break
        seen = services.webhooks.get(webhook.id, call)
        assert (seen.is_active, seen.disabled_reason) == (False, "Nothing was taken there for five days")
        assert seen.failing_since is not None
        assert seen.disabled_at is not None
        assert (seen.disabled_at - seen.failing_since).days == 5
        (missed,) = happen(services, call)
        calls = len(receiver.calls)
        deliver(services)
        statuses[0] = 200
        assert services.webhooks.enable(webhook.id, call).failing_since is None
        deliver(services)
        assert len(receiver.calls) == calls
        assert services.events.redeliver(missed, call).events == 1
        deliver(services)
        assert [received.id for received in receiver.calls[calls:]] == [missed]
    assert services.webhooks.get(webhook.id, call).failing_since is None


def test_one_success_ends_the_count_of_failing_days(services: Services, clock: MovableClock) -> None:
    call = a_client()
    with Receiver(answering(500, 200, 500)) as receiver:
        webhook = subscribe(services, call, receiver.url)
        happen(services, call)
        deliver(services)
        failing_since = services.webhooks.get(webhook.id, call).failing_since
        deliver(services, clock, 10)
        assert services.webhooks.get(webhook.id, call).failing_since is None
        happen(services, call)
        deliver(services)
        later = services.webhooks.get(webhook.id, call).failing_since
    assert failing_since is not None
    assert later is not None
    assert later > failing_since


def test_what_waits_for_a_deleted_webhook_is_not_sent(services: Services, clock: MovableClock) -> None:
    call = a_client()
    with Receiver(answering(500, 200)) as receiver:
        webhook = subscribe(services, call, receiver.url)
        (first, second) = happen(services, call, times=2)
        deliver(services)
        services.webhooks.delete(webhook.id, call)
        deliver(services, clock, 60)
    assert len(receiver.calls) == 1
    assert [only_delivery(services, call, event).status for event in (first, second)] == ["cancelled", "cancelled"]


def with_sender(services: Services, *, transport: Transport, pace: RetrySchedule | None = None) -> Services:
    """The same services with another transport."""
    others = copy(services)
    others.deliveries = DeliveryService(services.runtime, transport=transport, schedule=pace)
    return others
