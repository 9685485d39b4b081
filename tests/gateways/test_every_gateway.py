"""What holds for every gateway, whatever it sends."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, quote_from_bytes, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.fields import split_dialled
from ussd_server.gateways.messages import (
    Action,
    GatewayRequest,
    GatewayScreen,
    HandsetCall,
    StepKind,
    UnreadableError,
    UssdStep,
)
from ussd_server.gateways.table import TableGateway

_NGINX = (Path(__file__).parents[2] / "deploy/nginx.conf").read_text(encoding="utf-8")
CALL = HandsetCall("s-1", "+256772123456", "*384*123#", "64110", dialled="1")
ODD = st.text(max_size=20) | st.text(alphabet="*#+ 01256", max_size=14)


def fields_of(request: GatewayRequest) -> dict[str, object]:
    """The fields of a form or of a JSON body."""
    if request.method == "POST" and request.body.startswith(b"{"):
        return dict(json.loads(request.body))
    return dict(parse_qsl((request.query_string or request.body).decode(), keep_blank_values=True))


def requests_like(*requests: GatewayRequest | None) -> st.SearchStrategy[bytes]:
    """Any bytes, and these requests with odd values, so that most get past the first check."""
    good = [fields_of(request) for request in requests if request is not None]
    fields = st.sampled_from(good).flatmap(
        lambda sound: st.dictionaries(st.sampled_from([*sound]), ODD, max_size=4).map(lambda odd: sound | odd)
    )
    return st.one_of(
        st.binary(max_size=200),
        fields.map(lambda each: urlencode(each, errors="replace").encode()),
        fields.map(lambda each: json.dumps(each).encode()),
    )


def calls_of(name: str) -> st.SearchStrategy[bytes]:
    gateway = ADAPTERS[name]
    later = gateway.request_of(replace(CALL, entries=("5000",)), cumulative=None)
    return requests_like(gateway.request_of(CALL, cumulative=None), later, gateway.hang_up(CALL))


fuzzed = settings(max_examples=2 * settings.default.max_examples)


def test_each_gateway_has_its_own_name_and_africas_talking_also_at() -> None:
    assert [(name, gateway.name) for name, gateway in ADAPTERS.items() if gateway.name != name] == [
        ("at", "africastalking")
    ]


@pytest.mark.parametrize("name", [name for name, gateway in ADAPTERS.items() if isinstance(gateway, TableGateway)])
def test_nginx_knows_the_last_screen_of_every_table(name: str) -> None:
    screen = ADAPTERS[name].write(GatewayScreen(Action.END, "$ussd_last_screen"), None).body.decode()
    block = _NGINX.partition(f"location = /.screen/{name} {{")[2].partition("}\n")[0]
    written = block.partition("return 200 '")[2].partition("';")[0]
    assert written, f"deploy/nginx.conf lacks `location = /.screen/{name}` with {screen}"
    assert json.loads(written) == json.loads(screen)
    assert f"|{name}" in _NGINX.partition("(?<ussd_wire>")[2].partition(")")[0]


@pytest.mark.parametrize("name", ADAPTERS)
@fuzzed
@given(data=st.data(), method=st.sampled_from(["GET", "POST"]))
def test_any_bytes_give_a_sound_step_or_one_refusal(name: str, data: st.DataObject, method: str) -> None:
    raw = data.draw(calls_of(name))
    try:
        step = ADAPTERS[name].read(GatewayRequest(method, query_string=raw, body=raw))
    except UnreadableError:
        return
    assert re.fullmatch(r"[ -~]{1,128}", step.provider_session_id)
    assert re.fullmatch(r"\+256[0-9]{9}", step.phone_number)
    assert re.fullmatch(r"(\*[0-9]+(\*[0-9]+)*#)?", step.service_code)
    assert len(step.text) <= 1000
    assert step.text.isprintable()
    assert not step.text.startswith("*") or not step.cumulative


def read_entry(name: str, entry: bytes) -> str:
    """What a gateway's adapter reads from these bytes, in a form or in a JSON body."""
    request = ADAPTERS[name].request_of(replace(CALL, entries=("ENTRY",)), cumulative=None)
    body, query = request.body, request.query_string.replace(b"ENTRY", quote_from_bytes(entry).encode())
    body = body.replace(b"ENTRY", entry if body.startswith(b"{") else quote_from_bytes(entry).encode())
    return ADAPTERS[name].read(replace(request, query_string=query, body=body)).text.removeprefix("1*")


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (b"Ren\xe9e", "Renée"),
        ("Renée Ŋŋoma".encode(), "Renée Ŋŋoma"),
        (b"\x93O\x92Brien\x94 \x80", "“O’Brien” €"),
        (b"a\x81b", "a\ufffdb"),
        (b"a\xed\xa0\xbdb", "a\ufffdb"),
        ("a\ufffdb".encode(), "a\ufffdb"),
        (b"a\x7fb", "a\ufffdb"),
    ],
)
def test_an_entry_is_read_as_utf8_else_as_latin1_and_what_cannot_be_read_is_marked(
    name: str, entry: bytes, text: str
) -> None:
    assert read_entry(name, entry) == text


