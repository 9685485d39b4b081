"""Steps and screens in each dialect, as tables of raw values."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ussd_server.gateways.messages import Action, GatewayScreen, StepKind
from ussd_server.menus.text import BASIC, EXTENSION
from ussd_server.smpp.dialects import DIALECTS, read_dialect
from ussd_server.smpp.pdu import Address, Message, Status, Tag
from ussd_server.smpp.repeats import SubmittedSteps
from ussd_server.smpp.steps import NoStepError, SmppStep, read_step, write_screen
from ussd_server.smpp.texts import decode_gsm, encode_gsm, pack_gsm, unpack_gsm

PHONE, CODE = Address("256772123456", 1, 1), Address("384123", 0, 0)


def message(op: int | None = 1, session: str = "026e", text: bytes = b"*384*123#", **given: object) -> Message:
    """A deliver_sm with these raw values."""
    tlvs = {} if op is None else {Tag.USSD_SERVICE_OP.value: bytes((op,))}
    tag = given.pop("tag", Tag.ITS_SESSION_INFO)
    if session:
        tlvs[int(tag)] = bytes.fromhex(session)  # type: ignore[call-overload]
    return Message(PHONE, CODE, text, tlvs=tlvs, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dialect", "op", "session", "kind", "name"),
    [
        ("default", 1, "026e", StepKind.BEGIN, "smpp-311"),
        ("default", 18, "026e", StepKind.INPUT, "smpp-311"),
        ("default", 2, "026e", StepKind.INPUT, "smpp-311"),
        ("default", 16, "026e", StepKind.INPUT, "smpp-311"),
        ("default", 19, "026e", StepKind.INPUT, "smpp-311"),
        ("default", 18, "026f", StepKind.END, "smpp-311"),
        ("default", 1, "026f", StepKind.END, "smpp-311"),
        ("default", 129, "026e", StepKind.END, "smpp-311"),
        ("default", 17, "026e", StepKind.END, "smpp-311"),
        ("8+7", 1, "2a00", StepKind.BEGIN, "smpp-42"),
        ("8+7", 18, "2a02", StepKind.INPUT, "smpp-42"),
        ("8+7", 18, "2a04", StepKind.INPUT, "smpp-42"),
        ("8+7", 18, "2a05", StepKind.END, "smpp-42"),
        ("8+7+end,end=32", 18, "2a05", StepKind.END, "smpp-42"),
        ("session=none", 18, "", StepKind.INPUT, "smpp-0"),
        ("end=3", 19, "026e", StepKind.END, "smpp-311"),
    ],
)
def test_operations_and_sessions(dialect: str, op: int, session: str, kind: StepKind, name: str) -> None:
    step = read_step(message(op, session), read_dialect(dialect))
    assert (step.kind, step.session, step.phone_number) == (kind, name, "256772123456")


def test_mica_names_a_session_by_its_reference() -> None:
    step = read_step(message(18, "0137", b"2", tag=Tag.USER_MESSAGE_REFERENCE), DIALECTS["mica"])
    assert (step.kind, step.session, step.text) == (StepKind.INPUT, "smpp-311", "2")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (message(None), Status.MISSING_PARAMETER),
        (message(1, ""), Status.MISSING_PARAMETER),
        (message(1, "02"), Status.MISSING_PARAMETER),
        (message(77), Status.REJECTED),
        (message(0), Status.REJECTED),
        (message(1, esm_class=4), Status.OK),
    ],
)
def test_what_is_no_step_is_answered_with_a_status(sent: Message, status: Status) -> None:
    with pytest.raises(NoStepError) as refused:
        read_step(sent, DIALECTS["default"])
    assert refused.value.status is status


@pytest.mark.parametrize(
    ("dialect", "coding", "octets", "text"),
    [
        ("default", 0, b"5000", "5000"),
        ("default", 0, b"\x00\x02\x1b\x65", "@$€"),
        ("default", 15, b"\x00@", "@¡"),
        ("default", 0, b"1\x00", "1"),
        ("default", 8, b"\x001\x00", "1"),
        ("alphabet=latin1", 0, b"1\x00", "1"),
        ("alphabet=packed", 0, bytes.fromhex("31d98c56b3dd1a"), "1234567"),
        ("alphabet=packed", 15, bytes.fromhex("31d98c56b3dd70"), "12345678"),
        ("alphabet=packed", 0, bytes.fromhex("31"), "1"),
        ("alphabet=packed", 0, bytes.fromhex("3100"), "1"),
        ("alphabet=packed", 8, "ŋ".encode("utf-16-be"), "ŋ"),
        ("default", 8, "ŋ".encode("utf-16-be"), "ŋ"),
        ("default", 72, "é1".encode("utf-16-be"), "é1"),
        ("default", 1, b"@1", "@1"),
        ("default", 3, b"\xe9", "é"),
        ("alphabet=latin1", 0, b"@\xe9", "@é"),
        ("default", 0, b"\x80", "\ufffd"),
        ("default", 4, b"1", "\ufffd"),
        ("default", 8, b"\x01", "\ufffd"),
    ],
)
def test_texts_of_each_coding(dialect: str, coding: int, octets: bytes, text: str) -> None:
    assert read_step(message(18, text=octets, data_coding=coding), read_dialect(dialect)).text == text


@pytest.mark.parametrize(
    ("dialect", "coding", "octets", "text"),
    [
        ("default", 0, bytes.fromhex("050003010101") + b"5000", "5000"),
        ("default", 8, bytes.fromhex("050003010101") + "ŋ".encode("utf-16-be"), "ŋ"),
        # Six octets of header take seven septets, the last of which is filled up.
        ("alphabet=packed", 0, bytes.fromhex("05000301010162"), "1"),
        ("default", 0, b"\x05\x00", "\ufffd"),
        ("default", 0, b"", "\ufffd"),
    ],
)
def test_a_header_of_user_data_is_no_text(dialect: str, coding: int, octets: bytes, text: str) -> None:
    sent = message(18, text=octets, data_coding=coding, esm_class=0x40)
    assert read_step(sent, read_dialect(dialect)).text == text


@pytest.mark.parametrize(
    ("ton", "number", "read"),
    [(2, "772123456", "256772123456"), (2, "0772123456", "0772123456"), (2, "256772123456", "256772123456"),
     (1, "772123456", "772123456")],
)  # fmt: skip
def test_a_national_number_is_one_of_uganda(ton: int, number: str, read: str) -> None:
    sent = replace(message(), source=Address(number, ton, 1))
    assert read_step(sent, DIALECTS["default"]).phone_number == read
    assert write_screen(GatewayScreen(Action.END, "Bye"), sent, DIALECTS["default"]).destination == sent.source


def test_the_code_stands_in_the_text_or_in_the_destination() -> None:
    in_text = read_step(message(), DIALECTS["default"])
    assert (in_text.code, in_text.text) == ("", "*384*123#")
    without_text = read_step(message(text=b""), DIALECTS["default"])
    assert (without_text.code, without_text.text) == ("384123", "")
    in_destination = read_step(message(text=b"2*5000"), read_dialect("code=destination"))
    assert (in_destination.code, in_destination.text) == ("384123", "2*5000")


@pytest.mark.parametrize(
    ("dialect", "action", "op", "session"),
    [
        ("default", Action.CONTINUE, 2, "026e"),
        ("default", Action.END, 17, "026f"),
        ("8+7", Action.CONTINUE, 2, "026e"),
        ("8+7", Action.END, 17, "026f"),
        ("tata", Action.END, 2, "026f"),
        ("php-smpp", Action.END, 32, "026e"),
        ("end=3", Action.END, 3, "026e"),
        ("mica,end=23", Action.END, 23, "026e"),
        ("mica", Action.END, 17, "026e"),
        ("mica", Action.CONTINUE, 2, "026e"),
    ],
)
def test_screens(dialect: str, action: Action, op: int, session: str) -> None:
    ours = read_dialect(dialect)
    written = write_screen(GatewayScreen(action, "Pay 5,000?"), message(tag=ours.session_tag), ours)
    assert ours.session_tag is not None
    assert written.tlvs == {Tag.USSD_SERVICE_OP: bytes((op,)), ours.session_tag: bytes.fromhex(session)}
    assert (written.source, written.destination, written.service_type) == (CODE, PHONE, "USSD")


@pytest.mark.parametrize(
    ("dialect", "text", "coding", "octets"),
    [
        ("default", "Pay @ 5", 0, b"Pay \x00 5"),
        ("default", "ŋ", 8, b"\x01\x4b"),
        ("coding=15/72", "Pay", 15, b"Pay"),
        ("coding=15/72", "ŋ", 72, b"\x01\x4b"),
        ("alphabet=latin1", "é@", 0, b"\xe9@"),
        ("alphabet=latin1", "€", 8, b"\x20\xac"),
        ("alphabet=packed", "1234567", 0, bytes.fromhex("31d98c56b3dd1a")),
        ("alphabet=packed", "12345678", 0, bytes.fromhex("31d98c56b3dd70")),
        ("alphabet=packed,coding=15/72", "ŋ", 72, b"\x01\x4b"),
    ],
)
def test_screens_in_each_coding(dialect: str, text: str, coding: int, octets: bytes) -> None:
    written = write_screen(GatewayScreen(Action.CONTINUE, text), message(), read_dialect(dialect))
    assert (written.data_coding, written.text) == (coding, octets)


def test_the_alphabet_is_that_of_the_menus() -> None:
    for letter in BASIC | EXTENSION:
        octets = encode_gsm(letter)
        assert octets is not None
        assert decode_gsm(octets) == letter
    assert encode_gsm("ŋ") is None


@given(st.text(sorted(BASIC | EXTENSION), max_size=182).filter(lambda text: not text.endswith(("@", "\r"))))
def test_a_packed_text_is_read_as_it_was_written(text: str) -> None:
    octets = pack_gsm(text)
    assert octets is not None
    assert unpack_gsm(octets) == text
    assert decode_gsm(b"\x1b") == "\ufffd"


@pytest.mark.parametrize("text", ["", "vodka", "end=18", "session=16", "mood=good", "mica,tata", "coding=0"])
def test_an_unknown_dialect_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"ust be one of|Its parts are"):
        read_dialect(text)


def test_each_part_of_a_dialect_can_be_set() -> None:
    parts = {
        "session": ["15+end", "8+7+end", "user_message_reference", "none"],
        "end": ["17", "2", "3", "23", "32"],
        "coding": ["0/8", "15/72"],
        "alphabet": ["gsm", "latin1", "packed"],
        "code": ["text", "destination"],
    }
    for values in itertools.product(*parts.values()):
        read_dialect(",".join(f"{name}={value}" for name, value in zip(parts, values, strict=True)))


def test_a_step_may_be_a_repeat_until_two_seconds_after_its_screen_was_sent() -> None:
    now = [0.0]
    steps = SubmittedSteps(lambda: now[0])
    step = SmppStep("smpp-1", "256772123456", StepKind.INPUT, "", "1")
    other = SmppStep("smpp-1", "256772123456", StepKind.INPUT, "", "2")
    assert not steps.may_repeat(step)
    submitted = steps.submitting(step)
    now[0] = 9.0
    assert steps.may_repeat(step)
    assert not steps.may_repeat(other)
    steps.sent(submitted)
    now[0] = 10.9
    assert steps.may_repeat(step)
    now[0] = 11.1
    assert not steps.may_repeat(step)
