"""Our own JSON format, proved by tables of raw posts and replies."""

from __future__ import annotations

import json

import pytest

from tests.gateways.raw import assert_refused, post
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import Action, ChannelOptions, GatewayScreen, StepKind, UssdStep

GATEWAY = ADAPTERS["json"]
CUMULATIVE = ChannelOptions(cumulative=True)


def raw(**changes: object) -> bytes:
    members: dict[str, object] = {
        "session_id": "8f1c",
        "phone_number": "+256772123456",
        "service_code": "*384*123#",
        "network": "64110",
        "text": "4321",
    }
    return json.dumps(members | changes).encode()


def step(kind: StepKind, text: str, **changes: object) -> UssdStep:
    values: dict[str, object] = {
        "provider_session_id": "8f1c",
        "phone_number": "+256772123456",
        "service_code": "*384*123#",
        "network": "64110",
        "kind": kind,
        "text": text,
        "cumulative": False,
    }
    return UssdStep(**(values | changes))  # type: ignore[arg-type]


READABLE = {
    "the example of the description": (
        raw(text="2*5000", kind="begin", sequence=1),
        step(StepKind.BEGIN, "2*5000", sequence=1),
    ),
    "an empty text begins": (raw(text=""), step(StepKind.BEGIN, "")),
    "a missing text begins": (raw(text=None), step(StepKind.BEGIN, "")),
    "a text enters": (raw(text="5000"), step(StepKind.INPUT, "5000")),
    "an empty entry": (raw(text="", kind="input", sequence=3), step(StepKind.INPUT, "", sequence=3)),
    "an end": (raw(text="", kind="end"), step(StepKind.END, "")),
    "an abort": (raw(text="", kind="abort"), step(StepKind.ABORT, "")),
    "a timeout": (raw(text="", kind="timeout"), step(StepKind.TIMEOUT, "")),
    "no network": (raw(text="1", network=None), step(StepKind.INPUT, "1", network="")),
    "a network by name": (raw(text="1", network="Airtel"), step(StepKind.INPUT, "1", network="64101")),
    "a local number": (raw(text="1", phone_number="0772123456"), step(StepKind.INPUT, "1")),
    "a bare code": (raw(text="1", service_code="384*123"), step(StepKind.INPUT, "1")),
    "the names of a neutral step": (
        json.dumps(
            {
                "provider_session_id": "8f1c",
                "msisdn": "256772123456",
                "service_code": "*384*123#",
                "network": "64110",
                "kind": "input",
                "text": "*1*2",
                "cumulative": True,
            }
        ).encode(),
        step(StepKind.INPUT, "1*2", cumulative=True),
    ),
    "a member that is not true": (raw(text="*1", cumulative="true"), step(StepKind.INPUT, "*1")),
    "an unknown member": (raw(text="1", colour={"a": [1]}), step(StepKind.INPUT, "1")),
    "a typed star": (raw(text="*1"), step(StepKind.INPUT, "*1")),
    "an emoji": (raw(text="Ann 😀"), step(StepKind.INPUT, "Ann 😀")),
}

UNREADABLE = {
    "nothing": b"",
    "a form": b"session_id=8f1c&text=4321",
    "a list": b"[]",
    "NaN": raw().replace(b'"64110"', b'"64110", "sequence": NaN'),
    "no session": raw(session_id=""),
    "a session with a newline": raw(session_id="8f1c\n"),
    "no number": raw(phone_number=None),
    "a number that is true": raw(phone_number=True),
    "a number in Thai digits": raw(phone_number="+๒๕๖๗๗๒๑๒๓๔๕๖"),
    "a kind nobody knows": raw(kind="4321"),
    "a kind with a capital": raw(kind="Begin"),
    "a sequence of letters": raw(sequence="4321x"),
    "a service code that is too long": raw(service_code="*" + "1" * 60 + "#"),
    "a text that is too long": raw(text="4321" + "1" * 1000),
    "a text that is true": raw(text=True),
    "a text that is a list": raw(text=["4321"]),
    "two different texts": raw()[:-1] + b', "text": "1"}',
}


@pytest.mark.parametrize(("body", "expected"), READABLE.values(), ids=READABLE)
def test_a_readable_post_becomes_a_step(body: bytes, expected: UssdStep) -> None:
    assert GATEWAY.read(post(body)) == expected


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_malformed_post_is_refused_without_repeating_what_was_typed(body: bytes) -> None:
    assert_refused(GATEWAY, post(body))


@pytest.mark.parametrize(("text", "history"), [("1*2*5000", "1*2*5000"), ("*1*2", "1*2"), ("", "")])
def test_a_cumulative_channel_sends_histories(text: str, history: str) -> None:
    kind = StepKind.INPUT if history else StepKind.BEGIN
    assert GATEWAY.read(post(raw(text=text)), CUMULATIVE) == step(kind, history, cumulative=True)


@pytest.mark.parametrize(("action", "shown"), [(Action.CONTINUE, "continue"), (Action.END, "end")])
def test_an_answer_is_an_action_and_a_message_also_called_text(action: Action, shown: str) -> None:
    reply = GATEWAY.write(GatewayScreen(action, "1. Pay"), step(StepKind.INPUT, "1"))
    assert reply.content_type == "application/json"
    assert json.loads(reply.body) == {"action": shown, "message": "1. Pay", "text": "1. Pay"}


def test_an_error_closes_the_session() -> None:
    assert json.loads(GATEWAY.write(GatewayScreen(Action.END, "Sorry."), None).body) == {
        "action": "end",
        "message": "Sorry.",
        "text": "Sorry.",
    }
