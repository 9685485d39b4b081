"""DMark, proved by tables of raw calls and replies."""

from __future__ import annotations

import json

import pytest

from tests.gateways.raw import assert_refused, get
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import Action, ChannelOptions, GatewayScreen, StepKind, UssdStep

GATEWAY = ADAPTERS["dmark"]
CHANNEL = ChannelOptions(codes=("*284*10#",))
HEAD = (
    b"transactionId=tx-1&msisdn=256772123456&ussdServiceCode=*284*10%23"
    b"&transactionTime=1389971940&creationTime=1389971950"
)
NEW, LATER = HEAD + b"&response=false", HEAD + b"&response=true"


def step(kind: StepKind, text: str, service_code: str = "*284*10#") -> UssdStep:
    return UssdStep("tx-1", "+256772123456", service_code, "", kind, text, cumulative=False)


READABLE = {
    "dialling": (NEW + b"&ussdRequestString=*284*10%23", step(StepKind.BEGIN, "")),
    "dialling with entries": (NEW + b"&ussdRequestString=*284*10*2*5000%23", step(StepKind.BEGIN, "2*5000")),
    "dialling without a string": (NEW + b"&ussdRequestString=", step(StepKind.BEGIN, "")),
    "dialling with the bare code": (NEW + b"&ussdRequestString=284*10", step(StepKind.BEGIN, "")),
    "dialling a code that only begins alike": (NEW + b"&ussdRequestString=*284*100%23", step(StepKind.BEGIN, "")),
    "a capital False": (NEW.replace(b"false", b"False") + b"&ussdRequestString=*284*10%23", step(StepKind.BEGIN, "")),
    "an empty service code": (
        NEW.replace(b"*284*10%23", b"") + b"&ussdRequestString=*284*10*1%23",
        step(StepKind.BEGIN, "1"),
    ),
    "an entry": (LATER + b"&ussdRequestString=5000", step(StepKind.INPUT, "5000")),
    "an entry that looks dialled": (LATER + b"&ussdRequestString=*284*10%23", step(StepKind.INPUT, "*284*10#")),
    "an empty entry": (LATER + b"&ussdRequestString=", step(StepKind.INPUT, "")),
    "no word on newness": (HEAD + b"&ussdRequestString=1", step(StepKind.INPUT, "1")),
    "a number with a lost plus": (
        LATER.replace(b"msisdn=", b"msisdn=+") + b"&ussdRequestString=1",
        step(StepKind.INPUT, "1"),
    ),
    "a control character": (LATER + b"&ussdRequestString=50%1B00%0A", step(StepKind.INPUT, "50\ufffd00")),
    "an entry with a lost plus": (LATER + b"&ussdRequestString=+256772", step(StepKind.INPUT, " 256772")),
}

UNREADABLE = {
    "nothing": b"",
    "no session": LATER.replace(b"tx-1", b"") + b"&ussdRequestString=4321",
    "a session of control characters": LATER.replace(b"tx-1", b"%01%02") + b"&ussdRequestString=4321",
    "no number": LATER.replace(b"256772123456", b"") + b"&ussdRequestString=4321",
    "a number in words": LATER.replace(b"256772123456", b"private") + b"&ussdRequestString=4321",
    "a number in Bengali digits": LATER.replace(b"772123456", "৭৭২১২৩৪৫৬".encode()) + b"&ussdRequestString=4321",
    "a service code of letters": LATER.replace(b"*284*10%23", b"drop+table") + b"&ussdRequestString=4321",
    "two strings": LATER + b"&ussdRequestString=4321&ussdRequestString=1",
    "both new and not": NEW + b"&response=true&ussdRequestString=4321",
    "a string that is too long": LATER + b"&ussdRequestString=4321" + b"1" * 1000,
}


@pytest.mark.parametrize(("query", "expected"), READABLE.values(), ids=READABLE)
def test_a_readable_call_becomes_a_step(query: bytes, expected: UssdStep) -> None:
    assert GATEWAY.read(get(query), CHANNEL) == expected


@pytest.mark.parametrize("query", UNREADABLE.values(), ids=UNREADABLE)
def test_a_malformed_call_is_refused_without_repeating_what_was_typed(query: bytes) -> None:
    assert_refused(GATEWAY, get(query), CHANNEL)


@pytest.mark.parametrize(("action", "shown"), [(Action.CONTINUE, "request"), (Action.END, "end")])
def test_an_answer_says_whether_an_entry_is_awaited(action: Action, shown: str) -> None:
    reply = GATEWAY.write(GatewayScreen(action, "1. Pay"), step(StepKind.INPUT, "1"))
    assert reply.content_type == "application/json"
    assert json.loads(reply.body) == {"responseString": "1. Pay", "action": shown}


def test_an_error_closes_the_session() -> None:
    assert json.loads(GATEWAY.write(GatewayScreen(Action.END, "Sorry."), None).body) == {
        "responseString": "Sorry.",
        "action": "end",
    }
