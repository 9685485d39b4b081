"""Texts in SMPP messages: GSM 7-bit, one septet an octet ("unpacked"), UCS-2 and Latin-1."""

from __future__ import annotations

# 3GPP TS 23.038, in the order of its table. The escape (0x1B) stands as U+001B.
_BASIC = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_ESCAPE = 0x1B
_EXTENSION = {
    0x0A: "\f",
    0x14: "^",
    0x28: "{",
    0x29: "}",
    0x2F: "\\",
    0x3C: "[",
    0x3D: "~",
    0x3E: "]",
    0x40: "|",
    0x65: "€",
}
_OCTETS = {letter: bytes((place,)) for place, letter in enumerate(_BASIC) if place != _ESCAPE} | {
    letter: bytes((_ESCAPE, place)) for place, letter in _EXTENSION.items()
}
UNREADABLE = "\ufffd"


def decode_gsm(octets: bytes) -> str:
    """Read unpacked GSM 7-bit. `UNREADABLE` stands for an octet above 0x7F and for an unknown extension."""
    letters = list[str]()
    rest = iter(octets)
    for octet in rest:
        if octet == _ESCAPE:
            letters.append(_EXTENSION.get(next(rest, _ESCAPE), UNREADABLE))
        else:
            letters.append(_BASIC[octet] if octet < len(_BASIC) else UNREADABLE)
    return "".join(letters)


def encode_gsm(text: str) -> bytes | None:
    """Return a text in unpacked GSM 7-bit; None when the alphabet lacks one of its characters."""
    octets = [_OCTETS.get(letter) for letter in text]
    return None if None in octets else b"".join(filter(None, octets))


def encode_latin1(text: str) -> bytes | None:
    """Return a text in Latin-1; None when the alphabet lacks one of its characters."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return None


def decode_ucs2(octets: bytes) -> str:
    """Read UCS-2, highest octet first. `UNREADABLE` stands for half a character."""
    return octets.decode("utf-16-be", "replace")


def encode_ucs2(text: str) -> bytes:
    """Return a text in UCS-2, highest octet first."""
    return text.encode("utf-16-be", "replace")
