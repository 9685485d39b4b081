"""Endpoints for webhooks and events: their wire format, and requests of other clients."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.services.webhooks.receivers import Receiver, deliver
from tests.support.money import work
from tests.support.program import Program
from ussd_server.bootstrap import Services

URL = "https://shop.example.com/hooks"
RECORD = [
    "id", "url", "types", "is_active", "failing_since", "disabled_at", "disabled_reason", "created_at", "updated_at",
]  # fmt: skip
DELIVERY = [
    "id", "webhook_id", "url", "status", "attempts", "answer_status", "answer", "trouble", "took_ms", "attempted_at",
    "next_attempt_at", "created_at", "completed_at",
]  # fmt: skip


def made(program: Program, url: str = URL, **more: Any) -> dict[str, Any]:
    reply = program.post("/api/webhooks", {"url": url} | more)
    assert reply.status_code == 201, reply.json
    data: dict[str, Any] = reply.json["data"]
    return data


def test_a_webhook_is_created_shown_rotated_enabled_and_deleted(program: Program, web: FlaskClient) -> None:
    types = ["transaction.failed", "transaction.succeeded"]
    reply = program.post("/api/webhooks", {"url": URL, "types": [*types, types[0]]})
    webhook = reply.json["data"]
    path = f"/api/webhooks/{webhook['id']}"
    assert (reply.status_code, reply.headers["Location"]) == (201, path)
    assert list(webhook) == [*RECORD, "secret"]
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", webhook["secret"])
    assert (webhook["url"], webhook["types"], webhook["is_active"]) == (URL, types, True)

    shown = program.get(path).json["data"]
    assert list(shown) == RECORD
    assert program.get("/api/webhooks").json["data"] == {"items": [shown], "next_cursor": None}

    rotated = program.post(f"{path}/rotate", {"grace_period_seconds": 0}).json["data"]
    assert list(rotated) == ["secret", "previous_secret_expires_at"]
    assert rotated["secret"] != webhook["secret"]
    assert rotated["previous_secret_expires_at"] is None
    assert program.post(f"{path}/enable", {}).json["data"]["is_active"] is True

    deleted = web.delete(path, headers=program.headers | {"Content-Type": "application/json"})
    assert (deleted.status_code, deleted.json["data"]["deleted_id"]) == (200, webhook["id"])
    assert program.get(path).status_code == 404


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_webhook_that_cannot_be_is_refused_with_the_reason(program: Program) -> None:
    for body, message in (
        ({}, "url: Missing data for required field."),
        ({"url": "ftp://shop.example.com"}, "url: The address must begin with https://."),
        ({"url": "https://169.254.169.254/"}, "url: The address leads to a network that may not be called."),
        ({"url": 7}, "url: Must be a string."),
        ({"url": URL, "types": []}, "types: Length must be between 1 and 32."),
        ({"url": URL, "types": ["no.such"]}, "types: There is no event type no.such."),
        ({"url": URL, "types": "transaction.failed"}, "types: Not a valid list."),
        ({"url": URL, "secret": "whsec_mine"}, "secret: Unknown field."),
        ({"ulr": URL}, "url: Missing data for required field. The field ulr is unknown."),
        ({"url": URL, "tpyes": []}, "tpyes: Unknown field. Did you mean types?"),
    ):
        reply = program.post("/api/webhooks", body)
        assert (reply.status_code, reply.json["error"], reply.json["message"]) == (400, "INVALID_REQUEST", message)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_grace_period_is_a_whole_number_of_seconds_up_to_a_week(program: Program) -> None:
    path = f"/api/webhooks/{made(program)['id']}/rotate"
    for seconds in (-1, 604_801, "60", 1.5, True, None):
        assert program.post(path, {"grace_period_seconds": seconds}).status_code == 400
    assert program.post(path, {"grace_period_seconds": 604_800}).status_code == 200


def test_the_secret_of_callbacks_is_given_by_its_rotation(program: Program) -> None:
    first = program.post("/api/webhooks/callbacks/rotate", {}).json["data"]
    second = program.post("/api/webhooks/callbacks/rotate", {}).json["data"]
    assert first["secret"] != second["secret"]
    assert program.get("/api/webhooks").json["data"]["items"] == []


def test_a_callback_url_inside_our_network_is_refused_and_its_reference_stays_free(program: Program) -> None:
    refused = program.collect(callback_url="http://169.254.169.254/latest/meta-data")
    assert (refused.status_code, refused.json["error"]) == (400, "INVALID_REQUEST")
    assert refused.json["message"] == "callback_url: The address leads to a network that may not be called."
    assert program.collect(callback_url="https://shop.example.com/callbacks").status_code == 201


def test_what_a_webhook_is_sent_is_the_record_that_the_api_shows(
    program: Program, services: Services, clock: MovableClock
) -> None:
    with Receiver() as receiver:
        made(program, receiver.url)
        created = program.collect(amount="5000.50", metadata={"cart": [1, 2.5]}, description="ntinda").json["data"]
        deliver(services)
        work(services, clock)
        deliver(services)
    shown = program.see(created["transaction_id"])
    # Fields of the record of one transaction only; an explanation would be out of date when the event arrives.
    del shown["events"], shown["explanation"]
    assert receiver.calls[0].document["data"] == created
    assert receiver.calls[-1].document["data"] == shown
    assert (shown["status"], shown["amount"]) == ("succeeded", 5000.5)
    listed = program.get("/api/events", type="transaction.succeeded").json["data"]
    (event,) = [item for item in listed["items"] if item["object_id"] == created["transaction_id"]]
    assert event["data"] == shown
    assert receiver.calls[-1].document == {
        "type": event["type"],
        "timestamp": event["created_at"],
        "data": event["data"],
    }


def test_a_failure_arrives_with_its_reason(program: Program, services: Services, clock: MovableClock) -> None:
    with Receiver() as receiver:
        made(program, receiver.url, types=["transaction.failed"])
        created = program.collect(number="+256770000002").json["data"]
        work(services, clock)
        deliver(services)
    (received,) = receiver.calls
    shown = program.see(created["transaction_id"])
    assert received.document["data"]["failure"] == shown["failure"]
    assert received.document["data"]["failure"]["code"] == "PAYER_DECLINED"


def test_an_event_is_shown_with_its_deliveries_and_sent_again(program: Program, services: Services) -> None:
    with Receiver(body=b"thanks") as receiver:
        webhook = made(program, receiver.url)
        made(program)
        reply = program.post(f"/api/webhooks/{webhook['id']}/test", {})
        event = reply.json["data"]
        path = f"/api/events/{event['id']}"
        assert (reply.status_code, reply.headers["Location"], event["type"]) == (201, path, "webhook.test")
        deliver(services)
        shown = program.get(path).json["data"]
        (delivery,) = shown["deliveries"]
        assert list(shown) == ["id", "type", "object_id", "sequence", "created_at", "data", "deliveries"]
        assert list(delivery) == DELIVERY
        assert (delivery["status"], delivery["answer_status"], delivery["answer"]) == ("delivered", 200, "thanks")
        assert delivery["next_attempt_at"] is None
        assert program.post(f"{path}/redeliver", {}).json["data"] == {"events": 1}
        period = {"from": "2020-01-01T00:00:00Z", "to": "2090-01-01T00:00:00Z", "type": "webhook.test"}
        assert program.post("/api/events/redeliver", period).json["data"] == {"events": 1}
        deliver(services)
    assert [received.id for received in receiver.calls] == [event["id"]] * 2


def test_a_period_needs_both_its_ends(program: Program) -> None:
    for body in ({}, {"from": "2026-01-01T00:00:00Z"}, {"from": "yesterday", "to": "2026-01-01T00:00:00Z"}):
        assert program.post("/api/events/redeliver", body).json["error"] == "INVALID_REQUEST"


def test_events_come_in_pages_and_with_filters(program: Program) -> None:
    for number in range(5):
        program.collect(f"r{number}")
    first = program.get("/api/events", type="transaction.created", limit=4).json["data"]
    rest = program.get("/api/events", type="transaction.created", limit=4, cursor=first["next_cursor"]).json["data"]
    ids = [item["id"] for item in first["items"] + rest["items"]]
    assert (len(ids), ids, rest["next_cursor"]) == (5, sorted(set(ids), reverse=True), None)
    assert program.get("/api/events", to="2020-01-01T00:00:00Z").json["data"]["items"] == []
    for query in ({"type": "no.such"}, {"cursor": "nonsense"}, {"limit": "0"}, {"color": "red"}):
        assert program.get("/api/events", **query).json["error"] == "INVALID_REQUEST"
