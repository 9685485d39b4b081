"""Walks: a menu tried out by its author, without money, network or state on the server."""

from __future__ import annotations

from ussd_server.context import RequestContext
from ussd_server.menus.engine.engine import dialled_entries
from ussd_server.menus.engine.navigator import SessionFacts
from ussd_server.menus.source.yaml_text import write_yaml
from ussd_server.menus.tools.scripts import MAX_SCRIPTS, left_to_fill_in
from ussd_server.menus.tools.walk import Act, Walk, WalkedScreen, script_of, walk
from ussd_server.services.menus.documents import usable_document
from ussd_server.services.menus.menus import MenuService
from ussd_server.services.menus.messages import (
    MakeScript,
    SaveDraft,
    ScriptView,
    WalkMenu,
    WalkScreen,
    WalkView,
)
from ussd_server.status import Code, ServiceError


class WalkService:
    """Walks drafts and published versions. Each request repeats the whole walk, so nothing is stored."""

    def __init__(self, menus: MenuService) -> None:
        self._menus = menus

    def walk(self, request: WalkMenu, context: RequestContext) -> WalkView:
        """Return every screen of a walk; at most 99 acts are done.

        Raises NOT_FOUND for a menu or version that the client does not have, and MENU_INVALID with the first error for
        a draft that cannot be walked. A draft whose screens are too long can.
        """
        walked = self._walk(request, context)
        return WalkView(
            menu_id=request.menu_id,
            version=request.version,
            is_over=walked.simulator.is_over,
            screens=tuple(screen_view(each, request.network) for each in walked.screens),
            payments=tuple(walked.simulator.payments.values()),
        )

    def make_script(self, request: MakeScript, context: RequestContext) -> ScriptView:
        """Return the script that repeats a walk; with `save`, also add it to the menu's draft.

        Raises the errors of `walk`, and INVALID_REQUEST when the draft has 50 scripts already.
        """
        script = script_of(self._walk(request.walk, context), request.name)
        if request.save:
            draft = self._menus.get(request.walk.menu_id, context).draft
            scripts = draft.get("scripts") or []
            if not isinstance(scripts, list) or len(scripts) >= MAX_SCRIPTS:
                raise ServiceError(Code.INVALID_REQUEST, f"A menu may have at most {MAX_SCRIPTS} scripts")
            document = {**draft, "scripts": [*scripts, script]}
            self._menus.save_draft(SaveDraft(request.walk.menu_id, document), context)
        return ScriptView(script, write_yaml({"scripts": [script]}), left_to_fill_in(script))

    def _walk(self, request: WalkMenu, context: RequestContext) -> Walk:
        document = usable_document(self._menus.document(request.menu_id, request.version, context))
        facts = SessionFacts(request.phone_number, request.service_code, request.network, "walk")
        acts = [Act(each.kind.value, each.text) for each in request.acts]
        return walk(document, facts, acts, request.language, dialled_entries(request.entries))


def screen_view(seen: WalkedScreen, network: str) -> WalkScreen:
    """Return a screen as messages carry it."""
    screen = seen.screen
    return WalkScreen(
        entry=seen.act.text,
        text=screen.text,
        ends=screen.ends,
        node=screen.node,
        node_type=seen.node_type,
        language=screen.language,
        network=network,
        used=seen.size.units,
        limit=seen.limit,
        unit=seen.size.unit,
        variables=seen.variables,
        keys=seen.keys,
        is_secret=bool(seen.secret),
    )
