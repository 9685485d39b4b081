"""Hubtel, proved by tables of raw posts and replies."""

from __future__ import annotations

import json

import pytest

from tests.gateways.raw import assert_refused, post
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import Action, ChannelOptions, GatewayScreen, StepKind, UssdStep

GATEWAY = ADAPTERS["hubtel"]


def raw(**changes: object) -> bytes:
    members: dict[str, object] = {
        "Mobile": "256772123456",
        "SessionId": "8d440a43",
        "ServiceCode": "384*123",
        "Type": "Response",
        "Message": "4321",
        "Operator": "mtn",
        "Sequence": 2,
        "ClientState": None,
        "Platform": "USSD",
    }
    return json.dumps(members | changes).encode()


def step(kind: StepKind, text: str, sequence: int | None, network: str = "64110", code: str = "*384*123#") -> UssdStep:
    return UssdStep("8d440a43", "+256772123456", code, network, kind, text, cumulative=False, sequence=sequence)


READABLE = {
    "dialling": (raw(Type="Initiation", Message="*384*123#", Sequence=1), step(StepKind.BEGIN, "", 1)),
    "dialling with entries": (
        raw(Type="Initiation", Message="*384*123*2*5000#", Sequence=1),
        step(StepKind.BEGIN, "2*5000", 1),
    ),
    "dialling in small letters": (
        raw(Type="initiation", Message="*384*123*2#", Sequence="1"),
        step(StepKind.BEGIN, "2", 1),
    ),
    "dialling without a message": (raw(Type="Initiation", Message="", Sequence=1), step(StepKind.BEGIN, "", 1)),
    "an entry": (raw(Message="5000"), step(StepKind.INPUT, "5000", 2)),
    "an entry as a number": (raw(Message=5000), step(StepKind.INPUT, "5000", 2)),
    "an entry with a star": (raw(Message="1*2"), step(StepKind.INPUT, "1*2", 2)),
    "no sequence": (raw(Message="1", Sequence=None), step(StepKind.INPUT, "1", None)),
    "another operator": (raw(Message="1", Operator="vodafone"), step(StepKind.INPUT, "1", 2, "vodafone")),
    "Airtel": (raw(Message="1", Operator="Airtel"), step(StepKind.INPUT, "1", 2, "64101")),
    "an operator that is an essay": (raw(Message="1", Operator="x" * 100), step(StepKind.INPUT, "1", 2, "")),
    "an empty service code": (raw(Message="1", ServiceCode=""), step(StepKind.INPUT, "1", 2, code="")),
    "a number with a plus": (raw(Message="1", Mobile="+256772123456"), step(StepKind.INPUT, "1", 2)),
    "control characters": (raw(Message="1\x00\r\n"), step(StepKind.INPUT, "1", 2)),
    "a release": (raw(Type="Release", Message=""), step(StepKind.ABORT, "", 2)),
    "a timeout": (raw(Type="Timeout", Message=None), step(StepKind.TIMEOUT, "", 2)),
}

UNREADABLE = {
    "nothing": b"",
    "null": b"null",
    "a text": b'"4321"',
    "broken JSON": raw()[:-1],
    "no type": raw(Type=None),
    "an unknown type": raw(Type="AddToCart"),
    "no session": raw(SessionId=None),
    "a session that is too long": raw(SessionId="8" * 129),
    "a number of Ghana": raw(Mobile="233246912184"),
    "a number in Devanagari digits": raw(Mobile="२५६७७२१२३४५६"),
    "a sequence in Arabic digits": raw(Sequence="٢"),
    "a negative sequence": raw(Sequence=-1),
    "a sequence with a fraction": raw(Sequence=2.5),
    "a sequence beyond counting": raw(Sequence="9" * 10),
    "a message that is an object": raw(Message={"pin": "4321"}),
    "a message that is too long": raw(Message="4321" + "1" * 1000),
    "two different messages": raw()[:-1] + b', "message": "1"}',
}


@pytest.mark.parametrize(("body", "expected"), READABLE.values(), ids=READABLE)
def test_a_readable_post_becomes_a_step(body: bytes, expected: UssdStep) -> None:
    assert GATEWAY.read(post(body)) == expected


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_malformed_post_is_refused_without_repeating_what_was_typed(body: bytes) -> None:
    assert_refused(GATEWAY, post(body))


def test_the_code_of_the_channel_wins_over_the_gateways() -> None:
    body = raw(Type="Initiation", ServiceCode="384", Message="*384*123*2*5000#", Sequence=1)
    assert GATEWAY.read(post(body), ChannelOptions(codes=("*384*123#",))) == step(StepKind.BEGIN, "2*5000", 1)


@pytest.mark.parametrize(("action", "shown"), [(Action.CONTINUE, "Response"), (Action.END, "Release")])
def test_an_answer_says_whether_an_entry_is_awaited(action: Action, shown: str) -> None:
    reply = GATEWAY.write(GatewayScreen(action, "1. Pay\n2. Ŋ"), step(StepKind.INPUT, "1", 2))
    assert reply.content_type == "application/json"
    assert json.loads(reply.body) == {"Type": shown, "Message": "1. Pay\n2. Ŋ"}


def test_an_error_closes_the_session() -> None:
    assert json.loads(GATEWAY.write(GatewayScreen(Action.END, "Sorry."), None).body) == {
        "Type": "Release",
        "Message": "Sorry.",
    }
