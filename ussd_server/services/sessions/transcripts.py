"""Views of a session: the record for its client, the event of its end, and a turn's screen."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ussd_server.gateways.messages import Action, GatewayScreen
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.menus import published_document
from ussd_server.services.sessions.messages import SessionStatus, SessionView, TurnView
from ussd_server.services.webhooks.events import write_event
from ussd_server.values import iso_milliseconds


def view_of(row: UssdSession, *, with_transcript: bool = False) -> SessionView:
    """Return a session as its client sees it."""
    return SessionView(
        session_id=row.id,
        phone_number=row.phone_number,
        service_code=row.service_code,
        network=row.network or None,
        status=SessionStatus(row.status),
        end_reason=row.end_reason,
        action=Action(row.action),
        message=row.message,
        menu_id=published_document(row.menu_id, row.menu_version).id,
        menu_version=row.menu_version,
        node=row.node,
        language=row.language,
        turn=row.turn,
        transaction_id=row.transaction_id,
        created_at=row.created_at,
        last_seen_at=row.last_seen_at,
        expires_at=row.expires_at,
        ended_at=row.ended_at,
        transcript=tuple(_turn_view(number, turn) for number, turn in enumerate(row.turns)) if with_transcript else (),
    )


def screen_of(turn: Mapping[str, Any]) -> GatewayScreen:
    """Return the screen of a turn."""
    return GatewayScreen(Action(turn["action"]), turn["screen"])


def write_end_event(row: UssdSession, now: datetime) -> None:
    """Write the event of a session's end, in the unit of work that ends it."""
    write_event(*end_event(row), now)


def end_event(row: UssdSession) -> tuple[str, str, str, dict[str, Any]]:
    """Return the event of a session's end: client id, event type, session id and the session's fields."""
    view = view_of(row)
    fields = {name: getattr(view, name) for name in SessionView.__slots__ if name != "transcript"}
    written = {
        name: iso_milliseconds(value) if isinstance(value, datetime) else value for name, value in fields.items()
    }
    return row.client_id, "ussd.session.ended", row.id, written


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
