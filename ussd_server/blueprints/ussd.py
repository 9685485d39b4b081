"""Endpoints for USSD sessions, and the paths to which gateways send steps."""

from __future__ import annotations

from flask import Response

from schemas.ussd import BeginSessionBody, EnterTextBody, ListSessionsQuery
from ussd_server.api.endpoints import (
    ApiBlueprint,
    CompleteResponse,
    EndpointReply,
    allow_anyone,
    authenticate_api_key,
    created,
    replies_in,
)
from ussd_server.api.requests import CurrentRequest, current_request, services
from ussd_server.api.trusted_proxies import UNREADABLE
from ussd_server.context import RequestContext
from ussd_server.gateways.messages import GatewayRequest
from ussd_server.services.ussd.messages import BeginSession, EnterText, ListSessions, SessionTranscript, SessionView
from ussd_server.status import Code
from ussd_server.wire import Page

ussd = ApiBlueprint(
    "ussd",
    authenticate_api_key,
    "USSD sessions",
    "Conversations with phones, for a client that talks to a gateway itself.",
)
gateways = ApiBlueprint("gateways", allow_anyone, "Gateways", "The paths to which USSD gateways send steps.")
TAKE_STEP = "gateways.take_step"
"""The endpoint that answers steps of gateways."""
_FORM = "application/x-www-form-urlencoded"


@ussd.call(
    "POST", "/api/ussd/sessions", needs="ussd:write", takes=BeginSessionBody, status=201, message="Session started"
)
def begin_session(request: BeginSession, context: RequestContext) -> EndpointReply[SessionView]:
    """Dial a service code; returns the first screen."""
    session = services().api_sessions.begin(request, context)
    return created(session, f"/api/ussd/sessions/{session.session_id}")


@ussd.call(
    "POST",
    "/api/ussd/sessions/<session_id>/input",
    needs="ussd:write",
    takes=EnterTextBody,
    refuses=(Code.SESSION_NOT_FOUND, Code.INVALID_TURN),
    message="Next screen",
)
def enter_text(request: EnterText, context: RequestContext) -> SessionView:
    """Answer a screen; the number of the last answered turn repeats its answer."""
    return services().api_sessions.enter(request, context)


@ussd.call(
    "GET", "/api/ussd/sessions/<session_id>", needs="ussd:read", refuses=(Code.SESSION_NOT_FOUND,), message="Session"
)
def get_session(session_id: str, context: RequestContext) -> SessionTranscript:
    """Return a session with its transcript."""
    return services().api_sessions.get(session_id, context)


@ussd.call("GET", "/api/ussd/sessions", needs="ussd:read", query=ListSessionsQuery, message="Sessions")
def list_sessions(request: ListSessions, context: RequestContext) -> Page[SessionView]:
    """Return the client's sessions, newest first."""
    return services().api_sessions.list(request, context)


@ussd.call(
    "DELETE",
    "/api/ussd/sessions/<session_id>",
    needs="ussd:write",
    refuses=(Code.SESSION_NOT_FOUND,),
    message="Session ended",
)
def end_session(session_id: str, context: RequestContext) -> SessionView:
    """End an active session."""
    return services().api_sessions.end(session_id, context)


@gateways.route("/ussd/<adapter>/<channel_secret>", methods=["GET", "POST"])
@replies_in("text/plain", "application/json", takes=_FORM)
def take_step(adapter: str, channel_secret: str) -> Response:
    """Answer a step: 404 for an unknown path, else 200 with a screen."""
    current = current_request()
    answering = current.services.gateways
    if UNREADABLE in current.request.environ:
        reply = answering.refuse(adapter, channel_secret)
    else:
        reply = answering.answer(adapter, channel_secret, _gateway_request(current), current.request_id)
    return CompleteResponse(reply.body, headers=reply.headers, content_type=reply.content_type)


@gateways.route("/ussd/<adapter>/<channel_secret>/events", methods=["POST"])
@replies_in("text/plain", takes=_FORM)
def take_report(adapter: str, channel_secret: str) -> Response:
    """Record a gateway's report on an ended session."""
    current = current_request()
    current.services.gateways.record_end(adapter, channel_secret, _gateway_request(current))
    return Response(b"", content_type="text/plain; charset=utf-8")


def _gateway_request(current: CurrentRequest) -> GatewayRequest:
    request = current.request
    return GatewayRequest(request.method, request.query_string, request.get_data(), current.address)
