"""Africa's Talking, proved by tables of raw posts and replies."""

from __future__ import annotations

import pytest

from tests.gateways.raw import assert_refused, post
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import (
    Action,
    ChannelOptions,
    GatewayRequest,
    GatewayScreen,
    SessionEnd,
    SessionOutcome,
    StepKind,
    UnreadableError,
    UssdStep,
)

GATEWAY = ADAPTERS["africastalking"]
HEAD = b"sessionId=ATUid_1&phoneNumber=%2B256772123456&networkCode=64110&serviceCode=*384*123%23"
ONE_ENTRY_A_STEP = ChannelOptions(cumulative=False)


def step(text: str, **changes: object) -> UssdStep:
    values: dict[str, object] = {
        "provider_session_id": "ATUid_1",
        "phone_number": "+256772123456",
        "service_code": "*384*123#",
        "network": "64110",
        "kind": StepKind.INPUT if text else StepKind.BEGIN,
        "text": text,
        "cumulative": True,
    }
    return UssdStep(**(values | changes))  # type: ignore[arg-type]


READABLE = {
    "the first hop": (HEAD + b"&text=", step("")),
    "an entry": (HEAD + b"&text=1", step("1")),
    "the whole history": (HEAD + b"&text=1*5000*1", step("1*5000*1")),
    "stars encoded": (HEAD + b"&text=1%2A5000", step("1*5000")),
    "an empty entry at the end": (HEAD + b"&text=1*5*", step("1*5*")),
    "no text at all": (HEAD, step("")),
    "a history with a leading star": (HEAD + b"&text=*1*2", step("1*2")),
    "an empty first entry": (HEAD + b"&text=**7", step("7")),
    "a plus that became a space": (HEAD.replace(b"%2B", b"+") + b"&text=1", step("1")),
    "a number without its plus": (HEAD.replace(b"%2B", b"") + b"&text=1", step("1")),
    "a number as people dial it": (HEAD.replace(b"%2B256", b"0") + b"&text=1", step("1")),
    "an empty service code": (HEAD.replace(b"*384*123%23", b"") + b"&text=1", step("1", service_code="")),
    "a service code without star and hash": (HEAD.replace(b"*384*123%23", b"384*123") + b"&text=1", step("1")),
    "an unknown network": (HEAD.replace(b"64110", b"99999") + b"&text=1", step("1", network="99999")),
    "a network that cannot be one": (HEAD.replace(b"64110", b"64%001%0A0") + b"&text=1", step("1", network="")),
    "a parameter sent twice alike": (HEAD + b"&text=1&sessionId=ATUid_1", step("1")),
    "an unknown parameter sent twice": (HEAD + b"&text=1&x=1&x=2&=&=en", step("1")),
    "control characters in an entry": (HEAD + b"&text=1*50%0000%0D%0A", step("1*50\ufffd00")),
    "a line end after each entry": (HEAD + b"&text=1%0D%0A*5000%0A", step("1*5000")),
    "a name in Latin-1": (HEAD + b"&text=1*Ren%E9e", step("1*Renée")),
    "a name in raw Latin-1": (HEAD + b"&text=1*Ren\xe9e", step("1*Renée")),
    "a name in Luganda": (HEAD + "&text=1*Ŋŋoma".encode(), step("1*Ŋŋoma")),
    "names in another case": (HEAD.lower().replace(b"atuid", b"ATUid") + b"&TEXT=1", step("1")),
    "as many characters as are allowed": (HEAD + b"&text=" + b"7" * 1000, step("7" * 1000)),
}

UNREADABLE = {
    "nothing": b"",
    "no session": HEAD.replace(b"sessionId=ATUid_1&", b"") + b"&text=4321",
    "a blank session": HEAD.replace(b"ATUid_1", b"++") + b"&text=4321",
    "a session with a control character": HEAD.replace(b"ATUid_1", b"AT%0Aid") + b"&text=4321",
    "a session that is too long": HEAD.replace(b"ATUid_1", b"A" * 129) + b"&text=4321",
    "no phone number": HEAD.replace(b"phoneNumber=%2B256772123456", b"phoneNumber=") + b"&text=4321",
    "a number of another country": HEAD.replace(b"%2B256", b"%2B254") + b"&text=4321",
    "a number with a digit too many": HEAD.replace(b"3456", b"34567") + b"&text=4321",
    "a number with a newline": HEAD.replace(b"3456", b"3456%0A") + b"&text=4321",
    "a number in Arabic digits": HEAD.replace(b"772123456", "٧٧٢١٢٣٤٥٦".encode()) + b"&text=4321",
    "a service code in Arabic digits": HEAD.replace(b"384", "٣٨٤".encode()) + b"&text=4321",
    "a service code of letters": HEAD.replace(b"384", b"abc") + b"&text=4321",
    "a history that is too long": HEAD + b"&text=4321" + b"*1" * 499,
    "two histories": HEAD + b"&text=4321&text=1",
    "two sessions": HEAD + b"&text=4321&sessionId=ATUid_2",
    "two numbers under two spellings": HEAD + b"&text=4321&phonenumber=%2B256700000000",
    "a flood of parameters": HEAD + b"&text=4321" + b"&a=1" * 100,
    "a flood of bytes": HEAD + b"&text=4321&other=" + b"x" * 20_000,
    "JSON": b'{"sessionId": "ATUid_1", "text": "4321"}',
}


