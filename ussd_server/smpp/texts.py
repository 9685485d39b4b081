"""Texts in SMPP messages: GSM 7-bit, one septet an octet ("unpacked") or packed, UCS-2 and Latin-1."""

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
_PADDING = b"\r"
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


def unpack_gsm(octets: bytes, header_octets: int = 0) -> str:
    """Read packed GSM 7-bit behind a header, which ends at a septet. Drops what fills up the last octets."""
    # Seven octets hold eight septets.
    groups = (int.from_bytes(octets[at : at + 7], "little") for at in range(0, len(octets), 7))
    septets = bytes(group >> 7 * place & 0x7F for group in groups for place in range(8))[: len(octets) * 8 // 7]
    return decode_gsm(septets[-(-header_octets * 8 // 7) :].rstrip(_PADDING + b"\0"))


def pack_gsm(text: str) -> bytes | None:
    """Return a text in packed GSM 7-bit; None when the alphabet lacks one of its characters.

    Where a whole septet of the last octet is free, a carriage return fills it: zeros would be read as `@`.
    """
    unpacked = encode_gsm(text)
    if unpacked is None:
        return None
    filled = unpacked + _PADDING if len(unpacked) % 8 == 7 else unpacked
    bits = sum(septet << 7 * place for place, septet in enumerate(filled))
    return bits.to_bytes(-(-len(filled) * 7 // 8), "little")


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
