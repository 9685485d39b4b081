"""The examples of webhooks in the OpenAPI document, by causing every type of event; and docs/reference/EVENTS.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.conftest import MovableClock
from tests.documents.api import new_services
from tests.documents.steady import steady
from tests.services.incoming.till import BY, SECOND, Till
from tests.services.webhooks.receivers import Receiver, answering, subscribe
from tests.support.money import call_with_key, operator, request, work
from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.menus.engine.actions import PinAction
from ussd_server.models.sending import Delivery, Event, Webhook
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.movements.messages import CorrectMovement, ListMovements
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout
from ussd_server.services.subscribers.pins import PinTry
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.services.webhooks.events import payloads_of
from ussd_server.services.webhooks.messages import EVENT_TYPES
from ussd_server.values import iso_milliseconds

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "EVENTS.md"
_HEAD = """# Types of events

`scripts/document` writes this page from `ussd_server/services/webhooks/messages.py`. `/docs` of a running service shows
the fields and an example of each type.

| type | when |
| --- | --- |
"""


def written_page() -> str:
    """Return the page of the types of events."""
    return _HEAD + "".join(f"| `{name}` | {when} |\n" for name, when in EVENT_TYPES.items())


def write_event_types() -> None:
    """Replace the page."""
    PAGE.write_text(written_page(), encoding="utf-8")


def played_events() -> dict[str, Any]:
    """Return what webhooks receive of every type of event, from services of their own."""
    clock = MovableClock()
    with new_services(clock, USSD_ALLOW_PRIVATE_ADDRESSES="1") as services:
        return event_examples(services, clock)


def event_examples(services: Services, clock: MovableClock) -> dict[str, Any]:
    """Return the body that a webhook receives, by type of event."""
    return {event.type: _body(event) for event in _one_of_each(services, clock)}


def _body(event: Event) -> dict[str, Any]:
    body = {"type": event.type, "timestamp": iso_milliseconds(event.created_at), "data": payloads_of([event])[event.id]}
    shown: dict[str, Any] = json.loads(steady(json.dumps(body, ensure_ascii=False)))
    return shown


def _one_of_each(services: Services, clock: MovableClock) -> Iterator[Event]:
    """Cause every type of event; yield the first of each."""
    shop = Shop(services)
    call = shop.call
    for number, reference in (
        ("00", "order-1"),
        ("02", "order-2"),
        ("04", "order-3"),
        ("06", "order-4"),
        ("09", "order-5"),
    ):
        recorded = services.transactions.create(
            request(number=f"+2567700000{number}", reference=reference, description="Basket", metadata={"basket": 7}),
            call,
        )
        work(services, clock, 15)
        if reference == "order-1":
            services.refunds.create(CreateRefund(recorded.transaction.transaction_id, "refund-1"), call)
            work(services, clock)
    Till(services).pay("thanks", 3000, receipt="31000000041")
    (came,) = services.movements.list(ListMovements(is_held=True), operator()).items
    correction = CorrectMovement(came.movement_id, shop.client_id, "MTN's support, case 17", BY, SECOND)
    services.corrections.correct(correction, operator())
    rows = ({"phone_number": "+256770000000", "amount": 3000, "reference": "E-17"},)
    maker, approver = call_with_key(services, call), call_with_key(services, call, "payouts:approve")
    payout = services.payouts.create(CreatePayout("wages-47", items=rows), maker).payout
    services.payouts.approve(ApprovePayout(payout.payout_id), approver)
    for _ in range(2):
        for payout_id in services.payout_sender.claim(1):
            services.payout_sender.advance(payout_id)
        work(services, clock, 1)
    large = ({"phone_number": "+256770000000", "amount": 900_000, "reference": "E-18"},)
    order = CreatePayout("wages-48", items=large, send_at=clock.now() + timedelta(days=2))
    later = services.payouts.create(order, maker).payout
    services.payouts.approve(ApprovePayout(later.payout_id), approver)
    clock.advance(2 * 86_400)
    for payout_id in services.payout_sender.claim(1):
        services.payout_sender.advance(payout_id)
    revoked = services.api_keys.create(CreateApiKey(("payouts:approve",), name="Approvals"), call)
    due = CreatePayout("wages-49", items=rows, send_at=clock.now() + timedelta(days=2))
    dated = services.payouts.create(due, maker).payout
    approver = replace(approver, caller=replace(approver.caller, key_id=revoked.id))
    services.payouts.approve(ApprovePayout(dated.payout_id), approver)
    services.api_keys.delete(revoked.id, call)
    session = services.api_sessions.begin(BeginSession(PHONE, shop.code), call)
    services.api_sessions.end(session.session_id, call)
    expiring = CreateApiKey(expires_at=clock.now() + timedelta(days=10), name="Till 4")
    key = services.api_keys.create(expiring, call)
    clock.advance(4 * 86_400)
    services.key_notices.write_expiring()
    services.runtime.request_recorder.count(
        key.id, clock.now(), "GET /api/balance", 403, "ADDRESS_NOT_ALLOWED", "balance:read", "198.51.100.7"
    )
    services.runtime.request_recorder.write()
    services.key_notices.write_refused()
    services.api_keys.delete(key.id, call)
    for step, (act, mode, pin) in enumerate((("new", "choose", "7391"), *[("old", "ask", "1592")] * 3)):
        services.subscriber_pins.answer(
            PinAction("pin", act, mode, 3, pin), PinTry(shop.client_id, PHONE, f"step-{step}")
        )
    with Receiver(answering(410, 200)) as receiver:
        webhook = subscribe(services, call, receiver.url)
        # Its address has a port of this run.
        Webhook.update(url="https://shop.example.com/hooks").where(Webhook.id == webhook.id).execute()
        for _ in range(2):
            services.webhooks.test(webhook.id, call)
            services.relay.run()
            Delivery.update(url=receiver.url).execute()
            (delivery,) = services.deliveries.claim(1)
            services.deliveries.send(delivery)
            services.webhooks.enable(webhook.id, call)
    for event_type in EVENT_TYPES:
        yield Event.select().where(Event.type == event_type).order_by(Event.created_at, Event.sequence).first()
