"""The GSM 7-bit alphabet: what a text costs on the wire, and how to bring strange characters into it."""

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
        "ŋ": "ng'", "Ŋ": "Ng'",
        "’": "'", "‘": "'", "‚": "'", "‛": "'", "´": "'", "`": "'", "ʼ": "'",
        "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
        "–": "-", "—": "-", "―": "-", "−": "-", "‑": "-", "•": "-",
        "…": "...", "\u00a0": " ", "×": "x",
    }
)  # fmt: skip
_BREAKS = str.maketrans(dict.fromkeys("\n\r\t\v\f\u0085\u2028\u2029", " "))
# In a value an extension character would cost two septets; the proof that a screen fits counts one for each.
_PLAIN = str.maketrans(
    {"[": "(", "]": ")", "{": "(", "}": ")", "\\": "/", "|": "/", "~": "-", "^": "'", "€": "E"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Size:
    """What a text costs: septets, or 16-bit characters when one character is outside the alphabet."""

    encoding: str  # "gsm7" or "ucs2"
    units: int


def measure(text: str) -> Size:
    """Return the encoding a phone company has to choose for `text`, and the units it takes there."""
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
    """Write typographic marks and the Luganda letter eng with characters that every phone has."""
    return text.translate(_TRANSLITERATED)


def drop_controls(text: str) -> str:
    """Turn line breaks and tabs into spaces and remove every other control or formatting character."""
    spaced = text.translate(_BREAKS)
    return "".join(character for character in spaced if unicodedata.category(character)[0] != "C")


def plain(text: str) -> str:
    """Write a value so that each of its characters costs exactly one septet.

    Accents that the alphabet lacks are taken off; what still cannot be written becomes `?`.
    """
    written = transliterate(drop_controls(text)).translate(_PLAIN)
    if BASIC.issuperset(written):
        return written
    return "".join(character if character in BASIC else _base_letter(character) for character in written)


def _base_letter(character: str) -> str:
    base = unicodedata.normalize("NFKD", character)[0]
    return base if base in BASIC and base not in "\n\r" else "?"
