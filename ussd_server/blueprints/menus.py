"""Endpoints for menus, their versions and service codes."""

from __future__ import annotations

from schemas.envelopes import Body
from schemas.menus import (
    BindCodeBody,
    CheckMenuBody,
    CheckReportRecord,
    CodeListRecord,
    CodeRecord,
    GetGraphQuery,
    GraphRecord,
    MenuListRecord,
    MenuRecord,
    ReplayBody,
    ReplayRecord,
    RollBackBody,
    SaveDraftBody,
    VersionListRecord,
    VersionRecord,
)
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.api.requests import ApiResponse, services
from ussd_server.context import RequestContext
from ussd_server.services.menus.messages import (
    BindCode,
    CheckMenu,
    CheckReport,
    CodeView,
    GetGraph,
    GraphView,
    MenuSummary,
    MenuView,
    NameMenu,
    RollBack,
    SaveDraft,
    VersionView,
)
from ussd_server.services.menus.walk_messages import ReplayItem, ReplayMenu
from ussd_server.status import Code

menus = ApiBlueprint("menus", authenticate_api_key)


@menus.call("GET", "/api/ussd/menus", needs="menus:read", gives=MenuListRecord(), message="Menus")
def list_menus(context: RequestContext) -> dict[str, tuple[MenuSummary, ...]]:
    """Return the client's menus, by name."""
    return {"items": services().menus.list(context)}


@menus.call(
    "PUT", "/api/ussd/menus/<menu_id>", needs="menus:write",
    takes=SaveDraftBody, makes=SaveDraft, gives=CheckReportRecord(), message="Draft saved",
)  # fmt: skip
def save_draft(request: SaveDraft, context: RequestContext) -> CheckReport:
    """Save the draft of a menu; returns the report of its check."""
    return services().menus.save_draft(request, context)


@menus.call(
    "GET", "/api/ussd/menus/<menu_id>", needs="menus:read", makes=NameMenu, gives=MenuRecord(), message="Menu"
)  # fmt: skip
def get_menu(request: NameMenu, context: RequestContext) -> MenuView:
    """Return a menu with its draft and its published document."""
    return services().menus.get(request, context)


@menus.call(
    "POST", "/api/ussd/menus/<menu_id>/check", needs="menus:read",
    takes=CheckMenuBody, makes=CheckMenu, gives=CheckReportRecord(), message="Menu checked",
)  # fmt: skip
def check_menu(request: CheckMenu, context: RequestContext) -> CheckReport:
    """Check a menu's draft, or the document in the body, which is not saved."""
    return services().menus.check(request, context)


@menus.call(
    "POST", "/api/ussd/menus/<menu_id>/publish", needs="menus:write",
    takes=Body, makes=NameMenu, gives=VersionRecord(), refuses=(Code.MENU_INVALID,), message="Menu published",
)  # fmt: skip
def publish_menu(request: NameMenu, context: RequestContext) -> VersionView:
    """Publish the draft as a new version."""
    return services().menus.publish(request, context)


@menus.call(
    "GET", "/api/ussd/menus/<menu_id>/versions", needs="menus:read",
    makes=NameMenu, gives=VersionListRecord(), message="Menu versions",
)  # fmt: skip
def list_versions(request: NameMenu, context: RequestContext) -> dict[str, tuple[VersionView, ...]]:
    """Return every published version of a menu, newest first."""
    return {"items": services().menus.versions(request, context)}


@menus.call(
    "POST", "/api/ussd/menus/<menu_id>/rollback", needs="menus:write",
    takes=RollBackBody, makes=RollBack, gives=VersionRecord(), message="Menu rolled back",
)  # fmt: skip
def roll_back_menu(request: RollBack, context: RequestContext) -> VersionView:
    """Publish an earlier version again."""
    return services().menus.roll_back(request, context)


def _send_diagram(request: GetGraph, context: RequestContext) -> ApiResponse:
    graph = services().menus.graph(request, context)
    return ApiResponse(200, graph.svg.encode(), content_type="image/svg+xml")


@menus.call(
    "GET", "/api/ussd/menus/<menu_id>/graph", needs="menus:read",
    query=GetGraphQuery, makes=GetGraph, gives=GraphRecord(), message="Menu graph",
    also={"image/svg+xml": _send_diagram},
)  # fmt: skip
def get_graph(request: GetGraph, context: RequestContext) -> GraphView:
    """Return the nodes and edges of a menu, and its diagram; only the diagram with `Accept: image/svg+xml`."""
    return services().menus.graph(request, context)


@menus.call(
    "POST", "/api/ussd/menus/<menu_id>/replay", needs="menus:read",
    takes=ReplayBody, makes=ReplayMenu, gives=ReplayRecord(), refuses=(Code.MENU_INVALID,), message="Menu replayed",
)  # fmt: skip
def replay_menu(request: ReplayMenu, context: RequestContext) -> dict[str, tuple[ReplayItem, ...]]:
    """Replay past conversations through the draft, without paying or calling anything. Needs `ussd:read` as well."""
    return {"items": services().replays.replay(request, context)}


@menus.call("GET", "/api/ussd/codes", needs="menus:read", gives=CodeListRecord(), message="Service codes")
def list_codes(context: RequestContext) -> dict[str, tuple[CodeView, ...]]:
    """Return the client's service codes and their menus."""
    return {"items": services().menus.codes(context)}


@menus.call(
    "PUT", "/api/ussd/codes/<service_code>", needs="menus:write",
    takes=BindCodeBody, makes=BindCode, gives=CodeRecord(), message="Service code bound",
)  # fmt: skip
def bind_code(request: BindCode, context: RequestContext) -> CodeView:
    """Bind a code to a menu. The path may leave out the closing hash of the code."""
    return services().menus.bind_code(request, context)