@pytest.mark.parametrize("name", [name for name, gateway in ADAPTERS.items() if gateway.sends_events])
@fuzzed
@given(data=st.data())
def test_any_bytes_give_a_sound_event_or_one_refusal(name: str, data: st.DataObject) -> None:
    raw = data.draw(requests_like(ADAPTERS[name].hang_up(CALL)))
    try:
        event = ADAPTERS[name].read_event(GatewayRequest("POST", body=raw))
    except UnreadableError:
        return
    assert re.fullmatch(r"\+256[0-9]{9}", event.phone_number)


@pytest.mark.parametrize("name", ADAPTERS)
@fuzzed
@given(text=st.text(), action=st.sampled_from(Action))
def test_any_screen_can_be_written(name: str, text: str, action: Action) -> None:
    step = UssdStep("s-1", "+256772123456", "", "", StepKind.INPUT, "1", cumulative=False)
    for reply in (
        ADAPTERS[name].write(GatewayScreen(action, text), step),
        ADAPTERS[name].write(GatewayScreen(Action.END, text), None),
    ):
        assert reply.body.decode().isascii() or reply.content_type.startswith("text/plain")


@fuzzed
@given(history=st.text(alphabet="*1ŋ\n", max_size=12), more=st.text(alphabet="*1ŋ\n", max_size=6))
def test_a_longer_history_still_begins_with_the_shorter_one_after_it_was_read(history: str, more: str) -> None:
    def read(text: str) -> str:
        fields = {"sessionId": "s-1", "phoneNumber": "+256772123456", "text": text}
        return ADAPTERS["at"].read(GatewayRequest("POST", body=urlencode(fields).encode())).text

    assert read(history + more).startswith(read(history))


@pytest.mark.parametrize(
    ("dialled", "declared", "codes", "parted"),
    [
        ("*384*123#", "*384*123#", (), ("*384*123#", "")),
        ("*384*123*2*5000#", "*384*123#", (), ("*384*123#", "2*5000")),
        ("384*123*2", "", ("*384*123#",), ("*384*123#", "2")),
        ("*384*123*2#", "*384#", ("*384#", "*384*123#"), ("*384*123#", "2")),
        ("*384*123*2#", "*384*123*2#", ("*384*123#",), ("*384*123#", "2")),
        ("*384*1234#", "*384#", ("*384*123#",), ("*384#", "1234")),
        ("*384*123*#", "", ("*384*123#",), ("*384*123#", "")),
        ("*165#", "*384#", (), ("*384#", "")),
        ("*165#", "", (), ("", "")),
        ("*999*998#", "", ("*384*123#",), ("*999*998#", "")),
        ("", "", ("*384#",), ("", "")),
        (" *384*7# ", "*384#", (), ("*384#", "7")),
        ("384123", "", ("*384*123#",), ("*384*123#", "")),
        ("7775", "*7775#", ("*777*5#", "*7775#"), ("*7775#", "")),
    ],
)
def test_a_dialled_text_splits_at_the_longest_code_of_the_channel(
    dialled: str, declared: str, codes: tuple[str, ...], parted: tuple[str, str]
) -> None:
    assert split_dialled(dialled, declared, codes) == parted
