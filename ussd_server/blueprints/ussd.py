"""Endpoints for USSD sessions of client programs."""

from __future__ import annotations

from schemas.ussd import (
    BeginSessionBody,
    EnterTextBody,
    ListSessionsQuery,
)
from ussd_server.api.endpoints import ApiBlueprint, EndpointReply, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.sessions.messages import BeginSession, EnterText, ListSessions, SessionTranscript, SessionView
from ussd_server.status import Code
from ussd_server.wire import Page

ussd = ApiBlueprint("ussd", authenticate_api_key)


@ussd.call(
    "POST", "/api/ussd/sessions", needs="ussd:write", takes=BeginSessionBody, status=201, message="Session started"
)
def begin_session(request: BeginSession, context: RequestContext) -> EndpointReply[SessionView]:
    """Dial a service code; returns the first screen."""
    session = services().api_sessions.begin(request, context)
    return EndpointReply(session, headers={"Location": f"/api/ussd/sessions/{session.session_id}"})


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
