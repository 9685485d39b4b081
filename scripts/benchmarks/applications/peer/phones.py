"""USSD sessions: the session and every step are rows, committed before the screen is sent."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from flask import Response, abort, g, request

from benchmarks.applications.peer.app import app, limiter
from benchmarks.applications.peer.common import BACK, IDLE, digest, enter, goals_of, screen
from benchmarks.applications.peer.models import (
    Channel,
    Client,
    Event,
    Menu,
    UssdSession,
    UssdStep,
    database,
    now,
)


@app.post("/ussd/africastalking/<secret>")
def take_step(secret: str) -> Response:
    """Take one step; 404 for an unknown path."""
    channel = Channel.select(Channel, Client).join(Client).where(Channel.secret_digest == digest(secret)).first()
    if channel is None or not channel.is_active or not channel.client.is_active:
        abort(404)
    g.identity = channel.id
    return _answered(channel)


@limiter.limit("12000 per minute")
def _answered(channel: Channel) -> Response:
    with database.atomic():
        session = (
            UssdSession.select()
            .where(UssdSession.channel == channel, UssdSession.provider_session_id == request.form["sessionId"])
            .for_update()
            .first()
        )
        entries = [entry for entry in request.form.get("text", "").split("*") if entry]
        if session is None:
            session = _begin(channel)
        elif len(entries) > session.turn and session.status == "active" and session.expires_at > now():
            _go_on(session, entries[-1])
    word = "END" if session.status == "completed" else "CON"
    return Response(f"{word} {session.message}", content_type="text/plain; charset=utf-8")


def _begin(channel: Channel) -> UssdSession:
    menu_id, document = _menu(request.form["serviceCode"])
    node = document["start"]
    session = UssdSession.create(
        client=channel.client,
        channel=channel,
        menu=menu_id,
        provider_session_id=request.form["sessionId"],
        phone_number=request.form["phoneNumber"],
        network=request.form["networkCode"],
        node=node,
        message=screen(document["nodes"][node]),
        expires_at=now() + IDLE,
    )
    UssdStep.create(session=session, turn=0, entry="", node=node, screen=session.message)
    return session


def _go_on(session: UssdSession, entry: str) -> None:
    _, document = _menu(request.form["serviceCode"])
    nodes = document["nodes"]
    goals = goals_of(nodes[session.node])
    if entry == BACK:
        before = UssdStep.get(UssdStep.session == session, UssdStep.turn == max(session.turn - 1, 0))
        goals[BACK] = before.node
    if enter(session, goals.get(entry, session.node), nodes, now()):
        Event.create(
            client=session.client_id,
            type="ussd.session.ended",
            object_id=session.id,
            payload={"session_id": str(session.id), "status": session.status, "turns": session.turn},
        )
    session.save()
    UssdStep.create(session=session, turn=session.turn, entry=entry, node=session.node, screen=session.message)


@lru_cache
def _menu(code: str) -> tuple[Any, dict[str, Any]]:
    """A menu's id and its document, read once."""
    menu = Menu.get(Menu.code == code)
    return menu.id, menu.document
