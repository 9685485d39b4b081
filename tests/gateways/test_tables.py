"""Gateways that a table describes, proved by the file of cases in the folder of each, and one that was made up."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import ussd_server.gateways as gateways
from tests.gateways.raw import assert_refused, get, post
from tests.support.shop import CODE, OPERATOR, PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.gateways import ADAPTERS, find_gateways
from ussd_server.gateways.messages import (
    Action,
    ChannelOptions,
    Gateway,
    GatewayReply,
    GatewayRequest,
    GatewayScreen,
    HandsetCall,
    StepKind,
    UssdStep,
)
from ussd_server.gateways.table import TableGateway
from ussd_server.services.ussd.messages import CreateChannel

_FOLDER = Path(gateways.__file__).parent
CASES = {
    name: tomllib.loads((_FOLDER / name / "cases.toml").read_text(encoding="utf-8"))
    for name, gateway in ADAPTERS.items()
    if isinstance(gateway, TableGateway)
}
READABLE = [(name, case) for name, cases in CASES.items() for case in cases["readable"]]
MALFORMED = [(name, case) for name, cases in CASES.items() for case in cases["malformed"]]


def options(name: str) -> ChannelOptions:
    return ChannelOptions(codes=tuple(CASES[name].get("codes", ())))


def request(name: str, raw: str) -> GatewayRequest:
    is_query = ADAPTERS[name].request_of(HandsetCall("s", PHONE, CODE), cumulative=None).method == "GET"
    return get(raw.encode()) if is_query else post(raw.encode())


def expected_step(name: str, case: dict[str, Any]) -> UssdStep:
    values = CASES[name]["step"] | case
    return UssdStep(
        values["session"],
        values["phone_number"],
        values["service_code"],
        values["network"],
        StepKind(values["kind"]),
        values["text"],
        cumulative=values.get("cumulative", False),
        sequence=values.get("sequence"),
        echo=values.get("echo", ""),
    )


@pytest.mark.parametrize(("name", "case"), READABLE, ids=[f"{name}: {case['case']}" for name, case in READABLE])
def test_a_readable_request_becomes_a_step(name: str, case: dict[str, Any]) -> None:
    assert ADAPTERS[name].read(request(name, case["request"]), options(name)) == expected_step(name, case)


@pytest.mark.parametrize(("name", "case"), MALFORMED, ids=": ".join)
def test_a_malformed_request_is_refused_without_repeating_what_was_typed(name: str, case: str) -> None:
    assert_refused(ADAPTERS[name], request(name, CASES[name]["malformed"][case]), options(name))


@pytest.mark.parametrize("name", CASES)
def test_a_reply_says_whether_an_entry_is_awaited_and_one_to_a_malformed_request_ends(name: str) -> None:
    step = expected_step(name, {"kind": "input", "text": "4321"})
    for case, action, of_step in (("continue", "continue", step), ("end", "end", step), ("unread", "end", None)):
        reply = ADAPTERS[name].write(GatewayScreen(Action(action), "1. Pay"), of_step)
        written = CASES[name]["replies"][case]
        if reply.content_type == "application/json":
            assert json.loads(reply.body) == json.loads(written)
        else:
            assert reply.body.decode() == written


_BAD_BODIES = {
    "a list": b'[{"Mobile": "256772123456"}]',
    "deep nesting": b'{"sessionId":' * 5_000 + b"1",
    "deep lists": b"[" * 15_000,
    "UTF-16": '{"sessionId": "s-1"}'.encode("utf-16"),
    "an endless number": b'{"msisdn": ' + b"1" * 5_000 + b"}",
    "too long altogether": b'{"sessionId": "s-1"}' + b" " * 20_000,
}


@pytest.mark.parametrize("body", _BAD_BODIES.values(), ids=_BAD_BODIES)
def test_a_body_beyond_every_bound_is_refused(body: bytes) -> None:
    for name in CASES:
        assert_refused(ADAPTERS[name], post(body))


_MADE_UP = """
format = "form"

[request]
who = "{number}"
call = "{session}"
typed = "{history}"
code = "{code}"

[reply]
continue = "more:{screen}"
end = "over:{screen}"
"""


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """A gateway that stands in a folder of its own, and nowhere else."""
    (tmp_path / "made-up").mkdir()
    (tmp_path / "made-up" / "gateway.toml").write_text(_MADE_UP)
    gateway = find_gateways(tmp_path)["made-up"]
    monkeypatch.setitem(ADAPTERS, "made-up", gateway)
    return gateway


def test_a_folder_with_a_table_is_a_gateway_that_phones_dial(services: Services, made_up: Gateway) -> None:
    shop = Shop(services)
    path = services.channels.create(CreateChannel("made-up", shop.client_id), OPERATOR).gateway_path
    secret = path.removeprefix("/ussd/made-up/")
    screens = []
    for typed in ("", "1", "1*5000", "1*5000*1"):
        body = f"who={PHONE.replace('+', '%2B')}&call=c-1&typed={typed}&code={CODE}".replace("#", "%23").encode()
        screens.append(services.gateways.answer("made-up", secret, post(body), "r").body.decode())
    assert [screen.split("\n")[0] for screen in screens] == [
        "more:Welcome to ACME",
        "more:Enter amount (UGX)",
        "more:Pay UGX 5,000?",
        "over:Approve the prompt on your phone.",
    ]


def test_the_consoles_phone_writes_and_reads_what_the_table_says(made_up: Gateway) -> None:
    call = HandsetCall("c-1", PHONE, CODE, dialled="1", entries=("5000",))
    step = made_up.read(made_up.request_of(call, cumulative=None))
    assert (step.text, step.service_code, step.phone_number, step.cumulative) == ("1*5000", CODE, PHONE, True)
    assert made_up.hang_up(call) is None
    for screen in (GatewayScreen(Action.CONTINUE, "Pay {session}?"), GatewayScreen(Action.END, "over:")):
        reply: GatewayReply = made_up.write(screen, step)
        assert made_up.screen_of(reply) == screen


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"format": "xml"}, "format must be one of json, form, query"),
        ({"request": {"call": "{session}", "typed": "{history}"}}, "request needs number, session, text"),
        ({"request": {"call": "{session}", "who": "{digits}", "typed": "{text}"}}, "request needs number"),
        ({"reply": {"message": "{screen}", "password": "{secret}"}}, "reply knows code, digits, echo"),
        ({"reply": {"message": "{session}"}}, "without {screen}"),
        ({"reply": {"continue": "CON {screen}", "end": "END"}}, "without {screen}"),
    ],
)
def test_a_table_that_describes_no_gateway_is_refused(table: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TableGateway("made-up", tomllib.loads(_MADE_UP) | table)


def test_a_broken_table_ends_a_command_with_a_sentence_that_names_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    for text in ('format = "json"', "format = ", 'format = "json"\nrequest = 1\nreply = 2', "request = {}"):
        (folder / "gateway.toml").write_text(text)
        with pytest.raises(SystemExit, match=r"broken/gateway\.toml: "):
            find_gateways(tmp_path)
