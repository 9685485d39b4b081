"""Endpoints for menus, their versions and service codes."""

from __future__ import annotations

from flask import Response

from schemas.fields import Body
from schemas.menus import BindCodeBody, CheckMenuBody, GetGraphQuery, ReplayBody, RollBackBody, SaveDraftBody
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.menus import messages
from ussd_server.status import Code
from ussd_server.wire import Items

menus = ApiBlueprint(
    "menus",
    authenticate_api_key,
    "USSD menus",
    "Drafts, checks, published versions and service codes.",
)


@menus.call("GET", "/api/ussd/menus", needs="menus:read", message="Menus")
def list_menus(context: RequestContext) -> Items[messages.MenuSummary]:
    """Return the client's menus, by name."""
    return Items(services().menus.list(context))


@menus.call("PUT", "/api/ussd/menus/<menu_id>", needs="menus:write", takes=SaveDraftBody, message="Draft saved")
def save_draft(request: messages.SaveDraft, context: RequestContext) -> messages.CheckReport:
    """Save the draft of a menu; returns the report of its check."""
    return services().menus.save_draft(request, context)


@menus.call("GET", "/api/ussd/menus/<menu_id>", needs="menus:read", message="Menu")
def get_menu(menu_id: str, context: RequestContext) -> messages.MenuView:
    """Return a menu with its draft and its published document."""
    return services().menus.get(menu_id, context)


@menus.call("POST", "/api/ussd/menus/<menu_id>/check", needs="menus:read", takes=CheckMenuBody, message="Menu checked")
def check_menu(request: messages.CheckMenu, context: RequestContext) -> messages.CheckReport:
    """Check a menu's draft, or the document in the body, which is not saved."""
    return services().menus.check(request, context)


@menus.call(
    "POST",
    "/api/ussd/menus/<menu_id>/publish",
    needs="menus:write",
    takes=Body,
    refuses=(Code.MENU_INVALID,),
    message="Menu published",
)
def publish_menu(menu_id: str, context: RequestContext) -> messages.VersionView:
    """Publish the draft as a new version."""
    return services().menus.publish(menu_id, context)


@menus.call("GET", "/api/ussd/menus/<menu_id>/versions", needs="menus:read", message="Menu versions")
def list_versions(menu_id: str, context: RequestContext) -> Items[messages.VersionView]:
    """Return every published version of a menu, newest first."""
    return Items(services().menus.versions(menu_id, context))


@menus.call(
    "POST", "/api/ussd/menus/<menu_id>/rollback", needs="menus:write", takes=RollBackBody, message="Menu rolled back"
)
def roll_back_menu(request: messages.RollBack, context: RequestContext) -> messages.VersionView:
    """Publish an earlier version again."""
    return services().menus.roll_back(request, context)


def _send_diagram(request: messages.GetGraph, context: RequestContext) -> Response:
    graph = services().menus.graph(request, context)
    return Response(graph.svg.encode(), content_type="image/svg+xml")


@menus.call(
    "GET",
    "/api/ussd/menus/<menu_id>/graph",
    needs="menus:read",
    query=GetGraphQuery,
    message="Menu graph",
    also={"image/svg+xml": _send_diagram},
)
def get_graph(request: messages.GetGraph, context: RequestContext) -> messages.GraphView:
    """Return the nodes and edges of a menu, and its diagram; only the diagram with `Accept: image/svg+xml`."""
    return services().menus.graph(request, context)


@menus.call(
    "POST",
    "/api/ussd/menus/<menu_id>/replay",
    needs="menus:read",
    takes=ReplayBody,
    refuses=(Code.MENU_INVALID,),
    message="Menu replayed",
)
def replay_menu(request: messages.ReplayMenu, context: RequestContext) -> Items[messages.ReplayItem]:
    """Replay past conversations through the draft, without paying or calling anything. Needs `ussd:read` as well."""
    return Items(services().replays.replay(request, context))


@menus.call("GET", "/api/ussd/codes", needs="menus:read", message="Service codes")
def list_codes(context: RequestContext) -> Items[messages.CodeView]:
    """Return the client's service codes and their menus."""
    return Items(services().menus.codes(context))


@menus.call(
    "PUT", "/api/ussd/codes/<service_code>", needs="menus:write", takes=BindCodeBody, message="Service code bound"
)
def bind_code(request: messages.BindCode, context: RequestContext) -> messages.CodeView:
    """Bind a code to a menu. The path may leave out the closing hash of the code."""
    return services().menus.bind_code(request, context)
