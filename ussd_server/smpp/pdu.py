"""PDUs of SMPP 3.4: those that an ESME needs for USSD. Optional parameters (TLVs) are kept as octets."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

HEADER = struct.Struct("!IIII")
_TLV = struct.Struct("!HH")
MAX_PDU_BYTES = 70_000
"""A `message_payload` has at most 65,535 octets."""

RESPONSE = 0x80000000
"""The bit of `command_id` that marks the answer to a command."""
_VERSION = 0x34
_MAX_SHORT_MESSAGE = 254
# SMPP 3.4 has 45 kinds of TLV. A body has room for 17,000, which take 20 ms.
_MOST_TLVS = 64


class CommandId(IntEnum):
    """Commands that we send or read. A response has the highest bit."""

    GENERIC_NACK = 0x80000000
    SUBMIT_SM = 0x00000004
    SUBMIT_SM_RESP = 0x80000004
    DELIVER_SM = 0x00000005
    DELIVER_SM_RESP = 0x80000005
    UNBIND = 0x00000006
    UNBIND_RESP = 0x80000006
    BIND_TRANSCEIVER = 0x00000009
    BIND_TRANSCEIVER_RESP = 0x80000009
    ENQUIRE_LINK = 0x00000015
    ENQUIRE_LINK_RESP = 0x80000015


class Status(IntEnum):
    """Values of `command_status` that we send, or that decide what we do."""

    OK = 0x00
    INVALID_LENGTH = 0x02
    INVALID_COMMAND = 0x03
    SYSTEM_ERROR = 0x08
    QUEUE_FULL = 0x14
    THROTTLED = 0x58
    REJECTED = 0x65
    MISSING_PARAMETER = 0xC3


class Tag(IntEnum):
    """Tags of the TLVs that carry USSD."""

    USER_MESSAGE_REFERENCE = 0x0204
    MESSAGE_PAYLOAD = 0x0424
    USSD_SERVICE_OP = 0x0501
    ITS_SESSION_INFO = 0x1383


class MalformedPduError(Exception):
    """Octets that are no PDU. The message names the part, never a value."""


@dataclass(frozen=True, slots=True)
class Pdu:
    """A PDU with its body not parsed yet. `command` and `status` are numbers, which may be unknown to us."""

    command: int
    status: int
    sequence: int
    body: bytes = field(default=b"", repr=False)

    def encode(self) -> bytes:
        """Return the PDU as octets, with its length first."""
        return HEADER.pack(HEADER.size + len(self.body), self.command, self.status, self.sequence) + self.body

    def response(self, status: int = Status.OK) -> Pdu:
        """Return the response to this request. A message's response has an empty message id."""
        body = b"\0" if self.command in (CommandId.DELIVER_SM, CommandId.SUBMIT_SM) else b""
        return Pdu(self.command | RESPONSE, status, self.sequence, body)

    @property
    def is_response(self) -> bool:
        """Whether this answers a request: any response or a generic_nack."""
        return bool(self.command & RESPONSE)


@dataclass(frozen=True, slots=True)
class Address:
    """A number with its type of number and its numbering plan."""

    number: str
    ton: int = 0
    npi: int = 0

    def encode(self) -> bytes:
        return bytes((self.ton, self.npi)) + _c_text(self.number)


@dataclass(frozen=True, slots=True)
class Message:
    """The body of a deliver_sm or submit_sm. `text` is not decoded; it may hold a PIN, so no printed form shows it."""

    source: Address
    destination: Address
    text: bytes = field(default=b"", repr=False)
    data_coding: int = 0
    service_type: str = "USSD"
    esm_class: int = 0
    tlvs: Mapping[int, bytes] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the body as octets. Raises ValueError for more than 254 octets of text."""
        if len(self.text) > _MAX_SHORT_MESSAGE:
            raise ValueError("a short_message has at most 254 octets")
        return b"".join(
            [
                _c_text(self.service_type),
                self.source.encode(),
                self.destination.encode(),
                # Then protocol_id and priority_flag, no schedule and no validity period,
                bytes((self.esm_class, 0, 0)) + b"\0\0",
                # registered_delivery and replace_if_present_flag; before the length, sm_default_msg_id.
                bytes((0, 0, self.data_coding, 0, len(self.text))),
                self.text,
                *(_TLV.pack(tag, len(value)) + value for tag, value in self.tlvs.items()),
            ]
        )

    @classmethod
    def decode(cls, body: bytes) -> Message:
        """Parse a body. Raises MalformedPduError when it ends too early, has octets to spare or more than 64 TLVs."""
        reader = _Reader(body)
        service_type = reader.c_text(6)
        source, destination = reader.address(), reader.address()
        esm_class, _, _ = reader.octets(3)
        reader.c_text(17)
        reader.c_text(17)
        _, _, data_coding, _, length = reader.octets(5)
        text = reader.octets(length)
        tlvs = reader.tlvs()
        text = text or tlvs.get(Tag.MESSAGE_PAYLOAD, b"")
        return cls(source, destination, text, data_coding, service_type, esm_class, tlvs)


class _Reader:
    """Reads the fields of a body, in order. Each method raises MalformedPduError where the body ends too early."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def octets(self, number: int) -> bytes:
        part = self._body[self._at : self._at + number]
        if len(part) < number:
            raise MalformedPduError("the body ends too early")
        self._at += number
        return part

    def c_text(self, longest: int) -> str:
        """Read a C-Octet String of at most `longest` octets, the last of which is zero."""
        end = self._body.find(b"\0", self._at, self._at + longest)
        if end < 0:
            raise MalformedPduError("a text has no end")
        part = self._body[self._at : end]
        self._at = end + 1
        return part.decode("latin-1")

    def address(self) -> Address:
        ton, npi = self.octets(2)
        return Address(self.c_text(21), ton, npi)

    def tlvs(self) -> dict[int, bytes]:
        tlvs = dict[int, bytes]()
        for _ in range(_MOST_TLVS):
            if self._at == len(self._body):
                return tlvs
            tag, length = _TLV.unpack(self.octets(_TLV.size))
            tlvs[tag] = self.octets(length)
        if self._at < len(self._body):
            raise MalformedPduError("the body has too many TLVs")
        return tlvs


def bind_transceiver(system_id: str, password: str) -> bytes:
    """Return the body of a bind. Raises ValueError for a text outside Latin-1 or with a zero octet.

    The specification allows 15 and 8 octets; operators issue longer passwords, so the operator decides.
    """
    no_range = b"\0\0\0"
    return _c_text(system_id) + _c_text(password) + _c_text("") + bytes((_VERSION,)) + no_range


def decode_header(header: bytes) -> tuple[int, Pdu]:
    """Return the number of octets in the body, and the PDU without it. Raises MalformedPduError for a wrong length."""
    length, command, status, sequence = HEADER.unpack(header)
    if not HEADER.size <= length <= MAX_PDU_BYTES:
        raise MalformedPduError("command_length is out of range")
    return length - HEADER.size, Pdu(command, status, sequence)


def _c_text(text: str) -> bytes:
    encoded = text.encode("latin-1")
    if b"\0" in encoded:
        raise ValueError("a text has a zero octet")
    return encoded + b"\0"
