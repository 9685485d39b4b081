"""The findings of a menu check, and the known names that misspelt ones are nearest to."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated

from ussd_server.wire import Internal

MAX_FINDINGS = 100
MOST_SUGGESTIONS = 12
_SIMILARITY = 0.6
_BEST = 3
_LONGEST_TEXT = 500  # characters of a message or screen: a document may refer to one long name often


@dataclass(frozen=True, slots=True)
class Finding:
    """An `error`, which blocks publishing, or a `warning`.

    `language` to `screen` are set for a screen that does not fit. `path` leads to the field in the document. The line
    and the column are known for a document that was read from a text.
    """

    severity: Internal[str]
    rule: Annotated[str, "The rule that reported the finding."]
    message: Annotated[str, "A sentence for people."]
    node: Annotated[str | None, "The node of the menu document."] = None
    language: Annotated[str | None, "The language of the screen, such as `en` or `lg`."] = None
    network: Annotated[str | None, "The mobile network code, such as `64110` for MTN."] = None
    excess: Annotated[int | None, "How much too long the screen is."] = None
    unit: Annotated[str | None, "What `excess` counts: septets or characters."] = None
    screen: Annotated[str | None, "The screen as the phone shows it."] = None
    line: Annotated[int | None, "The line in the body, counted from 1; null where it is not known."] = None
    column: Annotated[int | None, "The column in that line, counted from 1; null where it is not known."] = None
    suggestion: Annotated[str | None, "The right name that a misspelt one is nearest to."] = None
    path: Internal[tuple[str, ...]] = field(default=(), compare=False)
    is_at_name: Internal[bool] = field(default=False, compare=False)

    def at(self, line: int, column: int) -> Finding:
        """Return the finding with its position, which its message names."""
        message = f"{shorten(self.message)} (line {line}, column {column})"
        return replace(self, line=line, column=column, message=message)


def shorten(text: str) -> str:
    """Cut a text to the 500 characters that a report shows."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."


def did_you_mean(suggestion: str | None) -> str:
    """Return the end of a message about a misspelt name; empty without a suggestion."""
    return "" if suggestion is None else f"; did you mean `{suggestion}`?"


def error(
    rule: str, message: str, node: str | None = None, path: tuple[str, ...] = (), suggestion: str | None = None
) -> Finding:
    """Return a finding that blocks publishing. `path` begins in the node, if there is one."""
    whole = path if node is None else (*node_path(node), *path)
    short_name = None if node is None else shorten(node)
    return Finding("error", rule, shorten(message), short_name, suggestion=suggestion, path=whole)


def node_path(node: str) -> tuple[str, ...]:
    """Return the path of a node; a last screen inside another node is named `node.outcome`."""
    outer, _, outcome = node.partition(".")
    return ("nodes", outer, outcome) if outcome else ("nodes", outer)


def warning(rule: str, message: str, node: str | None = None) -> Finding:
    """Return a finding that does not block publishing."""
    return Finding("warning", rule, message, node, path=() if node is None else node_path(node))


@dataclass(frozen=True, slots=True)
class Report:
    """The findings about one document, at most `MAX_FINDINGS`."""

    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Report:
        """Return a report without repetitions, in the order of the findings.

        Stops reading `findings` after 100 errors. When findings are left out, the errors come first.
        """
        unique: dict[Finding, None] = {}
        errors = 0
        for finding in findings:
            errors += finding.severity == "error" and finding not in unique
            unique[finding] = None
            if errors > MAX_FINDINGS:
                break
        ordered = sorted(unique, key=lambda finding: finding.severity)  # a stable sort: errors first
        if len(ordered) <= MAX_FINDINGS:
            return cls(tuple(unique))
        cut = warning("left_out", f"a report has at most {MAX_FINDINGS} findings; the others are left out")
        return cls((*ordered[: MAX_FINDINGS - 1], cut))

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that block publishing."""
        return tuple(each for each in self.findings if each.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that do not block publishing."""
        return tuple(each for each in self.findings if each.severity == "warning")

    @property
    def passes(self) -> bool:
        """Whether the document may be published."""
        return not self.errors


class Spelling:
    """Suggests names, for at most 12 misspelt names of a document: each is compared with many others."""

    def __init__(self, spend: Callable[[int], object] = lambda _: None) -> None:
        """`spend` counts the work of the comparisons."""
        self._spend = spend
        self._suggestions: dict[tuple[str, int], str | None] = {}

    def nearest(self, word: str, names: Iterable[str]) -> str | None:
        """Return the name nearest to `word`, or None when no name is similar."""
        candidates = tuple(dict.fromkeys(names))
        key = (word, hash(candidates))
        if key not in self._suggestions:
            if len(self._suggestions) >= MOST_SUGGESTIONS or len(word) > 64:
                return None
            alike = [name for name in candidates if abs(len(name) - len(word)) <= 1 + len(word) // 2]
            self._spend(len(candidates) // 4 + 4 * len(alike))
            self._suggestions[key] = next(iter(_close(word, alike)), None)
        return self._suggestions[key]


def _close(word: str, names: list[str]) -> list[str]:
    folded = {name.casefold(): name for name in names}
    written = word.casefold()
    matches = difflib.get_close_matches(written, folded, n=_BEST, cutoff=_SIMILARITY)
    # Of two equally similar names, prefer the one with the same beginning: `end` for `ent`, not `set`.
    matches.sort(key=lambda name: (_likeness(written, name), name[0] == written[0]), reverse=True)
    return [folded[each] for each in matches]


def _likeness(word: str, name: str) -> float:
    return difflib.SequenceMatcher(None, name, word).ratio()
