"""Drafts that can be walked: a draft may have errors, but none that stops the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ussd_server.menus.checks.references import find_unknown_variables
from ussd_server.menus.document.bounds import find_excess
from ussd_server.menus.document.document import Document, read
from ussd_server.menus.document.findings import Finding
from ussd_server.menus.document.spelling import Spelling
from ussd_server.status import Code, ServiceError


def usable_document(raw: dict[str, Any]) -> Document:
    """Read a draft. Raises MENU_INVALID with the first error that keeps it from being walked."""
    finding = next(find_excess(raw), None)
    if finding is None:
        document, problems = read(raw)
        finding = next(_unbearable(document, [problem.finding() for problem in problems]), None)
        if finding is None:
            return document
    raise ServiceError(Code.MENU_INVALID, f"{finding.node or 'document'}: {finding.message}")


def _unbearable(document: Document, problems: list[Finding]) -> Iterator[Finding]:
    yield from problems
    yield from find_unknown_variables(document, Spelling())
    if document.start not in document.nodes:
        yield Finding("error", "goto", f"`start` is `{document.start}`, and there is no such node")
