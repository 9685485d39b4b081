"""How operators differ in USSD over SMPP, as data. `docs/GATEWAYS.md` names the sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from ussd_server.smpp.pdu import Tag


class SessionForm(StrEnum):
    """The field of a message that holds the session number."""

    FIFTEEN = "15+end"
    EIGHT = "8+7+end"
    REFERENCE = "user_message_reference"
    NONE = "none"


class Alphabet(StrEnum):
    """The encoding of a text whose data_coding says "default alphabet". PACKED: eight septets in seven octets."""

    GSM = "gsm"
    LATIN1 = "latin1"
    PACKED = "packed"


class CodePlace(StrEnum):
    """The field of a begin that holds the dialled code."""

    TEXT = "text"
    DESTINATION = "destination"


BEGIN, REQUEST, NOTIFY, NOTIFY_CONFIRMED, RESPONSE = 1, 2, 3, 19, 17
CONTINUES = (REQUEST, 16, 18, NOTIFY_CONFIRMED)
RELEASES = (RESPONSE, 129)


@dataclass(frozen=True, slots=True)
class SmppDialect:
    """What one kind of operator sends and expects.

    `end` is the operation (`ussd_service_op`) of a last screen: 17 or 2, which also set the end bit, 3, 23 or 32.
    `coding` are the values of data_coding that we send for the default alphabet and for UCS-2.
    """

    session: SessionForm = SessionForm.FIFTEEN
    end: int = RESPONSE
    coding: tuple[int, int] = (0, 8)
    alphabet: Alphabet = Alphabet.GSM
    code: CodePlace = CodePlace.TEXT

    @property
    def session_tag(self) -> Tag | None:
        """The TLV with the session's number; None where there is none."""
        if self.session is SessionForm.NONE:
            return None
        is_reference = self.session is SessionForm.REFERENCE
        return Tag.USER_MESSAGE_REFERENCE if is_reference else Tag.ITS_SESSION_INFO

    @property
    def has_end_bit(self) -> bool:
        """Whether the lowest bit of the session's TLV says that the session is over."""
        return self.session_tag is Tag.ITS_SESSION_INFO

    @property
    def sets_end_bit(self) -> bool:
        """Whether a last screen sets that bit."""
        return self.has_end_bit and self.end in (RESPONSE, REQUEST)


DIALECTS: Mapping[str, SmppDialect] = {
    "default": SmppDialect(),
    "8+7": SmppDialect(session=SessionForm.EIGHT),
    "mica": SmppDialect(session=SessionForm.REFERENCE),
    "tata": SmppDialect(end=REQUEST),
    "php-smpp": SmppDialect(end=32),
}
"""The dialects that sources describe, by name. `read_dialect` changes single parts of one."""

_VALUES: Mapping[str, Mapping[str, Any]] = {
    "session": {form.value: form for form in SessionForm},
    "end": {str(end): end for end in (RESPONSE, REQUEST, NOTIFY, 23, 32)},
    "coding": {"0/8": (0, 8), "15/72": (15, 72)},
    "alphabet": {alphabet.value: alphabet for alphabet in Alphabet},
    "code": {place.value: place for place in CodePlace},
}
assert set(_VALUES) == {part.name for part in fields(SmppDialect)}


def read_dialect(text: str) -> SmppDialect:
    """Read a dialect: a name, parts such as `end=32`, or a name followed by parts, with commas between.

    The form of a session stands for itself: `8+7+end` is `session=8+7+end`.

    Raises ValueError with a sentence that lists what is possible.
    """
    dialect = DIALECTS["default"]
    for number, part in enumerate(each.strip() for each in text.split(",")):
        name, equals, value = (f"session={part}" if part in _VALUES["session"] else part).partition("=")
        if not equals and number == 0:
            if name not in DIALECTS:
                raise ValueError(f"Must be one of {', '.join(DIALECTS)}, or parts such as end=32.")
            dialect = DIALECTS[name]
            continue
        possible = _VALUES.get(name)
        if possible is None:
            raise ValueError(f"Its parts are {', '.join(_VALUES)}.")
        if value not in possible:
            raise ValueError(f"{name} must be one of {', '.join(possible)}.")
        dialect = replace(dialect, **{name: possible[value]})
    return dialect
