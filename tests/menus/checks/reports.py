"""What the tests of the check share: the errors of a menu, its one finding, and nodes that many of them need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ussd_server.menus.checks.check import check
from ussd_server.menus.document.findings import Finding

Menu = dict[str, Any]
Make = Callable[..., Menu]


def errors(raw: Any, **arguments: Any) -> list[tuple[str, str | None]]:
    """Return the rule and node of every error."""
    return [(finding.rule, finding.node) for finding in check(raw, **arguments).errors]


def only(raw: Any, **arguments: Any) -> Finding:
    """Return the one finding there is, in the first language that has it."""
    finding, *others = check(raw, **arguments).findings
    assert {(other.rule, other.node) for other in others} <= {(finding.rule, finding.node)}
    return finding


SECRET = {"type": "input", "text": {"en": "Code"}, "var": "code", "secret": True, "goto": "bye"}
HTTP = {"type": "http", "url": "https://a.example/x", "goto": "bye", "on_error": "bye"}
