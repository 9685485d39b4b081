"""Webhooks: registered, rotated, switched off and on, and never another client's."""

from __future__ import annotations

import base64
from functools import partial

from tests.conftest import MovableClock
from tests.services.webhooks.receivers import Receiver, deliver, deliveries_of, subscribe
from tests.support.money import a_client
from tests.support.refusals import refusal
from tests.support.runtimes import other_runtime
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Webhook
from ussd_server.outbound.addresses import AddressGuard
from ussd_server.services.webhooks.messages import CreateWebhook, RotateCallbacks, RotateWebhook
from ussd_server.services.webhooks.subscriptions import MOST_WEBHOOKS_OF_A_CLIENT, WebhookService
from ussd_server.status import Code

URL = "https://shop.example.com/hooks"


REFUSED = (
    ("http://shop.example.com/", "url: The address must begin with https://."),
    ("https://127.0.0.1/", "url: The address leads to a network that may not be called."),
    ("https://[::ffff:10.0.0.1]/", "url: The address leads to a network that may not be called."),
    ("https://169.254.169.254/latest", "url: The address leads to a network that may not be called."),
    ("https://2130706433/", "url: The host is not a valid address."),
    ("https://metadata.internal/", "url: The host must be a public name."),
    ("https://user:secret@shop.example.com/", "url: The address must not carry a user name or password."),
    ("https://shop.example.com:22/", "url: The port must be the usual one or at least 1024."),
)


def test_an_address_inside_our_network_is_refused_at_registration(services: Services) -> None:
    strict = WebhookService(other_runtime(services, guard=AddressGuard()))
    call = a_client()
    for url, sentence in REFUSED:
        assert refusal(partial(strict.create, CreateWebhook(url), call)) == (Code.INVALID_REQUEST, sentence), url
    assert strict.list(call).items == ()


def test_a_client_has_at_most_twenty_webhooks(services: Services) -> None:
    call = a_client()
    services.webhooks.rotate_callbacks(RotateCallbacks(), call)
    for _ in range(MOST_WEBHOOKS_OF_A_CLIENT):
        last = subscribe(services, call, URL)
    assert refusal(lambda: subscribe(services, call, URL)) == (Code.INVALID_REQUEST, "Webhook limit reached")
    services.webhooks.delete(last.id, call)
    subscribe(services, call, URL)
    subscribe(services, a_client("Other"), URL)


def test_a_second_rotation_ends_the_secret_before_the_last(services: Services, clock: MovableClock) -> None:
    call = a_client()
    with Receiver() as receiver:
        first = subscribe(services, call, receiver.url)
        second = services.webhooks.rotate(RotateWebhook(first.id), call)
        third = services.webhooks.rotate(RotateWebhook(first.id), call)
        services.webhooks.test(first.id, call)
        deliver(services)
        (received,) = receiver.calls
    secrets = (first.secret, second.secret, third.secret)
    assert [received.is_signed_with(secret) for secret in secrets] == [False, True, True]
    assert third.previous_secret_expires_at is not None
    assert 86_390 < (third.previous_secret_expires_at - clock.now()).total_seconds() <= 86_400


def test_a_test_goes_to_the_webhook_under_test_alone_whatever_its_types(services: Services) -> None:
    call = a_client()
    with Receiver() as receiver, Receiver() as other:
        webhook = subscribe(services, call, receiver.url, "transaction.failed")
        subscribe(services, call, other.url)
        event = services.webhooks.test(webhook.id, call)
        deliver(services)
        (received,) = receiver.calls
    assert other.calls == []
    assert received.document["type"] == "webhook.test"
    assert received.document["data"] == {"webhook_id": webhook.id}
    assert [delivery.status for delivery in deliveries_of(services, call, event.id)] == ["delivered"]


def test_a_webhook_that_is_switched_off_is_not_tested(services: Services) -> None:
    call = a_client()
    with Receiver(lambda _: 410) as receiver:
        webhook = subscribe(services, call, receiver.url)
        services.webhooks.test(webhook.id, call)
        deliver(services)
    assert refusal(lambda: services.webhooks.test(webhook.id, call))[0] is Code.INVALID_REQUEST
    assert services.webhooks.enable(webhook.id, call).is_active


def test_no_secret_shows_in_what_is_kept_or_printed(services: Services) -> None:
    call = a_client()
    webhook = subscribe(services, call, URL)
    rotated = services.webhooks.rotate(RotateWebhook(webhook.id), call)
    row = Webhook.get_by_id(webhook.id)
    kept = bytes(row.secret_sealed) + bytes(row.previous_secret_sealed)
    for secret in (webhook.secret, rotated.secret):
        assert secret not in repr(webhook) + repr(rotated)
        assert base64.b64decode(secret.removeprefix("whsec_")) not in kept
        assert secret.encode() not in kept
