"""Diagrams of drafts and versions, with marked nodes and a line of their own below each name."""

from __future__ import annotations

from ussd_server.context import RequestContext
from ussd_server.menus.document.document import read
from ussd_server.menus.tools.diagram import draw
from ussd_server.messages.menus import DrawMenu
from ussd_server.services.menus.menus import MenuService


class DiagramService:
    """Draws menus."""

    def __init__(self, menus: MenuService) -> None:
        self._menus = menus

    def draw(self, request: DrawMenu, context: RequestContext) -> str:
        """Return the SVG of a draft or a version. Raises NOT_FOUND for a menu or version the client does not have."""
        document, _ = read(self._menus.document(request.menu_id, request.version, context))
        return draw(document, request.notes, request.marks)
