"""What a check says about a menu document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong (`error`, which blocks publishing) or doubtful (`warning`).

    For a screen over budget: `excess` in `unit` ("septets" or "characters"), and the worst `screen`.
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

    def to_dict(self) -> dict[str, Any]:
        """Give the finding as plain JSON values."""
        return asdict(self)


def error(rule: str, message: str, node: str | None = None) -> Finding:
    """Give a finding that blocks publishing."""
    return Finding("error", rule, message, node)


def warning(rule: str, message: str, node: str | None = None) -> Finding:
    """Give a finding that the author should look at."""
    return Finding("warning", rule, message, node)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings about one document."""

    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Report:
        """Give a report without repetitions, in the order of the findings."""
        return cls(tuple(dict.fromkeys(findings)))

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that block publishing."""
        return tuple(each for each in self.findings if each.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that do not."""
        return tuple(each for each in self.findings if each.severity == "warning")

    @property
    def passes(self) -> bool:
        """Whether the document may be published."""
        return not self.errors

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain JSON values."""
        return {
            "passes": self.passes,
            "errors": [each.to_dict() for each in self.errors],
            "warnings": [each.to_dict() for each in self.warnings],
        }
