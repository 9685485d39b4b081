"""Endpoints for messages: their wire format and their scopes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.program import Program
from ussd_server.bootstrap import Services
from ussd_server.senders.messages import SmsAccess
from ussd_server.settings import Settings

RECORD = [
    "message_id", "reference", "phone_number", "text", "parts", "status", "failure", "transaction_id", "created_at",
    "completed_at",
]  # fmt: skip
BODY = {"phone_number": "+256770000091", "text": "Omuwendo gw’amata\n5000", "reference": "milk-1"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, sms=SmsAccess("sandbox"))


def test_a_message_is_created_repeated_and_shown(services: Services, program: Program) -> None:
    reply = program.post("/api/messages", BODY)
    message = reply.json["data"]
    assert (reply.status_code, reply.headers["Location"]) == (201, f"/api/messages/{message['message_id']}")
    assert list(message) == RECORD
    assert {name: message[name] for name in BODY} == BODY
    assert (message["status"], message["parts"], message["failure"]) == ("queued", 1, None)
    repeated = program.post("/api/messages", BODY)
    assert (repeated.status_code, repeated.headers["Idempotent-Replayed"]) == (200, "true")
    assert repeated.json["data"] == message
    for claimed in services.sms_sending.claim(1):
        services.sms_sending.send(claimed)
    shown = program.get(f"/api/messages/{message['message_id']}").json["data"]
    assert (shown["status"], shown["failure"]["code"]) == ("failed", "NUMBER_NOT_REACHABLE")
    assert program.get("/api/messages", phone_number=BODY["phone_number"]).json["data"]["items"] == [shown]
    assert program.get("/api/messages/unknown").status_code == 404


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"phone_number": "0770000091"}, "INVALID_PHONE_NUMBER"),
        ({"text": ""}, "INVALID_REQUEST"),
        ({"text": "a\tb"}, "INVALID_REQUEST"),
        ({"text": "ŋ" * 336}, "INVALID_REQUEST"),
        ({"reference": "receipt/1"}, "INVALID_REQUEST"),
        ({"colour": "red"}, "INVALID_REQUEST"),
    ],
)
def test_what_cannot_be_sent_is_refused(program: Program, change: dict[str, Any], error: str) -> None:
    reply = program.post("/api/messages", BODY | change)
    assert (reply.status_code, reply.json["error"]) == (400, error)
