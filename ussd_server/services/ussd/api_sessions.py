"""USSD sessions over the API: begin, answer, read, list and end them."""

from __future__ import annotations

from datetime import timedelta

from ussd_server.context import RequestContext
from ussd_server.menus.engine.engine import dialled_entries
from ussd_server.models.ussd import UssdSession
from ussd_server.services.pages import count_rows, matching, page_of
from ussd_server.services.runtime import Runtime
from ussd_server.services.ussd.conversations import Conversations, DialRequest
from ussd_server.services.ussd.endings import IS_ACTIVE, view_of, view_with_transcript
from ussd_server.services.ussd.lookup import find_target
from ussd_server.services.ussd.messages import (
    BeginSession,
    EndReason,
    EnterText,
    ListSessions,
    SessionStatus,
    SessionTranscript,
    SessionView,
)
from ussd_server.services.ussd.sessions import Sessions
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, new_id_floor
from ussd_server.wire import Page


class UssdService:
    """Runs the sessions of client programs, which show the screens to their own users."""

    def __init__(self, runtime: Runtime, sessions: Sessions, conversations: Conversations) -> None:
        self._sessions = sessions
        self._conversations = conversations
        self._tokens, self._replica = runtime.tokens, runtime.replica
        self._clock = runtime.clock
        self._life = timedelta(seconds=runtime.settings.session_life_seconds)

    def begin(self, request: BeginSession, context: RequestContext) -> SessionView:
        """Dial a code; returns the session with its first screen.

        The menu acts within the rights of the calling key, at this step and at each later one.
        Raises INVALID_REQUEST when the code is not the client's or has no menu yet.
        """
        context.require("ussd:write")
        step_input = self._sessions.received(request.text)
        now = step_input.received_at
        target = find_target(request.service_code, context.client_id, request.phone_number, now, is_phone=False)
        if target is None:
            raise ServiceError(Code.INVALID_REQUEST, "service_code: Not one of this client's codes with a menu.")
        dial = DialRequest(
            phone_number=request.phone_number,
            service_code=request.service_code,
            network=request.network,
            target=target,
            input=step_input,
            context=context,
            entries=dialled_entries(request.text),
        )
        row = self._conversations.begin(dial)
        if row is None:
            # The API key was deleted while the first screen was being made.
            raise _not_found()
        return view_of(row)

    def enter(self, request: EnterText, context: RequestContext) -> SessionView:
        """Answer the screen of a session; returns the session with the next screen.

        The number of the last answered turn repeats its answer without a second effect; so does the same text while its
        step is in progress. Raises SESSION_NOT_FOUND for a session that is missing, over or another client's,
        INVALID_TURN for a number that is neither the last nor the next, and SERVICE_UNAVAILABLE when another step of
        the session takes too long.
        """
        context.require("ussd:write")
        step_input = self._sessions.received(request.text)
        known_turn = None
        for _ in self._sessions.attempts(lambda: context.client_id):
            row = self._find(request.session_id, context)
            if row.channel_id is not None:
                # The phone itself answers this session.
                raise _not_found()
            known_turn = row.turn if known_turn is None else known_turn
            if self._sessions.is_claimed(row):
                continue
            if self._is_repeat(row, known_turn, request):
                return view_of(row)
            answered = self._conversations.enter(row, request.text, step_input, context)
            if answered is not None:
                return view_of(answered)
        raise ServiceError(Code.SERVICE_UNAVAILABLE, "The session is busy", retry_after_seconds=1)

    def get(self, session_id: str, context: RequestContext) -> SessionTranscript:
        """Return a session with its transcript. Raises SESSION_NOT_FOUND for a missing or another client's session."""
        context.require("ussd:read")
        return view_with_transcript(self._find(session_id, context))

    def list(self, request: ListSessions, context: RequestContext) -> Page[SessionView]:
        """Return a page of the client's sessions, newest first."""
        context.require("ussd:read")
        rows = UssdSession.select().where(UssdSession.client_id == context.client_id)
        rows = matching(rows, request, UssdSession.status, UssdSession.phone_number, UssdSession.service_code)
        return page_of(rows, UssdSession, request, self._tokens, lambda sessions: map(view_of, sessions), self._replica)

    def count_open(self, context: RequestContext) -> int:
        """How many sessions of the client are open, 10,000 at most."""
        context.require("ussd:read")
        now = self._clock.now()
        is_recent = (UssdSession.client_id == context.client_id) & (UssdSession.id >= new_id_floor(now - self._life))
        return count_rows(UssdSession.select(UssdSession.id).where(is_recent, IS_ACTIVE, UssdSession.expires_at > now))

    def end(self, session_id: str, context: RequestContext) -> SessionView:
        """End an active session. Raises SESSION_NOT_FOUND for any other."""
        context.require("ussd:write")
        row = self._find(session_id, context)
        endings = self._sessions.endings
        if self._sessions.is_over(row) or not endings.end(row, SessionStatus.ENDED_BY_CLIENT, EndReason.DELETED):
            raise _not_found()
        return view_of(row)

    def end_expired(self, limit: int = 100) -> int:
        """End up to `limit` expired sessions; returns how many ended. For the worker."""
        return self._sessions.endings.end_expired(limit)

    def _is_repeat(self, row: UssdSession, known_turn: int, request: EnterText) -> bool:
        """Whether an entry was answered before. Raises the errors of `enter` for an entry that does not fit."""
        over = self._sessions.is_over(row)
        if request.turn == row.turn and (not over or row.status == SessionStatus.COMPLETED):
            return True
        has_changed = request.turn is None and row.turn != known_turn
        if has_changed and self._sessions.answered(row).is_text(-1, request.text):
            return True
        if over:
            raise _not_found()
        if request.turn not in (None, row.turn + 1):
            raise ServiceError(
                Code.INVALID_TURN, f"turn: The last answered turn is {row.turn}; the next is {row.turn + 1}."
            )
        return False

    def _find(self, session_id: str, context: RequestContext) -> UssdSession:
        row = is_id(session_id) and UssdSession.get_or_none(
            UssdSession.id == session_id, UssdSession.client_id == context.client_id
        )
        if not row:
            raise _not_found()
        return row


def _not_found() -> ServiceError:
    return ServiceError(Code.SESSION_NOT_FOUND, "Session not found")
