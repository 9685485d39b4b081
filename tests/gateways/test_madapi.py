"""MTN over MADAPI, proved by tables of raw posts and replies."""

from __future__ import annotations

import json

import pytest

from tests.gateways.raw import assert_refused, post
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import Action, ChannelOptions, GatewayScreen, StepKind, UssdStep

GATEWAY = ADAPTERS["madapi"]
CHANNEL = ChannelOptions(codes=("*384*123#",))


def raw(message_type: str = '"1"', text: str = '"4321"', code: str = '"*384*123#"', **others: str) -> bytes:
    session, msisdn = others.get("session", '"s-1"'), others.get("msisdn", '"256772123456"')
    return (
        f'{{"sessionId": {session}, "messageType": {message_type}, "msisdn": {msisdn}, "serviceCode": {code},'
        f' "ussdString": {text}, "cellId": null, "language": "en", "imsi": "641100000000001"}}'
    ).encode()


def step(kind: StepKind, text: str, service_code: str = "*384*123#") -> UssdStep:
    return UssdStep("s-1", "+256772123456", service_code, "64110", kind, text, cumulative=False)


READABLE = {
    "dialling": (raw('"0"', '"*384*123#"'), step(StepKind.BEGIN, "")),
    "dialling with entries": (raw('"0"', '"*384*123*2*5000#"'), step(StepKind.BEGIN, "2*5000")),
    "dialling through a shorter code": (raw('"0"', '"*384*123*2#"', '"384"'), step(StepKind.BEGIN, "2")),
    "dialling without a string": (raw('"0"', '""'), step(StepKind.BEGIN, "")),
    "dialling something else": (raw('"0"', '"hello"'), step(StepKind.BEGIN, "")),
    "dialling without a declared code": (raw('"0"', '"*384*123*2#"', '""'), step(StepKind.BEGIN, "2")),
    "an entry": (raw('"1"', '"5000"'), step(StepKind.INPUT, "5000")),
    "an entry with a star": (raw('"1"', '"*1"'), step(StepKind.INPUT, "*1")),
    "an entry as a number": (raw("1", "5000"), step(StepKind.INPUT, "5000")),
    "a number as a number": (raw('"1"', '"1"', msisdn="256772123456"), step(StepKind.INPUT, "1")),
    "a code that is null": (raw('"1"', '"1"', "null"), step(StepKind.INPUT, "1", "")),
    "an escaped control character": (raw('"1"', '"1\\u0000\\n"'), step(StepKind.INPUT, "1")),
    "an end": (raw('"2"', '""'), step(StepKind.END, "")),
    "a notification": (raw('"3"', '""'), step(StepKind.INPUT, "")),
    "a cancelled session": (raw('"4"', "null"), step(StepKind.ABORT, "")),
    "a session that timed out": (raw('"5"', '""'), step(StepKind.TIMEOUT, "")),
    "a byte order mark": (b"\xef\xbb\xbf" + raw('"1"', '"1"'), step(StepKind.INPUT, "1")),
}

UNREADABLE = {
    "nothing": b"",
    "not JSON": b"sessionId=s-1&ussdString=4321",
    "a list": b"[" + raw() + b"]",
    "deep nesting": b'{"sessionId":' * 5_000 + b"1",
    "deep lists": b"[" * 15_000,
    "UTF-16": raw().decode().encode("utf-16"),
    "a message type beyond five": raw('"6"'),
    "a message type in Arabic": raw('"١"'),
    "no message type": raw("null"),
    "a message type that is true": raw("true"),
    "a session that is an object": raw(session='{"$ne": 1}'),
    "a session that is a lone surrogate": raw(session='"\\ud800"'),
    "a number that is a list": raw(msisdn='["256772123456"]'),
    "a number with a fraction": raw(msisdn="256772123456.0"),
    "a number in Arabic digits": raw(msisdn='"٢٥٦٧٧٢١٢٣٤٥٦"'),
    "an endless number": raw(msisdn="1" * 5_000),
    "two different strings": raw().replace(b'"imsi"', b'"ussdString": "1", "imsi"'),
    "a string that is too long": raw(text='"4321' + "1" * 1000 + '"'),
    "too long altogether": raw() + b" " * 20_000,
}


@pytest.mark.parametrize(("body", "expected"), READABLE.values(), ids=READABLE)
def test_a_readable_post_becomes_a_step(body: bytes, expected: UssdStep) -> None:
    assert GATEWAY.read(post(body), CHANNEL) == expected


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_malformed_post_is_refused_without_repeating_what_was_typed(body: bytes) -> None:
    assert_refused(GATEWAY, post(body), CHANNEL)


@pytest.mark.parametrize(("action", "awaited", "message_type"), [(Action.CONTINUE, True, 1), (Action.END, False, 2)])
def test_an_answer_wraps_the_screen_and_repeats_code_and_number(
    action: Action, awaited: bool, message_type: int
) -> None:
    reply = GATEWAY.write(GatewayScreen(action, "1. Pay\nŋ"), step(StepKind.INPUT, "4321"))
    assert reply.content_type == "application/json"
    assert b"4321" not in reply.body
    assert json.loads(reply.body) == {
        "statusCode": "0000",
        "statusMessage": "Success",
        "transactionId": "s-1",
        "data": {
            "inboundResponse": "1. Pay\nŋ",
            "outboundResponse": "1. Pay\nŋ",
            "userInputRequired": awaited,
            "messageType": message_type,
            "serviceCode": "*384*123#",
            "msisdn": "256772123456",
        },
        "_link": {"self": {"href": "/messages/ussd/inbound"}},
    }


def test_an_error_closes_the_session_in_the_same_shape() -> None:
    reply = json.loads(GATEWAY.write(GatewayScreen(Action.END, "Please try again later."), None).body)
    assert reply["statusCode"] == "0000"
    assert reply["data"]["inboundResponse"] == "Please try again later."
    assert reply["data"]["userInputRequired"] is False
