"""Finds the known name that is nearest to a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ussd_server.menus.document.bounds import WorkBudget

MOST_SUGGESTIONS = 12
_SIMILARITY = 0.6
_BEST = 3


class Spelling:
    """Suggests names, for at most 12 misspelt names of a document: each is compared with many others."""

    def __init__(self, work: WorkBudget | None = None) -> None:
        """`work` counts the comparisons."""
        self._work = work or WorkBudget()
        self._known: dict[tuple[str, int], str | None] = {}

    def nearest(self, word: str, names: Iterable[str]) -> str | None:
        """Return the name nearest to `word`, or None when no name is similar."""
        candidates = tuple(dict.fromkeys(names))
        key = (word, hash(candidates))
        if key not in self._known:
            if len(self._known) >= MOST_SUGGESTIONS or len(word) > 64:
                return None
            alike = [name for name in candidates if abs(len(name) - len(word)) <= 1 + len(word) // 2]
            self._work.spend(len(candidates) // 4 + 4 * len(alike))
            self._known[key] = next(iter(_close(word, alike)), None)
        return self._known[key]


def _close(word: str, names: list[str]) -> list[str]:
    folded = {name.casefold(): name for name in names}
    written = word.casefold()
    found = difflib.get_close_matches(written, folded, n=_BEST, cutoff=_SIMILARITY)
    # Of two equally similar names, prefer the one with the same beginning: `end` for `ent`, not `set`.
    found.sort(key=lambda name: (_likeness(written, name), name[0] == written[0]), reverse=True)
    return [folded[each] for each in found]


def _likeness(word: str, name: str) -> float:
    return difflib.SequenceMatcher(None, name, word).ratio()
