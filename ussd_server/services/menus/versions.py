"""Published versions of menus, which never change."""

from __future__ import annotations

from functools import lru_cache

from ussd_server.menus.document.document import Document, parse
from ussd_server.models.ussd import MenuVersion


def find_version(menu_id: str, version: int) -> MenuVersion | None:
    """Return a version of the menu with this row id."""
    return MenuVersion.get_or_none(MenuVersion.menu_id == menu_id, MenuVersion.version == version)


@lru_cache(maxsize=512)
def published_document(menu_id: str, version: int) -> Document:
    """Return a published version, cached because versions never change. `menu_id` is the row's id."""
    row = find_version(menu_id, version)
    assert row is not None
    return parse(row.document)
