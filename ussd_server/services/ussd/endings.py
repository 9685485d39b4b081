"""Ends of sessions: by a client, a subscriber, a redial, time, or with their API key; what clients see of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.gateways.messages import Action
from ussd_server.models.sending import Delivery, Event, PendingEvent
from ussd_server.models.ussd import ShownOutcome, UssdSession
from ussd_server.services.menus.documents import document_of
from ussd_server.services.runtime import Runtime
from ussd_server.services.ussd.messages import (
    DROPPED_OFF,
    EndReason,
    SessionStatus,
    SessionTranscript,
    SessionView,
    TurnView,
)
from ussd_server.services.webhooks.events import write_event
from ussd_server.wire import view_of_row, writer

_MOST_POSTPONED = 500
_WRITE = writer(SessionView)
IS_ACTIVE = UssdSession.status == SessionStatus.ACTIVE


class SessionEndings:
    """Ends sessions that no last screen has ended."""

    def __init__(self, runtime: Runtime) -> None:
        self._drop_offs = runtime.drop_offs
        self._clock = runtime.clock
        self._life = timedelta(seconds=runtime.settings.session_life_seconds)

    def end(self, row: UssdSession, status: SessionStatus, reason: EndReason) -> bool:
        """End an active session and write the event for its client. Returns False when it had ended before.

        An action in progress goes on, and the session stays claimed until it is done.
        """
        return self._end(row, status, reason, UssdSession.id == row.id)

    def end_for_redial(self, row: UssdSession) -> bool:
        """End a session because its phone dials again. False when a step was faster or is in progress."""
        if row.is_over(self._clock.now()):
            return self._expire(row)
        return self._end(row, SessionStatus.ENDED_BY_USER, EndReason.REDIALLED, is_as_read(row, self._clock.now()))

    def end_expired(self, limit: int) -> int:
        """End up to `limit` expired sessions; returns how many ended."""
        now = self._clock.now()
        is_due = IS_ACTIVE & (UssdSession.due_at <= now)
        continued = UssdSession.select(UssdSession.id).where(is_due, UssdSession.expires_at > now)
        postponed = continued.order_by(UssdSession.due_at).limit(_MOST_POSTPONED)
        # A few at a time, because steps wait for rows that are being written.
        while UssdSession.update(due_at=UssdSession.expires_at).where(UssdSession.id.in_(postponed)).execute():
            continue
        is_expired = is_due & (UssdSession.expires_at <= now)
        rows = UssdSession.select().where(is_expired).order_by(UssdSession.due_at).limit(limit)
        return sum(self._expire(row) for row in list(rows))

    def _expire(self, row: UssdSession) -> bool:
        """End an expired session. False when a step was faster or is in progress."""
        lived_long = row.expires_at >= row.created_at + self._life
        reason = EndReason.TOO_LONG if lived_long else EndReason.IDLE
        return self._end(row, SessionStatus.TIMED_OUT, reason, is_as_read(row, self._clock.now()))

    def _end(self, row: UssdSession, status: SessionStatus, reason: EndReason, where: Any) -> bool:
        """End an active session for which `where` holds, and write the event for its client."""
        ending = _ending(status, reason, self._clock.now())
        with unit_of_work():
            if not UssdSession.update(ending).where(IS_ACTIVE, where).execute():
                return False
            _end_row(row, ending)
        if status in DROPPED_OFF:
            self._drop_offs.count(row)
        return True


def is_as_read(row: UssdSession, now: datetime) -> Any:
    """Return the condition that no step has changed the session since `row` was read, and none is in progress."""
    is_free = UssdSession.working_until.is_null() | (UssdSession.working_until <= now)
    return (UssdSession.id == row.id) & (UssdSession.turn == row.turn) & is_free


def invalidate_sessions(key_id: str, now: datetime) -> None:
    """End the active sessions of an API key, in the unit of work that deletes the key."""
    ending = _ending(SessionStatus.INVALIDATED, EndReason.KEY_DELETED, now)
    for row in for_update(UssdSession.select().where(UssdSession.key_id == key_id, IS_ACTIVE)):
        UssdSession.update(ending).where(UssdSession.id == row.id).execute()
        _end_row(row, ending)


def remove_sessions(ids: Sequence[str]) -> int:
    """Remove sessions with their events and the deliveries of these; return their number."""
    if not ids:
        return 0
    with unit_of_work():
        remove_events(ids)
        ShownOutcome.delete().where(ShownOutcome.session_id.in_(ids)).execute()
        removed: int = UssdSession.delete().where(UssdSession.id.in_(ids)).execute()
    return removed


def remove_events(object_ids: Sequence[str]) -> None:
    """Remove the events of objects, with their deliveries."""
    events = Event.select(Event.id).where(Event.object_id.in_(object_ids))
    Delivery.delete().where(Delivery.event_id.in_(events)).execute()
    PendingEvent.delete().where(PendingEvent.event_id.in_(events)).execute()
    Event.delete().where(Event.object_id.in_(object_ids)).execute()


def _ending(status: SessionStatus, reason: EndReason, now: datetime) -> dict[str, Any]:
    """The columns of a session that something other than a step has ended."""
    return {"status": status, "end_reason": reason, "ended_at": now, "action": Action.END}


def _end_row(row: UssdSession, ending: dict[str, Any]) -> None:
    """Set the same columns on a row that was read, and write the event for its client."""
    for name, value in ending.items():
        setattr(row, name, value)
    write_event(*end_event(row), row.ended_at, row.traceparent)


def view_of(row: UssdSession) -> SessionView:
    return view_of_row(SessionView, row, **_beside_columns(row))


def view_with_transcript(row: UssdSession) -> SessionTranscript:
    turns = tuple(_turn_view(number, turn) for number, turn in enumerate(row.turns))
    return view_of_row(SessionTranscript, row, **_beside_columns(row), transcript=turns)


def _beside_columns(row: UssdSession) -> dict[str, Any]:
    menu_id = document_of(row).id
    return {"session_id": row.id, "network": row.network or None, "menu_id": menu_id}


def end_event(row: UssdSession) -> tuple[str, str, str, dict[str, Any]]:
    """Return the event of a session's end: client id, event type, session id and the session's fields."""
    return row.client_id, "ussd.session.ended", row.id, _WRITE(view_of(row))


def _turn_view(number: int, turn: Mapping[str, Any]) -> TurnView:
    return TurnView(
        turn=number,
        entry=turn["entry"],
        screen=turn["screen"],
        node=turn["node"],
        septets=turn["septets"],
        took_ms=turn["took_ms"],
        at=datetime.fromisoformat(turn["at"]),
    )
