"""What holds for every gateway, whatever it sends."""

from __future__ import annotations

import json
import re
from urllib.parse import quote_from_bytes, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.fields import split_dialled
from ussd_server.gateways.messages import Action, GatewayRequest, GatewayScreen, StepKind, UnreadableError, UssdStep

# Enough fields for every gateway at once, so that most generated requests get past the first check.
GOOD = {
    **dict.fromkeys(["sessionId", "session_id", "transactionId"], "s-1"),
    **dict.fromkeys(["phoneNumber", "phone_number", "msisdn", "Mobile"], "+256772123456"),
    **dict.fromkeys(["serviceCode", "service_code", "ussdServiceCode"], "*384*123#"),
    **dict.fromkeys(["networkCode", "network", "Operator"], "64110"),
    **dict.fromkeys(["text", "input", "ussdString", "ussdRequestString", "Message"], "*384*123*1#"),
    "messageType": "0",
    "Type": "Initiation",
    "kind": "begin",
    "response": "false",
    "sequence": "1",
    "status": "Success",
    "date": "2026-11-20 08:15:30",
    "hopsCount": "3",
}
ODD = st.text(max_size=20) | st.text(alphabet="*#+ 01256", max_size=14)
FIELDS = st.dictionaries(st.sampled_from([*GOOD]), ODD, max_size=4).map(lambda odd: GOOD | odd)
REQUESTS = st.one_of(
    st.binary(max_size=200),
    FIELDS.map(lambda fields: urlencode(fields, errors="replace").encode()),
    FIELDS.map(lambda fields: json.dumps(fields).encode()),
)
fuzzed = settings(
    max_examples=200, deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def test_each_gateway_has_its_own_name_and_africas_talking_also_at() -> None:
    assert {name: gateway.name for name, gateway in ADAPTERS.items()} == {
        "africastalking": "africastalking",
        "at": "africastalking",
        "comviva": "comviva",
        "dmark": "dmark",
        "hubtel": "hubtel",
        "json": "json",
        "madapi": "madapi",
        "smpp": "smpp",
    }


@pytest.mark.parametrize("name", ADAPTERS)
@fuzzed
@given(raw=REQUESTS, method=st.sampled_from(["GET", "POST"]))
def test_any_bytes_give_a_sound_step_or_one_refusal(name: str, raw: bytes, method: str) -> None:
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


# Each gateway's way to send the entry of a session that goes on.
_LATER = {"messageType": "1", "Type": "Response", "kind": "input", "response": "true", "sequence": "2"}


def read_entry(name: str, entry: bytes) -> str:
    """What a gateway's adapter reads from these bytes, in a form or in a JSON body."""
    fields = GOOD | _LATER | dict.fromkeys(["text", "input", "ussdString", "ussdRequestString", "Message"], "ENTRY")
    form = urlencode(fields).encode().replace(b"ENTRY", quote_from_bytes(entry).encode())
    body = json.dumps(fields).encode().replace(b"ENTRY", entry)
    read = []
    for raw in (form, body):
        try:
            read.append(ADAPTERS[name].read(GatewayRequest("GET", query_string=raw, body=raw)).text)
            read.append(ADAPTERS[name].read(GatewayRequest("POST", query_string=raw, body=raw)).text)
        except UnreadableError:
            continue
    assert read
    return read[-1]


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
@given(raw=REQUESTS)
def test_any_bytes_give_a_sound_event_or_one_refusal(name: str, raw: bytes) -> None:
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
