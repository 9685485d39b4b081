"""Compares the name that a client wrote with the name that is registered for a phone number."""

from __future__ import annotations

import unicodedata

from ussd_server.services.payouts.messages import NameMatch

# How many letters of a word may differ, by its least length.
_ONE_MISTAKE, _TWO_MISTAKES = 4, 7
# More words are not compared, because every pairing of the words is tried.
_MOST_WORDS = 6
_TITLES = frozenset({"mr", "mrs", "ms", "miss", "dr", "eng", "hon", "prof", "rev", "sr", "fr"})


def compare_names(written: str, registered: str | None) -> NameMatch:
    """SAME for the same words in any order, SIMILAR where the shorter name fits into the longer one, else DIFFERENT.

    Capitals, accents, punctuation and titles do not count. A word fits another one that it equals, that it abbreviates
    by its first letter, or that differs by one letter (by two from seven letters on). At least one whole word must fit.
    UNKNOWN without a registered name, or where one of the two has no letters.
    """
    ours, theirs = _words(written), _words(registered or "")
    if not ours or not theirs:
        return NameMatch.UNKNOWN
    if sorted(ours) == sorted(theirs) or "".join(ours) == "".join(theirs):
        return NameMatch.SAME
    shorter, longer = sorted((ours, theirs), key=len)
    return NameMatch.SIMILAR if _fits(shorter, longer, has_whole_word=False) else NameMatch.DIFFERENT


def _words(name: str) -> list[str]:
    # Apostrophes join: O'Brien is one word.
    decomposed = unicodedata.normalize("NFKD", name.casefold()).replace("'", "").replace("\u2019", "")
    letters = (letter for letter in decomposed if not unicodedata.combining(letter))
    words = "".join(letter if letter.isalpha() else " " for letter in letters).split()
    return ([word for word in words if word not in _TITLES] or words)[:_MOST_WORDS]


def _fits(shorter: list[str], longer: list[str], *, has_whole_word: bool) -> bool:
    """Whether each word of `shorter` fits another word of `longer`."""
    if not shorter:
        return has_whole_word
    first, *others = shorter
    return any(
        _fits(others, longer[:index] + longer[index + 1 :], has_whole_word=has_whole_word or min(map(len, pair)) > 1)
        for index, word in enumerate(longer)
        if _is_like(*(pair := (first, word)))
    )


def _is_like(one: str, other: str) -> bool:
    if min(len(one), len(other)) == 1:
        return one[0] == other[0]
    length = min(len(one), len(other))
    return _distance(one, other) <= (length >= _ONE_MISTAKE) + (length >= _TWO_MISTAKES)


def _distance(one: str, other: str) -> int:
    """How many letters must be added, removed or replaced to make one word of the other."""
    before = list(range(len(other) + 1))
    for index, letter in enumerate(one, 1):
        row = [index]
        for other_index, other_letter in enumerate(other, 1):
            row.append(min(row[-1] + 1, before[other_index] + 1, before[other_index - 1] + (letter != other_letter)))
        before = row
    return before[-1]
