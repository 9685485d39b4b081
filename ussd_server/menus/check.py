"""What must be true before a menu may be published."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ussd_server.menus.document import Document, read
from ussd_server.menus.findings import Finding, Report, error
from ussd_server.menus.paths import find_long_ways, find_loops, find_unguarded_payments, find_unreachable
from ussd_server.menus.proof import prove
from ussd_server.menus.references import (
    find_bad_addresses,
    find_key_clashes,
    find_leaking_secrets,
    find_missing_texts,
    find_pin_questions,
    find_unknown_targets,
    find_unknown_variables,
)  # fmt: skip
from ussd_server.menus.scripts import run_scripts

SESSION_LIFE_SECONDS = 600


def check(
    raw: Any,
    *,
    allowed_hosts: Collection[str] | None = None,
    allow_plain_http: bool = False,
    session_life_seconds: int = SESSION_LIFE_SECONDS,
) -> Report:
    """Check a document, given as a plain dict, by every rule; never raises for what stands in it.

    `allowed_hosts` are the hosts that `http` and `handover` nodes may name; None allows every host, for checking a
    file without a server. The scripts run only when nothing else is wrong.
    """
    document, problems = read(raw)
    findings = [error(problem.rule, problem.message, problem.node) for problem in problems]
    findings += find_unknown_targets(document)
    findings += find_key_clashes(document)
    findings += find_missing_texts(document)
    findings += find_unknown_variables(document)
    findings += find_leaking_secrets(document)
    findings += find_bad_addresses(document, allowed_hosts, allow_plain_http)
    findings += prove(document)
    findings += find_pin_questions(document)
    if not document.unread and document.start in document.nodes:
        findings += _ways(document, session_life_seconds)
    if not any(each.severity == "error" for each in findings):
        findings += run_scripts(document)
    return Report.of(findings)


def _ways(document: Document, session_life_seconds: int) -> Iterator[Finding]:
    yield from find_unguarded_payments(document)
    yield from find_loops(document)
    yield from find_unreachable(document)
    yield from find_long_ways(document, session_life_seconds)
