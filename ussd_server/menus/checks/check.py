"""The check of a menu document: all rules, and the scripts of the menu."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ussd_server.menus.checks import references
from ussd_server.menus.checks.paths import (
    find_long_paths,
    find_loops,
    find_unguarded_payments,
    find_unreachable,
    find_vain_waits,
)
from ussd_server.menus.checks.secret_entries import find_leaking_secrets
from ussd_server.menus.checks.types import find_doubtful_values, find_wrong_types
from ussd_server.menus.checks.width_proof import find_long_messages, prove
from ussd_server.menus.document.bounds import MAX_WORK, WorkBudget, WorkExceededError, find_excess
from ussd_server.menus.document.document import Document, read
from ussd_server.menus.document.findings import Finding, Report, Spelling, error
from ussd_server.menus.document.nodes import Node
from ussd_server.menus.document.templates import LocalizedText
from ussd_server.menus.source.yaml_text import Places
from ussd_server.menus.tools.node_parts import parts
from ussd_server.menus.tools.scripts import run_scripts


class CountedNodes(Mapping[str, Node]):
    """Nodes by name. Reading one raises `WorkExceededError` when the work budget is used up."""

    def __init__(self, nodes: Mapping[str, Node], work: WorkBudget) -> None:
        self._nodes = nodes
        self._work = work
        self._units: dict[str, int] = {}

    def __getitem__(self, name: str) -> Node:
        node = self._nodes[name]
        if name not in self._units:
            self._units[name] = _units(node)
        self._work.spend(self._units[name])
        return node

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


def _units(node: Node) -> int:
    """Estimate the work that a node takes, from the number and length of its texts and expressions."""
    units = 5
    for _, part in parts(node):
        if isinstance(part, LocalizedText):
            longest = max((len(template.widest) for template in part.by_language.values()), default=0)
        else:
            longest = len(part.source)
        units += 1 + longest // 20
    return units


SESSION_LIFE_SECONDS = 600
_ADVICE = "use fewer nodes, languages, options, items of lists, or steps of scripts, or shorter texts"


def check(
    raw: Any,
    *,
    allow_plain_http: bool = False,
    session_life_seconds: int = SESSION_LIFE_SECONDS,
    also: Callable[[Document], Iterable[Finding]] | None = None,
    work: WorkBudget | None = None,
    places: Callable[[], Places] | None = None,
) -> Report:
    """Check a document, given as a plain dict, by every rule. Never raises, whatever the document contains.

    `also` adds the findings of the caller. A document above a maximum is not checked further. The scripts run only when
    there is no error. `places` gives the positions in the text of the document, if it has one.
    """
    report = _check(raw, allow_plain_http, session_life_seconds, also, work or WorkBudget())
    if places is None or not report.findings:
        return report
    positions = places()
    return Report(tuple(_placed(finding, positions) for finding in report.findings))


def _check(
    raw: Any,
    allow_plain_http: bool,
    session_life_seconds: int,
    also: Callable[[Document], Iterable[Finding]] | None,
    work: WorkBudget,
) -> Report:
    excess = list(find_excess(raw))
    if excess:
        return Report.of(excess)
    spelling = Spelling(work.spend)

    def findings(document: Document) -> Iterator[Finding]:
        yield from (*problems, *document.complaints)
        yield from also(document) if also is not None else ()
        lost = list(references.find_unknown_targets(document, spelling))
        yield from lost
        paths_known = not (lost or document.unread)
        yield from references.find_key_clashes(document)
        if document.default_language in document.languages:
            yield from references.find_missing_texts(document)
        yield from references.find_unknown_variables(document, spelling)
        yield from find_wrong_types(document, work)
        yield from find_doubtful_values(document)
        yield from find_leaking_secrets(document, paths_known=paths_known)
        yield from references.find_bad_addresses(document, allow_plain_http)
        if not any(problem.path[:1] == ("limits",) for problem in problems):
            yield from prove(document, work)
        yield from find_long_messages(document, work)
        yield from references.find_pin_questions(document)
        yield from references.find_pin_faults(document)
        if paths_known and document.start in document.nodes:
            yield from _path_findings(document, session_life_seconds, work)

    try:
        document, problems = read(raw, work)
        document = replace(document, nodes=CountedNodes(document.nodes, work))
        report = Report.of(findings(document))
        return Report.of([*report.findings, *run_scripts(document)]) if report.passes else report
    except WorkExceededError:
        return Report.of([error("bounds", f"the check takes more than {MAX_WORK:,} units of work; {_ADVICE}")])


def _placed(finding: Finding, places: Places) -> Finding:
    place = places.of_name(finding.path) if finding.is_at_name else places.of_value(finding.path)
    return finding if place is None else finding.at(*place)


def _path_findings(document: Document, session_life_seconds: int, work: WorkBudget) -> Iterator[Finding]:
    yield from find_unguarded_payments(document)
    yield from find_vain_waits(document)
    yield from find_loops(document)
    yield from find_unreachable(document)
    yield from find_long_paths(document, session_life_seconds, work)
