"""The GSM 7-bit alphabet: the length of a text on the wire, and how other characters are written in it."""

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
