"""The GSM 7-bit alphabet (3GPP TS 23.038), and in how many parts a message (SMS) is sent."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

# 3GPP TS 23.038, default alphabet and its extension table.
BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡"
    "ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
EXTENSION = frozenset("^{}\\[~]|€\f")

_TRANSLITERATED = str.maketrans(
    {
        "ŋ": "ng'",
        "Ŋ": "Ng'",
        "’": "'",
        "‘": "'",
        "‚": "'",
        "‛": "'",
        "´": "'",
        "`": "'",
        "ʼ": "'",
        "“": '"',
        "”": '"',
        "„": '"',
        "«": '"',
        "»": '"',
        "–": "-",
        "—": "-",
        "―": "-",
        "−": "-",
        "‑": "-",
        "•": "-",
        "…": "...",
        "\u00a0": " ",
        "×": "x",
    }
)
_BREAKS = str.maketrans(dict.fromkeys("\n\r\t\v\f\u0085\u2028\u2029", " "))
# An extension character takes two septets; the width proof counts one septet for each character of a value.
_PLAIN = str.maketrans({"[": "(", "]": ")", "{": "(", "}": ")", "\\": "/", "|": "/", "~": "-", "^": "'", "€": "E"})
# 140 octets hold 160 septets or 70 UCS-2 characters; a part of several has a header of 6 octets (3GPP TS 23.040).
_ALONE = {"gsm7": 160, "ucs2": 70}
_OF_SEVERAL = {"gsm7": 153, "ucs2": 67}


@dataclass(frozen=True, slots=True)
class Size:
    """The length of a text: septets, or 16-bit characters when one character is outside the alphabet."""

    encoding: str  # "gsm7" or "ucs2"
    units: int


def measure(text: str) -> Size:
    """Return the encoding that a gateway has to use for `text`, and its length in that encoding."""
    if BASIC.issuperset(text):
        return Size("gsm7", len(text))
    septets = 0
    for character in text:
        if character in BASIC:
            septets += 1
        elif character in EXTENSION:
            septets += 2
        else:
            return Size("ucs2", len(text.encode("utf-16-be", "surrogatepass")) // 2)
    return Size("gsm7", septets)


def transliterate(text: str) -> str:
    """Replace typographic marks and the Luganda letter eng by characters that every phone has."""
    return text.translate(_TRANSLITERATED)


def drop_controls(text: str) -> str:
    """Replace line breaks and tabs by spaces, and remove every other control or formatting character."""
    spaced = text.translate(_BREAKS)
    return "".join(character for character in spaced if unicodedata.category(character)[0] != "C")


def plain(text: str) -> str:
    """Convert a value so that each of its characters takes exactly one septet.

    Accents that the alphabet lacks are removed; a character that still cannot be written becomes `?`.
    """
    written = transliterate(drop_controls(text)).translate(_PLAIN)
    if BASIC.issuperset(written):
        return written
    return "".join(character if character in BASIC else _base_letter(character) for character in written)


def _base_letter(character: str) -> str:
    base = unicodedata.normalize("NFKD", character)[0]
    return base if base in BASIC and base not in "\n\r" else "?"


def sms_parts(text: str) -> int:
    """Return the number of parts in which `text` is sent; each is paid for like a message.

    A character that takes two units is never divided between parts.
    """
    size = measure(text)
    if size.units <= _ALONE[size.encoding]:
        return 1
    parts, filled = 1, 0
    for character in text:
        is_double = character not in BASIC if size.encoding == "gsm7" else ord(character) > 0xFFFF
        units = 2 if is_double else 1
        if filled + units > _OF_SEVERAL[size.encoding]:
            parts, filled = parts + 1, 0
        filled += units
    return parts
