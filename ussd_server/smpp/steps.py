"""A deliver_sm as a step, and a screen as the submit_sm that answers it, in an operator's dialect."""

from __future__ import annotations

from dataclasses import dataclass, field

from ussd_server.gateways.messages import Action, GatewayScreen, StepKind
from ussd_server.smpp import dialects, texts
from ussd_server.smpp.pdu import Address, Message, Status, Tag

# 1 is IA5, which Latin-1 contains.
_DEFAULT_ALPHABET, _LATIN1, _UCS2 = (0, 15), (1, 3), (8, 72)
_DELIVERY_REPORT, _HAS_HEADER = 0x04, 0x40
_NATIONAL_TYPE, _NATIONAL_DIGITS, _COUNTRY = 2, 9, "256"
# More octets than any text that menus read.
_MOST_OCTETS = 2304


class NoStepError(Exception):
    """A message that is no step of a USSD session. `status` is that of our reply to the operator."""

    def __init__(self, status: Status, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class SmppStep:
    """A step as an operator sent it. `code` is empty where the dialled text holds it; `text` may hold a PIN."""

    session: str
    phone_number: str
    kind: StepKind
    code: str
    text: str = field(repr=False)


def read_step(message: Message, dialect: dialects.SmppDialect) -> SmppStep:
    """Return the step of a deliver_sm. Raises NoStepError for a message that is none."""
    if message.esm_class & _DELIVERY_REPORT:
        raise NoStepError(Status.OK, "it is a delivery report")
    session = message.tlvs.get(dialect.session_tag, b"") if dialect.session_tag else b"\0\0"
    if len(session) != 2:
        raise NoStepError(Status.MISSING_PARAMETER, "it has no session of its channel's dialect")
    kind = _kind(message, session, dialect)
    text = _decode(message, dialect)
    # An empty dialled text leaves the code to the destination.
    in_destination = dialect.code is dialects.CodePlace.DESTINATION or not text
    code = message.destination.number if kind is StepKind.BEGIN and in_destination else ""
    return SmppStep(f"smpp-{_number(session, dialect)}", _phone_number(message.source), kind, code, text)


def write_screen(screen: GatewayScreen, message: Message, dialect: dialects.SmppDialect) -> Message:
    """Return the submit_sm with a screen for the sender of `message`."""
    ends = screen.action is Action.END
    tlvs: dict[int, bytes] = {Tag.USSD_SERVICE_OP: bytes((dialect.end if ends else dialects.REQUEST,))}
    if dialect.session_tag is not None:
        first, last = message.tlvs[dialect.session_tag]
        tlvs[dialect.session_tag] = bytes((first, last | 1 if ends and dialect.sets_end_bit else last))
    octets, coding = _WRITERS[dialect.alphabet](screen.text), dialect.coding[0]
    if octets is None:
        octets, coding = texts.encode_ucs2(screen.text), dialect.coding[1]
    return Message(message.destination, message.source, octets, coding, tlvs=tlvs)


def _kind(message: Message, session: bytes, dialect: dialects.SmppDialect) -> StepKind:
    operation = message.tlvs.get(Tag.USSD_SERVICE_OP, b"")
    if len(operation) != 1:
        raise NoStepError(Status.MISSING_PARAMETER, "it has no ussd_service_op")
    is_confirmed_end = dialect.end == dialects.NOTIFY and operation[0] == dialects.NOTIFY_CONFIRMED
    if operation[0] in dialects.RELEASES or is_confirmed_end or (dialect.has_end_bit and session[1] & 1):
        return StepKind.END
    if operation[0] == dialects.BEGIN:
        return StepKind.BEGIN
    if operation[0] in dialects.CONTINUES:
        return StepKind.INPUT
    raise NoStepError(Status.REJECTED, f"its ussd_service_op is {operation[0]}")


def _number(session: bytes, dialect: dialects.SmppDialect) -> int:
    """The session's number without sequence and end bit."""
    match dialect.session:
        case dialects.SessionForm.FIFTEEN:
            return int.from_bytes(session) >> 1
        case dialects.SessionForm.EIGHT:
            return session[0]
        case _:
            return int.from_bytes(session)


def _phone_number(source: Address) -> str:
    """Return the number of a phone. One of type "national" may lack the country."""
    is_short = source.ton == _NATIONAL_TYPE and len(source.number) == _NATIONAL_DIGITS
    return _COUNTRY + source.number if is_short else source.number


def _decode(message: Message, dialect: dialects.SmppDialect) -> str:
    """Return the text behind its header, without zero octets that end it.

    With another data_coding or a broken header it is unreadable, and the menu asks again.
    """
    coding, octets = message.data_coding, message.text[:_MOST_OCTETS]
    header = (octets[0] + 1 if octets else 1) if message.esm_class & _HAS_HEADER else 0
    is_default = coding in _DEFAULT_ALPHABET
    if header > len(octets) or not (is_default or coding in _LATIN1 + _UCS2):
        return texts.UNREADABLE
    if is_default and dialect.alphabet is dialects.Alphabet.PACKED:
        return texts.unpack_gsm(octets, header)
    text = octets[header:]
    if coding in _UCS2:
        return texts.decode_ucs2(text.removesuffix(b"\0") if len(text) % 2 else text)
    is_latin1 = coding in _LATIN1 or dialect.alphabet is dialects.Alphabet.LATIN1
    return text.rstrip(b"\0").decode("latin-1") if is_latin1 else texts.decode_gsm(text.rstrip(b"\0"))


_WRITERS = {
    dialects.Alphabet.GSM: texts.encode_gsm,
    dialects.Alphabet.LATIN1: texts.encode_latin1,
    dialects.Alphabet.PACKED: texts.pack_gsm,
}
