"""Views of a session: the record for its client, the event of its end, and a turn's screen."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ussd_server.gateways.messages import Action, GatewayScreen
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.documents import published_document
from ussd_server.services.sessions.messages import SessionTranscript, SessionView, TurnView
from ussd_server.services.webhooks.events import write_event
from ussd_server.wire import view_of_row, writer

_WRITE = writer(SessionView)


def view_of(row: UssdSession) -> SessionView:
    """Return a session as its client sees it."""
    return view_of_row(SessionView, row, **_beside_columns(row))


def view_with_transcript(row: UssdSession) -> SessionTranscript:
    """Return a session with its transcript."""
    turns = tuple(_turn_view(number, turn) for number, turn in enumerate(row.turns))
    return view_of_row(SessionTranscript, row, **_beside_columns(row), transcript=turns)


def _beside_columns(row: UssdSession) -> dict[str, Any]:
    menu_id = published_document(row.menu_id, row.menu_version).id
    return {"session_id": row.id, "network": row.network or None, "menu_id": menu_id}


def screen_of(turn: Mapping[str, Any]) -> GatewayScreen:
    """Return the screen of a turn."""
    return GatewayScreen(Action(turn["action"]), turn["screen"])


def write_end_event(row: UssdSession, now: datetime) -> None:
    """Write the event of a session's end, in the unit of work that ends it."""
    write_event(*end_event(row), now, row.traceparent)


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
