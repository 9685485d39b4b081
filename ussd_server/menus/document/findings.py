"""The findings of a menu check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

MAX_FINDINGS = 100
_LONGEST_TEXT = 500  # characters of a message or screen: a document may refer to one long name often


@dataclass(frozen=True, slots=True)
class Finding:
    """An `error`, which blocks publishing, or a `warning`.

    For a screen over budget: `excess` in `unit` ("septets" or "characters"), and the worst `screen`. `suggestion` is
    the name that a misspelt one is nearest to. `path` leads to the field in the document; its `line` and `column`
    count from 1 and are known for a document that was read from a text.
    """

    severity: str
    rule: str
    message: str
    node: str | None = None
    language: str | None = None
    network: str | None = None
    excess: int | None = None
    unit: str | None = None
    screen: str | None = None
    line: int | None = None
    column: int | None = None
    suggestion: str | None = None
    path: tuple[str, ...] = field(default=(), compare=False)
    is_at_name: bool = field(default=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain JSON values."""
        return {name: value for name, value in asdict(self).items() if name not in ("path", "is_at_name")}

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
    shown = None if node is None else shorten(node)
    return Finding("error", rule, shorten(message), shown, suggestion=suggestion, path=whole)


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

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "passes": self.passes,
            "errors": [each.to_dict() for each in self.errors],
            "warnings": [each.to_dict() for each in self.warnings],
        }
