"""Airtel over Comviva, proved by tables of raw calls and replies."""

from __future__ import annotations

import pytest

from tests.gateways.raw import assert_refused, get
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import Action, ChannelOptions, GatewayScreen, StepKind, UssdStep

GATEWAY = ADAPTERS["comviva"]
HEAD = b"SessionID=13697502734175597&MSISDN=256752123456&MSC=256750000001&userid=acme&password=secret"
NOTICE = b"msisdn=256752123456&clean=cleann&error=523&SessionID=13697502734175597"
CHANNEL = ChannelOptions(codes=("*384*123#", "*384#"))


def step(text: str, opening_text: str | None = "", service_code: str = "", **changes: object) -> UssdStep:
    values: dict[str, object] = {
        "provider_session_id": "13697502734175597",
        "phone_number": "+256752123456",
        "service_code": service_code,
        "network": "64101",
        "kind": StepKind.INPUT,
        "text": text,
        "cumulative": False,
        "opening_text": opening_text,
    }
    return UssdStep(**(values | changes))  # type: ignore[arg-type]


READABLE = {
    "the dialled code": (HEAD + b"&input=384*123", step("384*123", "", "*384*123#")),
    "a code dialled with entries": (HEAD + b"&input=384*123*2*5000", step("384*123*2*5000", "2*5000", "*384*123#")),
    "the shorter code": (HEAD + b"&input=384*7", step("384*7", "7", "*384#")),
    "a code with its star and hash": (HEAD + b"&input=*384*123%23", step("*384*123#", "", "*384*123#")),
    "an entry": (HEAD + b"&input=1", step("1")),
    "an entry that begins like a code": (HEAD + b"&input=3845", step("3845")),
    "an entry of stars": (HEAD + b"&input=****", step("****")),
    "an empty entry": (HEAD + b"&input=", step("")),
    "no entry": (HEAD, step("")),
    "a code of another client": (HEAD + b"&input=999", step("999")),
    "a number with a lost plus": (HEAD.replace(b"MSISDN=", b"MSISDN=+") + b"&input=1", step("1")),
    "a name in Latin-1": (HEAD + b"&input=Ren%E9e", step("Renée")),
    "a control character": (HEAD + b"&input=1%00%0A", step("1")),
    "nameless parameters": (HEAD + b"&input=1&=&=en&=9031510005344&=postpaid", step("1")),
    "the notice of an end": (NOTICE, step("", None, kind=StepKind.END)),
    "a notice that repeats an entry": (NOTICE + b"&input=4321", step("", None, kind=StepKind.END)),
    "a notice as seen in the field": (
        NOTICE + b"&MSC=256750000001&=&=en&=903&=&=postpaid&=20130528171235405&=200220130528",
        step("", None, kind=StepKind.END),
    ),
}

UNREADABLE = {
    "nothing": b"",
    "no session": HEAD.replace(b"SessionID", b"Session") + b"&input=4321",
    "a session that is too long": HEAD.replace(b"13697502734175597", b"1" * 129) + b"&input=4321",
    "no number": HEAD.replace(b"MSISDN", b"M") + b"&input=4321",
    "a number of another country": HEAD.replace(b"256752", b"254752") + b"&input=4321",
    "a number in full-width digits": HEAD.replace(b"256752123456", "２５６７５２１２３４５６".encode())
    + b"&input=4321",
    "two different inputs": HEAD + b"&input=4321&input=1",
    "two different numbers": HEAD + b"&input=4321&msisdn=256752999999",
    "an entry that is too long": HEAD + b"&input=4321" + b"1" * 1000,
    "a notice of no session": b"msisdn=256752123456&clean=cleann&error=4321",
}


@pytest.mark.parametrize(("query", "expected"), READABLE.values(), ids=READABLE)
def test_a_readable_call_becomes_a_step(query: bytes, expected: UssdStep) -> None:
    assert GATEWAY.read(get(query), CHANNEL) == expected


@pytest.mark.parametrize("query", UNREADABLE.values(), ids=UNREADABLE)
def test_a_malformed_call_is_refused_without_repeating_what_was_typed(query: bytes) -> None:
    assert_refused(GATEWAY, get(query), CHANNEL)


def test_an_entry_is_never_taken_for_a_code_that_the_channel_does_not_carry() -> None:
    assert GATEWAY.read(get(HEAD + b"&input=4321")).service_code == ""


def test_neither_reading_of_an_entry_is_printed() -> None:
    printed = repr(GATEWAY.read(get(HEAD + b"&input=384*123*4321"), CHANNEL))
    assert "4321" not in printed
    assert "secret" not in printed


@pytest.mark.parametrize(
    ("screen", "body", "freeflow"),
    [
        (GatewayScreen(Action.CONTINUE, "1. Pay"), b"1. Pay", "FC"),
        (GatewayScreen(Action.END, "Bye"), b"Bye", "FB"),
        (GatewayScreen(Action.END, ""), b"", "FB"),
        (GatewayScreen(Action.CONTINUE, "\n Hello\n"), b"Hello\n", "FC"),
    ],
)
def test_an_answer_is_the_bare_screen_and_headers_that_charge_nothing(
    screen: GatewayScreen, body: bytes, freeflow: str
) -> None:
    reply = GATEWAY.write(screen, step("1"))
    assert reply.body == body
    assert reply.content_type == "text/plain; charset=utf-8"
    assert reply.headers == {"Freeflow": freeflow, "charge": "N", "amount": "0"}


def test_an_error_closes_the_session() -> None:
    reply = GATEWAY.write(GatewayScreen(Action.END, "Please try again later."), None)
    assert (reply.body, reply.headers["Freeflow"]) == (b"Please try again later.", "FB")
