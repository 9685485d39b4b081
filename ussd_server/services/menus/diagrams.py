"""What a menu looks like: its diagram, its fullest screens, its text and what changed in it."""

from __future__ import annotations

import time
from difflib import unified_diff

from ussd_server.context import RequestContext
from ussd_server.menus.checks.width_proof import fullest_screens
from ussd_server.menus.document.bounds import WorkBudget, WorkExceededError
from ussd_server.menus.document.document import read
from ussd_server.menus.source.yaml_text import write_yaml
from ussd_server.menus.tools.diagram import draw
from ussd_server.services.menus.documents import usable_document
from ussd_server.services.menus.menus import MenuService
from ussd_server.services.menus.messages import CompareVersions, DrawMenu, FullestScreenView, NameVersion
from ussd_server.status import ServiceError


class DiagramService:
    """Shows drafts and versions. Every method raises NOT_FOUND for a menu or version the client does not have."""

    def __init__(self, menus: MenuService) -> None:
        self._menus = menus

    def draw(self, request: DrawMenu, context: RequestContext) -> str:
        """Return the SVG of a menu."""
        document, _ = read(self._menus.document(request.menu_id, request.version, context))
        return draw(document, request.notes, request.marks)

    def fullest_screens(self, request: NameVersion, context: RequestContext) -> tuple[FullestScreenView, ...]:
        """Return the fullest screen of each language on each network; none for a menu that cannot be walked."""
        raw = self._menus.document(request.menu_id, request.version, context)
        try:
            found = fullest_screens(usable_document(raw), WorkBudget(pause=lambda: time.sleep(0)))
        except (ServiceError, WorkExceededError):
            return ()
        return tuple(
            FullestScreenView(
                language=each.screen.language,
                network=each.network,
                node=each.screen.node,
                text=each.screen.text,
                used=each.size.units,
                limit=each.limit,
                unit="septets" if each.size.encoding == "gsm7" else "characters",
            )
            for each in found
        )

    def text(self, request: NameVersion, context: RequestContext) -> str:
        """Return a menu as YAML."""
        return write_yaml(self._menus.document(request.menu_id, request.version, context))

    def difference(self, request: CompareVersions, context: RequestContext) -> tuple[str, ...]:
        """Return the lines of a unified diff, without its two header lines; none for equal documents."""
        old, new = (
            self.text(NameVersion(request.menu_id, version), context).splitlines()
            for version in (request.old, request.new)
        )
        return tuple(unified_diff(old, new, lineterm=""))[2:]
