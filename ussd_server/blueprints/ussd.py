"""Endpoints for USSD sessions of client programs."""

from __future__ import annotations

from schemas.ussd import (
    BeginSessionBody,
    EnterTextBody,
    ListSessionsQuery,
    SessionPageRecord,
    SessionRecord,
    SessionTranscriptRecord,
)
from ussd_server.api.endpoints import ApiBlueprint, EndpointReply, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.sessions.messages import (
    BeginSession,
    EnterText,
    ListSessions,
    NameSession,
    SessionPage,
    SessionView,
)
from ussd_server.status import Code

ussd = ApiBlueprint("ussd", authenticate_api_key)


@ussd.call(
    "POST", "/api/ussd/sessions", needs="ussd:write",
    takes=BeginSessionBody, makes=BeginSession, gives=SessionRecord(), status=201, message="Session started",
)  # fmt: skip
def begin_session(request: BeginSession, context: RequestContext) -> EndpointReply:
    """Dial a service code; returns the first screen."""
    session = services().api_sessions.begin(request, context)
    return EndpointReply(session, headers={"Location": f"/api/ussd/sessions/{session.session_id}"})


@ussd.call(
    "POST", "/api/ussd/sessions/<session_id>/input", needs="ussd:write",
    takes=EnterTextBody, makes=EnterText, gives=SessionRecord(),
    refuses=(Code.SESSION_NOT_FOUND, Code.INVALID_TURN), message="Next screen",
)  # fmt: skip
def enter_text(request: EnterText, context: RequestContext) -> SessionView:
    """Answer a screen; the number of the last answered turn repeats its answer."""
    return services().api_sessions.enter(request, context)


@ussd.call(
    "GET", "/api/ussd/sessions/<session_id>", needs="ussd:read",
    makes=NameSession, gives=SessionTranscriptRecord(), refuses=(Code.SESSION_NOT_FOUND,), message="Session",
)  # fmt: skip
def get_session(request: NameSession, context: RequestContext) -> SessionView:
    """Return a session with its transcript."""
    return services().api_sessions.get(request, context)


@ussd.call(
    "GET", "/api/ussd/sessions", needs="ussd:read",
    query=ListSessionsQuery, makes=ListSessions, gives=SessionPageRecord(), message="Sessions",
)  # fmt: skip
def list_sessions(request: ListSessions, context: RequestContext) -> SessionPage:
    """Return the client's sessions, newest first."""
    return services().api_sessions.list(request, context)


@ussd.call(
    "DELETE", "/api/ussd/sessions/<session_id>", needs="ussd:write",
    makes=NameSession, gives=SessionRecord(), refuses=(Code.SESSION_NOT_FOUND,), message="Session ended",
)  # fmt: skip
def end_session(request: NameSession, context: RequestContext) -> SessionView:
    """End an active session."""
    return services().api_sessions.end(request, context)
