"""The codec, judged by the codec of the package `smpp34`, which other people wrote."""

from __future__ import annotations

import time

import pytest
import smpp34
from hypothesis import given
from hypothesis import strategies as st

from ussd_server.smpp.pdu import (
    HEADER,
    MAX_PDU_BYTES,
    Address,
    CommandId,
    MalformedPduError,
    Message,
    Pdu,
    Status,
    Tag,
    bind_transceiver,
    decode_header,
)

_NUMBERS = st.text(alphabet="0123456789*#", max_size=20)
_ADDRESSES = st.builds(Address, _NUMBERS, st.integers(0, 6), st.sampled_from([0, 1, 9]))
_TLVS = st.dictionaries(st.sampled_from([0x0204, 0x0501, 0x1383, 0x1400]), st.binary(min_size=1, max_size=8))
_MESSAGES = st.builds(
    Message,
    _ADDRESSES,
    _ADDRESSES,
    st.binary(max_size=254),
    st.sampled_from([0, 3, 8, 15, 72]),
    tlvs=_TLVS,
)


@given(message=_MESSAGES, sequence=st.integers(1, 0x7FFFFFFF))
def test_another_codec_reads_what_we_submit(message: Message, sequence: int) -> None:
    read = smpp34.decode(Pdu(CommandId.SUBMIT_SM, Status.OK, sequence, message.encode()).encode())
    assert isinstance(read, smpp34.SubmitSm)
    assert (read.sequence_number, read.service_type) == (sequence, "USSD")
    assert Address(read.source_addr, read.source_addr_ton, read.source_addr_npi) == message.source
    assert Address(read.destination_addr, read.dest_addr_ton, read.dest_addr_npi) == message.destination
    assert (read.short_message, read.data_coding) == (message.text, message.data_coding)
    assert {tlv.tag: tlv.value for tlv in read.tlvs} == message.tlvs


@given(message=_MESSAGES, sequence=st.integers(1, 0x7FFFFFFF))
def test_we_read_what_another_codec_delivers(message: Message, sequence: int) -> None:
    octets = smpp34.DeliverSm(
        message.source.number,
        message.destination.number,
        message.text,
        service_type="USSD",
        source_addr_ton=message.source.ton,
        source_addr_npi=message.source.npi,
        dest_addr_ton=message.destination.ton,
        dest_addr_npi=message.destination.npi,
        data_coding=message.data_coding,
        tlvs=[smpp34.Tlv(tag, value) for tag, value in message.tlvs.items()],
        sequence_number=sequence,
    ).encode()
    length, pdu = decode_header(octets[: HEADER.size])
    assert (pdu.command, pdu.sequence, length) == (CommandId.DELIVER_SM, sequence, len(octets) - HEADER.size)
    assert Message.decode(octets[HEADER.size :]) == message


def test_another_codec_reads_binds_and_responses() -> None:
    bind = smpp34.decode(Pdu(CommandId.BIND_TRANSCEIVER, 0, 1, bind_transceiver("acme", "secret")).encode())
    assert isinstance(bind, smpp34.RawPdu)
    assert (bind.command_id, bind.body) == (9, b"acme\0secret\0\0\x34\0\0\0")
    for command in (CommandId.DELIVER_SM, CommandId.ENQUIRE_LINK, CommandId.UNBIND):
        response = smpp34.decode(Pdu(command, 0, 7).response(Status.REJECTED).encode())
        assert isinstance(response, smpp34.RawPdu)
        assert (response.command_id, response.sequence_number) == (command | 0x80000000, 7)
        assert response.command_status == Status.REJECTED


def test_a_long_text_stands_in_message_payload() -> None:
    message = Message(Address("1"), Address("2"), tlvs={Tag.MESSAGE_PAYLOAD: b"*384*123#"})
    assert Message.decode(message.encode()).text == b"*384*123#"
    with pytest.raises(ValueError, match="254"):
        Message(Address("1"), Address("2"), bytes(255)).encode()


@given(body=st.binary(max_size=200))
def test_any_octets_are_a_message_or_malformed(body: bytes) -> None:
    try:
        Message.decode(body)
    except MalformedPduError:
        pass


@given(message=_MESSAGES, cut=st.integers(1, 300))
def test_a_message_that_ends_too_early_is_no_longer_message(message: Message, cut: int) -> None:
    body = message.encode()[:-cut]
    try:
        assert Message.decode(body).tlvs.keys() < message.tlvs.keys()
    except MalformedPduError:
        pass


@pytest.mark.parametrize("length", [0, 15, MAX_PDU_BYTES + 1, 0xFFFFFFFF])
def test_a_length_out_of_range_is_malformed(length: int) -> None:
    with pytest.raises(MalformedPduError):
        decode_header(HEADER.pack(length, CommandId.DELIVER_SM, 0, 1))


def test_a_body_full_of_parameters_is_refused_after_the_first_of_them() -> None:
    message = Message(Address("1"), Address("2"), b"text")
    many = b"\x14\x00\x00\x00" * 16_000
    assert len(Message.decode(message.encode() + many[: 64 * 4]).tlvs) == 1
    began = time.thread_time()
    with pytest.raises(MalformedPduError, match="too many"):
        Message.decode(message.encode() + many)
    assert time.thread_time() - began < 0.002