@pytest.mark.parametrize(("body", "expected"), READABLE.values(), ids=READABLE)
def test_a_readable_post_becomes_a_step(body: bytes, expected: UssdStep) -> None:
    assert GATEWAY.read(post(body)) == expected


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_malformed_post_is_refused_without_repeating_what_was_typed(body: bytes) -> None:
    assert_refused(GATEWAY, post(body))


@pytest.mark.parametrize(
    ("body", "text", "kind"),
    [(b"&text=", "", StepKind.BEGIN), (b"&text=5000", "5000", StepKind.INPUT), (b"&text=*1", "*1", StepKind.INPUT)],
)
def test_a_channel_of_single_entries_keeps_each_entry_as_it_was_typed(body: bytes, text: str, kind: StepKind) -> None:
    assert GATEWAY.read(post(HEAD + body), ONE_ENTRY_A_STEP) == step(text, kind=kind, cumulative=False)


def test_the_query_of_a_get_is_read_the_same_way() -> None:
    assert GATEWAY.read(GatewayRequest("GET", query_string=HEAD + b"&text=1")) == step("1")


def test_nothing_typed_shows_when_a_step_or_a_request_is_printed() -> None:
    request = post(HEAD + b"&text=1*4321")
    assert "4321" not in f"{request!r} {GATEWAY.read(request)!r}"


@pytest.mark.parametrize(
    ("screen", "body"),
    [
        (GatewayScreen(Action.CONTINUE, "Welcome\n1. Pay\n2. Balance"), b"CON Welcome\n1. Pay\n2. Balance"),
        (GatewayScreen(Action.END, "Goodbye"), b"END Goodbye"),
        (GatewayScreen(Action.CONTINUE, "Omuŋŋoma"), "CON Omuŋŋoma".encode()),
        (GatewayScreen(Action.END, ""), b"END "),
        (GatewayScreen(Action.END, "CON no"), b"END CON no"),
        (GatewayScreen(Action.CONTINUE, "a\ud800b"), b"CON a?b"),
    ],
)
def test_a_reply_starts_with_its_prefix_and_is_plain_text(screen: GatewayScreen, body: bytes) -> None:
    reply = GATEWAY.write(screen, step("1"))
    assert (reply.body, reply.content_type, reply.headers) == (body, "text/plain; charset=utf-8", {})


def test_an_error_closes_the_session() -> None:
    assert (
        GATEWAY.write(GatewayScreen(Action.END, "Please try again later."), None).body == b"END Please try again later."
    )


EVENT = (
    b"date=2026-11-20+08%3A15%3A30&sessionId=ATUid_1&serviceCode=*384*123%23&networkCode=64110"
    b"&phoneNumber=%2B256772123456&status=Success&cost=UGX+10&durationInMillis=21345&hopsCount=4"
    b"&hopsMetadata=a%7C4321&input=1*5000*4321&lastAppResponse=END+PIN+4321"
)
END = SessionEnd(
    provider_session_id="ATUid_1",
    phone_number="+256772123456",
    outcome=SessionOutcome.COMPLETED,
)


def test_an_event_says_how_the_session_ended_and_nothing_that_was_typed() -> None:
    event = ADAPTERS["at"].read_event(post(EVENT))
    assert event == END
    assert "4321" not in repr(event)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(b"Incomplete", SessionOutcome.ABANDONED), (b"failed", SessionOutcome.FAILED)],
)
def test_an_event_names_its_outcome(status: bytes, outcome: SessionOutcome) -> None:
    assert ADAPTERS["at"].read_event(post(EVENT.replace(b"Success", status))).outcome is outcome


@pytest.mark.parametrize(
    ("sent", "odd"),
    [(b"2026-11-20", b"yesterday"), (b"21345", "٤٣".encode()), (b"hopsCount=4", b"hopsCount=-4"), (b"*384", b"x")],
)
def test_an_event_with_an_odd_field_that_nothing_needs_counts_all_the_same(sent: bytes, odd: bytes) -> None:
    assert ADAPTERS["at"].read_event(post(EVENT.replace(sent, odd))) == END


@pytest.mark.parametrize(
    "body",
    [
        b"",
        EVENT.replace(b"ATUid_1", b""),
        EVENT.replace(b"Success", b"4321"),
    ],
)
def test_a_malformed_event_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableError) as refusal:
        ADAPTERS["at"].read_event(post(body))
    assert "4321" not in repr(refusal.value)
