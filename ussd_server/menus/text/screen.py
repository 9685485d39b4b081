"""Screens: the budget of one screen, and how a text or a list of options is divided into pages that fit."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ussd_server.menus.text.gsm7 import Size, measure

# 160 octets on the wire hold 182 septets or 80 UCS-2 characters (3GPP TS 24.080, maxUSSD-StringLength).
MAX_SEPTETS, MAX_UCS2 = 182, 80
# With less, the built-in sentences and a full footer would not fit.
MIN_SEPTETS, MIN_UCS2 = 80, 40

_SPACES = re.compile(r"\s+")


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
        return max(0, size.units - (self.septets if size.encoding == "gsm7" else self.characters))

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


@dataclass(frozen=True, slots=True)
class Screen:
    """The text that a phone shows after a step. `page` counts from 0; `ends` closes the session."""

    text: str
    node: str
    language: str
    page: int = 0
    ends: bool = False

    @property
    def size(self) -> Size:
        """The length of the screen on the wire."""
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


def option_pages(body: str, options: Sequence[str], footer: Footer, budget: Budget) -> list[str]:
    """Divide options among pages. An option is never split; the body stands on the first page only.

    A page is over budget only when the body alone, or one option alone, does not fit with its footer.
    """
    pages: list[str] = []
    head, rest = [body], list(options)
    while True:
        prev = bool(pages)
        whole = joined([*head, *rest, *footer.lines(more=False, prev=prev)])
        if budget.fits(whole) or not rest or (prev and len(rest) == 1):
            return [*pages, whole]
        more = footer.lines(more=True, prev=prev)
        taken = 1 if prev else 0
        while taken < len(rest) - 1 and budget.fits(joined([*head, *rest[: taken + 1], *more])):
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
