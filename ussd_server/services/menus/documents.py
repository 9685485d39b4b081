"""The documents of menus: published versions, which never change, and drafts that can be walked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ussd_server.menus.checks.references import find_unknown_variables
from ussd_server.menus.document.bounds import find_excess
from ussd_server.menus.document.document import Document, parse, read
from ussd_server.menus.document.findings import Finding, Spelling
from ussd_server.models.ussd import MenuVersion
from ussd_server.status import Code, ServiceError


def find_version(menu_id: str, version: int) -> MenuVersion | None:
    """Return a version of the menu with this row id."""
    return MenuVersion.get_or_none(MenuVersion.menu_id == menu_id, MenuVersion.version == version)


@lru_cache(maxsize=512)
def published_document(menu_id: str, version: int) -> Document:
    """Return a published version, cached because versions never change. `menu_id` is the row's id."""
    row = find_version(menu_id, version)
    assert row is not None
    return parse(row.document)


def usable_document(raw: dict[str, Any]) -> Document:
    """Read a draft. Raises MENU_INVALID with the first error that keeps it from being walked."""
    finding = next(find_excess(raw), None)
    if finding is None:
        document, problems = read(raw)
        finding = next(_unbearable(document, problems), None)
        if finding is None:
            return document
    raise ServiceError(Code.MENU_INVALID, f"{finding.node or 'document'}: {finding.message}")


def _unbearable(document: Document, problems: tuple[Finding, ...]) -> Iterator[Finding]:
    yield from problems
    yield from find_unknown_variables(document, Spelling())
    if document.start not in document.nodes:
        yield Finding("error", "goto", f"`start` is `{document.start}`, and there is no such node")
