"""Each attempt of a delivery is kept: the request as it was sent, and the reply."""

from __future__ import annotations

import pytest

from tests.conftest import MovableClock
from tests.services.webhooks.receivers import Receiver, answering, deliver, happen, subscribe
from tests.support.example_client import ExampleClient
from tests.support.money import a_client
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent
from ussd_server.models.sending import Delivery, DeliveryAttempt
from ussd_server.services.operations.retention import Retention
from ussd_server.services.webhooks.messages import RotateWebhook
from ussd_server.status import Code, ServiceError


def test_every_attempt_is_kept_as_it_was_sent_with_its_reply(services: Services, clock: MovableClock) -> None:
    call, stranger = a_client(), a_client("Other")
    attempts = services.delivery_attempts
    with Receiver(answering(500, 200), body="nicht jetzt 🦒".encode()) as receiver:
        webhook = subscribe(services, call, receiver.url)
        (event_id,) = happen(services, call)
        deliver(services)
        health = attempts.of_webhook(webhook.id, call)
        assert (health.waiting, [seen.answer_status for seen in health.attempts]) == (1, [500])
        deliver(services, clock, 10)
        sent = attempts.of_event(event_id, call)
        for received, kept in zip(receiver.calls, sent.attempts, strict=True):
            assert received.body == sent.body.encode()
            assert {name.lower(): value for name, value in kept.headers.items()}.items() <= received.headers.items()
            assert kept.headers["webhook-id"] == event_id
    assert [(one.number, one.answer_status, one.answer, one.trouble) for one in sent.attempts] == [
        (1, 500, "nicht jetzt 🦒", None),
        (2, 200, "nicht jetzt 🦒", None),
    ]
    services.events.redeliver(event_id, call)
    deliver(services)
    unanswered = attempts.of_event(event_id, call).attempts[-1]
    assert (unanswered.number, unanswered.answer_status, unanswered.trouble) == (1, None, "no_connection")
    health = attempts.of_webhook(webhook.id, call)
    assert [seen.event_id for seen in health.attempts] == [event_id] * 3
    assert [seen.answer_status for seen in health.attempts] == [None, 200, 500]
    assert (health.tried, health.failed) == (3, 2)
    assert health.attempts[0].event_type == "ussd.session.ended"
    with pytest.raises(ServiceError) as refused:
        attempts.of_event(event_id, stranger)
    assert refused.value.code is Code.NOT_FOUND
    clock.advance(86_400)
    assert attempts.of_webhook(webhook.id, call).tried == 0, "the share is of the last 24 hours"
    foreign = attempts.of_webhook(webhook.id, stranger)
    assert (foreign.attempts, foreign.waiting) == ((), 0)


def test_a_secret_of_ours_in_a_reply_is_not_kept(services: Services) -> None:
    call = a_client()
    with Receiver(body=b"Settings: API_SECRET=ussdsk_aB3aB3, SIGNING=whsec_aB3+aB3=") as receiver:
        subscribe(services, call, receiver.url)
        (event_id,) = happen(services, call)
        deliver(services)
    (attempt,) = services.delivery_attempts.of_event(event_id, call).attempts
    assert attempt.answer == "Settings: API_SECRET=********, SIGNING=********"
    assert Delivery.get().answer == attempt.answer


def test_attempts_go_with_their_deliveries(services: Services, clock: MovableClock) -> None:
    call = a_client()
    with Receiver() as receiver:
        subscribe(services, call, receiver.url)
        happen(services, call, times=2)
        deliver(services)
    assert DeliveryAttempt.select().count() == 2
    clock.advance(8 * 86_400)
    Retention(other_runtime(services, keep_deliveries_days=7)).clean()
    assert DeliveryAttempt.select().count() == 0


def test_what_people_and_keys_do_with_webhooks_is_in_the_audit_trail(services: Services) -> None:
    client = ExampleClient(services)
    call, subscriptions = client.at_console(), services.webhooks
    webhook = subscribe(services, call, "https://shop.example.com/hooks")
    subscriptions.rotate(RotateWebhook(webhook.id), call)
    subscriptions.delete(webhook.id, call)
    program = a_client()
    other = subscribe(services, program, "https://shop.example.com/hooks")
    seen = AuditEvent.select().where(AuditEvent.action.startswith("webhook.")).order_by(AuditEvent.id)
    assert [(event.action, event.object_id, event.actor) for event in seen] == [
        *((f"webhook.{action}", webhook.id, "user") for action in ("created", "rotated", "deleted")),
        ("webhook.created", other.id, "key"),
    ]
