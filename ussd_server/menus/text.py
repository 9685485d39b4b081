"""Texts on phones: the GSM 7-bit alphabet (3GPP TS 23.038), screens, their pages, and the parts of a message (SMS)."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ussd_server.values import unchanging

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
# 160 octets on the wire hold 182 septets or 80 UCS-2 characters (3GPP TS 24.080, maxUSSD-StringLength).
MAX_SEPTETS, MAX_UCS2 = 182, 80
# With less, the built-in sentences and a full footer would not fit.
MIN_SEPTETS, MIN_UCS2 = 80, 40

_SPACES = re.compile(r"\s+")


@unchanging
class Size:
    """The length of a text: septets, or 16-bit characters when one character is outside the alphabet."""

    encoding: str  # "gsm7" or "ucs2"
    units: int

    @property
    def unit(self) -> str:
        """The name of what `units` counts."""
        return "septets" if self.encoding == "gsm7" else "characters"


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


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum length of a screen: in septets, or in characters when it is sent as UCS-2."""

    septets: int = 160
    ucs2: int = 70

    def excess(self, text: str) -> int:
        """Return by how many units `text` is too long; 0 when it fits."""
        return self.excess_of(measure(text))

    def excess_of(self, size: Size) -> int:
        """Return by how many units a text of this size is too long; 0 when it fits."""
        return max(0, size.units - self.limit_of(size))

    def limit_of(self, size: Size) -> int:
        """Return the maximum of a text, in the unit of this size."""
        return self.septets if size.encoding == "gsm7" else self.characters

    @property
    def characters(self) -> int:
        """The maximum of UCS-2 characters: never more than half the septets.

        A screen that fits therefore still fits when a part is left out, even when only that part made the screen UCS-2
        and every other character takes two septets.
        """
        return min(self.ucs2, self.septets // 2)

    def fits(self, text: str) -> bool:
        """Return whether `text` may be sent as one screen."""
        # No text takes fewer units than it has characters, so a long one need not be measured.
        return len(text) <= self.septets and self.excess(text) == 0

    def narrowed(self, other: Budget | None) -> Budget:
        """Return the smaller of both budgets in each unit."""
        if other is None:
            return self
        return Budget(min(self.septets, other.septets), min(self.ucs2, other.ucs2))

    def cut(self, text: str) -> str:
        """Return the longest beginning of `text` that fits."""
        while not self.fits(text):
            text = text[: -max(1, self.excess(text) // 2)]
        return text


@unchanging
class Screen:
    """The text that a phone shows after a step. `page` counts from 0; `ends` closes the session."""

    text: str
    node: str
    language: str
    page: int = 0
    ends: bool = False

    @property
    def size(self) -> Size:
        return measure(self.text)


@dataclass(frozen=True, slots=True)
class Footer:
    """The navigation lines of a node; `back` is None when there is no previous screen."""

    more: str
    prev: str
    back: str | None

    def lines(self, *, more: bool, prev: bool) -> list[str]:
        """Return the lines of a page, in their fixed order."""
        lines = [self.more if more else None, self.prev if prev else None, self.back]
        return [line for line in lines if line is not None]


def single(body: str, lines: Sequence[str], footer: Footer) -> str:
    """Return the text of a screen that is never paged."""
    return joined([body, *lines, *footer.lines(more=False, prev=False)])


def option_pages(
    body: str, options: Sequence[str], footer: Footer, budget: Budget, most: int | None = None
) -> list[str]:
    """Divide options among pages, at most `most` on each. An option is never split; the body is on the first page only.

    A page is over budget only when the body alone, or one option alone, does not fit with its footer.
    """
    pages: list[str] = []
    head, rest = [body], list(options)
    while True:
        prev = bool(pages)
        whole = joined([*head, *rest, *footer.lines(more=False, prev=prev)])
        fits = len(rest) <= (most or len(rest)) and budget.fits(whole)
        if fits or not rest or (prev and len(rest) == 1):
            return [*pages, whole]
        more = footer.lines(more=True, prev=prev)
        taken = 1 if prev else 0
        while taken < min(len(rest) - 1, most or len(rest)) and budget.fits(joined([*head, *rest[: taken + 1], *more])):
            taken += 1
        pages.append(joined([*head, *rest[:taken], *more]))
        head, rest = [], rest[taken:]


def word_pages(text: str, closing: str, footer: Footer, budget: Budget) -> list[str]:
    """Divide a long text into pages at word boundaries; the last page carries the line `closing`."""
    pages: list[str] = []
    rest = text.strip()
    while True:
        prev = bool(pages)
        last = joined([rest, closing, *footer.lines(more=False, prev=prev)])
        if budget.fits(last) or len(rest) <= 1:
            return [*pages, last]
        more = footer.lines(more=True, prev=prev)
        cut = _cut(rest, more, budget)
        pages.append(joined([rest[:cut].rstrip(), *more]))
        rest = rest[cut:].lstrip()


def _cut(text: str, more: list[str], budget: Budget) -> int:
    """Find the last word boundary before which `text` fits, or cut inside a word that fills a whole page."""

    def is_too_long(size: int) -> bool:
        return not budget.fits(joined([text[:size], *more]))

    # A beginning of a text that fits also fits, so the longest one that fits is found by bisection.
    fitting = bisect_left(range(min(len(text), budget.septets + 1)), True, lo=1, key=is_too_long) - 1
    boundary = max((each.start() for each in _SPACES.finditer(text, 0, fitting + 1)), default=None)
    end = _SPACES.match(text, boundary) if boundary is not None else None
    return end.end() if end is not None else max(fitting, 1)


def joined(lines: Iterable[str]) -> str:
    """Join the lines of a screen; an empty line is left out."""
    return "\n".join(line for line in lines if line)


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
