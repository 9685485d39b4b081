"""USSD sessions for client programs: begun, answered, looked at and ended over the API."""

from __future__ import annotations

from ussd_server.messages.ussd import (
    BeginSession,
    EndReason,
    EnterText,
    ListSessions,
    NameSession,
    SessionPage,
    SessionStatus,
    SessionView,
)
from ussd_server.models.base import is_id
from ussd_server.models.ussd import UssdSession
from ussd_server.rpc.clock import Clock
from ussd_server.rpc.context import CallContext
from ussd_server.rpc.status import Code, ServiceError
from ussd_server.rpc.tokens import Tokens
from ussd_server.services.conversations import Conversations, Dialled
from ussd_server.services.pages import of_period, page_of
from ussd_server.services.sessions import Arrived, Patience, Sessions
from ussd_server.services.transcripts import view_of


class UssdService:
    """Lets a client program be the phone: what a session shows, the program shows to its own user."""

    def __init__(self, sessions: Sessions, conversations: Conversations, tokens: Tokens, clock: Clock) -> None:
        self._sessions = sessions
        self._conversations = conversations
        self._tokens = tokens
        self._clock = clock

    def begin(self, wish: BeginSession, call: CallContext) -> SessionView:
        """Dial a code; gives the session with its first screen.

        INVALID_REQUEST when the code is not one of the client's, or no menu of the client answers it yet.
        """
        call.require("ussd:write")
        opening = self._conversations.find_opening(wish.service_code, call.client_id, wish.phone_number)
        if opening is None:
            raise ServiceError(Code.INVALID_REQUEST, "service_code: Not one of this client's codes with a menu.")
        dialled = Dialled(
            phone_number=wish.phone_number,
            service_code=wish.service_code,
            network=wish.network,
            entries=tuple(wish.text.split("*")) if wish.text.strip("*") else (),
            key_id=call.caller.key_id,
        )
        row = self._conversations.open(dialled, opening, self._sessions.arrived(wish.text), call.request_id)
        if row is None:
            # Its key was deleted while the first screen was being made.
            raise _not_found()
        return view_of(row)

    def enter(self, wish: EnterText, call: CallContext) -> SessionView:
        """Answer the screen of a session; gives the next one.

        The number of the last answered turn repeats that answer, without a second effect; so does the same text while
        its step is still being worked on. SESSION_NOT_FOUND for a session that is missing, over or another client's,
        INVALID_TURN for a number that is neither the last nor the next, SERVICE_UNAVAILABLE when another step of the
        session takes too long.
        """
        call.require("ussd:write")
        arrived = self._sessions.arrived(wish.text)
        patience = Patience()
        row = self._find(wish.session_id, call)
        if row.channel_id is not None:
            # The phone itself answers it; a second hand would only confuse its conversation.
            raise _not_found()
        known_turn = row.turn
        while True:
            if not self._sessions.is_worked_on(row):
                if self._is_repeat(row, known_turn, wish):
                    return view_of(row)
                answered = self._go_on(row, wish, arrived, call)
                if answered is not None:
                    return view_of(answered)
            if not patience.pause():
                raise ServiceError(Code.SERVICE_UNAVAILABLE, "The session is busy", retry_after_seconds=1)
            row = self._find(wish.session_id, call)

    def get(self, wish: NameSession, call: CallContext) -> SessionView:
        """A session with its transcript, also one that is over. SESSION_NOT_FOUND for a missing or another client's."""
        call.require("ussd:read")
        return view_of(self._find(wish.session_id, call), with_transcript=True)

    def list(self, wish: ListSessions, call: CallContext) -> SessionPage:
        """A page of the client's sessions, newest first."""
        call.require("ussd:read")
        rows = UssdSession.select().where(UssdSession.client_id == call.client_id)
        for column, value in (
            (UssdSession.status, wish.status),
            (UssdSession.phone_number, wish.phone_number),
            (UssdSession.service_code, wish.service_code),
        ):
            if value is not None:
                rows = rows.where(column == value)
        rows = of_period(rows, UssdSession, wish.from_at, wish.to_at)
        found, next_cursor = page_of(rows, UssdSession, wish.cursor, wish.limit, self._tokens)
        return SessionPage(tuple(map(view_of, found)), next_cursor)

    def end(self, wish: NameSession, call: CallContext) -> SessionView:
        """End a session that is under way. SESSION_NOT_FOUND for any other."""
        call.require("ussd:write")
        row = self._find(wish.session_id, call)
        if self._sessions.is_over(row) or not self._sessions.end(row, SessionStatus.ENDED_BY_CLIENT, EndReason.DELETED):
            raise _not_found()
        return view_of(row)

    def end_expired(self, limit: int = 100) -> int:
        """End up to `limit` sessions whose time is up; give how many ended. For the worker."""
        return self._sessions.end_expired(limit)

    def _is_repeat(self, row: UssdSession, known_turn: int, wish: EnterText) -> bool:
        """Whether an entry was answered before. Refuses what the session cannot take."""
        over = self._sessions.is_over(row)
        if wish.turn == row.turn and (not over or row.status == SessionStatus.COMPLETED):
            return True
        moved_on = wish.turn is None and row.turn != known_turn
        if moved_on and self._sessions.answered(row)[-1].equals(wish.text, self._sessions.digest(row)):
            return True
        if over:
            raise _not_found()
        if wish.turn not in (None, row.turn + 1):
            raise ServiceError(
                Code.INVALID_TURN, f"turn: The last answered turn is {row.turn}; the next is {row.turn + 1}."
            )
        return False

    def _go_on(self, row: UssdSession, wish: EnterText, arrived: Arrived, call: CallContext) -> UssdSession | None:
        errand = self._conversations.errand(row, call.request_id)
        return self._conversations.go_on(row, wish.text, arrived, errand)

    def _find(self, session_id: str, call: CallContext) -> UssdSession:
        row = is_id(session_id) and UssdSession.get_or_none(
            UssdSession.id == session_id, UssdSession.client_id == call.client_id
        )
        if not row:
            raise _not_found()
        return row


def _not_found() -> ServiceError:
    return ServiceError(Code.SESSION_NOT_FOUND, "Session not found")
