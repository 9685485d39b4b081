"""The check of a menu document: all rules, and the scripts of the menu."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ussd_server.menus.checks.counted_nodes import CountedNodes
from ussd_server.menus.checks.paths import find_long_paths, find_loops, find_unguarded_payments, find_unreachable
from ussd_server.menus.checks.references import (
    find_bad_addresses,
    find_key_clashes,
    find_leaking_secrets,
    find_missing_texts,
    find_pin_questions,
    find_unknown_targets,
    find_unknown_variables,
)
from ussd_server.menus.checks.width_proof import prove
from ussd_server.menus.document.bounds import MAX_WORK, WorkBudget, WorkExceededError, find_excess
from ussd_server.menus.document.document import Document, read
from ussd_server.menus.document.findings import Finding, Report, error
from ussd_server.menus.tools.scripts import run_scripts

SESSION_LIFE_SECONDS = 600
_ADVICE = "use fewer nodes, languages, options, items of lists, or steps of scripts, or shorter texts"


def check(
    raw: Any,
    *,
    allowed_hosts: Collection[str] | None = None,
    allow_plain_http: bool = False,
    session_life_seconds: int = SESSION_LIFE_SECONDS,
    also: Callable[[Document], Iterable[Finding]] | None = None,
    work: WorkBudget | None = None,
) -> Report:
    """Check a document, given as a plain dict, by every rule. Never raises, whatever the document contains.

    `allowed_hosts` are the hosts that `http` and `handover` nodes may call; None allows every host, to check a file
    without a server. `also` adds the findings of the caller. A document above a maximum is not checked further. The
    scripts run only when there is no error.
    """
    excess = list(find_excess(raw))
    if excess:
        return Report.of(excess)
    work = work or WorkBudget()

    def findings(document: Document) -> Iterator[Finding]:
        yield from (error(problem.rule, problem.message, problem.node) for problem in problems)
        yield from also(document) if also is not None else ()
        yield from find_unknown_targets(document)
        yield from find_key_clashes(document)
        yield from find_missing_texts(document)
        yield from find_unknown_variables(document)
        yield from find_leaking_secrets(document)
        yield from find_bad_addresses(document, allowed_hosts, allow_plain_http)
        yield from prove(document, work)
        yield from find_pin_questions(document)
        if not document.unread and document.start in document.nodes:
            yield from _path_findings(document, session_life_seconds, work)

    try:
        document, problems = read(raw, work)
        document = replace(document, nodes=CountedNodes(document.nodes, work))
        report = Report.of(findings(document))
        return Report.of([*report.findings, *run_scripts(document)]) if report.passes else report
    except WorkExceededError:
        return Report.of([error("bounds", f"the check takes more than {MAX_WORK:,} units of work; {_ADVICE}")])


def _path_findings(document: Document, session_life_seconds: int, work: WorkBudget) -> Iterator[Finding]:
    yield from find_unguarded_payments(document)
    yield from find_loops(document)
    yield from find_unreachable(document)
    yield from find_long_paths(document, session_life_seconds, work)
