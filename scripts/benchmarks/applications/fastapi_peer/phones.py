"""USSD sessions: the session and every step are rows, committed before the screen is sent."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Form, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from benchmarks.applications.both_peers import BACK, IDLE, digest, enter, goals_of, screen
from benchmarks.applications.fastapi_peer.app import Database, app, limiter
from benchmarks.applications.fastapi_peer.models import Channel, Event, Menu, UssdSession, UssdStep, now

_menus: dict[str, Menu] = {}


async def _channel(request: Request, secret: str, database: Database) -> Channel:
    channel = await database.scalar(select(Channel).where(Channel.secret_digest == digest(secret)))
    if channel is None or not channel.is_active or not channel.client.is_active:
        raise HTTPException(404)
    request.state.identity = channel.id
    return channel


@app.post("/ussd/africastalking/{secret}", response_class=PlainTextResponse)
@limiter.limit("12000/minute")
async def take_step(
    request: Request,
    response: Response,
    channel: Annotated[Channel, Depends(_channel)],
    database: Database,
    session_id: Annotated[str, Form(alias="sessionId")],
    phone_number: Annotated[str, Form(alias="phoneNumber")],
    network: Annotated[str, Form(alias="networkCode")],
    code: Annotated[str, Form(alias="serviceCode")],
    text: Annotated[str, Form()] = "",
) -> str:
    """Take one step; 404 for an unknown path."""
    menu = await _menu(database, code)
    wanted = (UssdSession.channel_id == channel.id, UssdSession.provider_session_id == session_id)
    session = await database.scalar(select(UssdSession).where(*wanted).with_for_update())
    entries = [entry for entry in text.split("*") if entry]
    if session is None:
        start = menu.document["start"]
        session = UssdSession(
            client_id=channel.client_id,
            channel_id=channel.id,
            menu_id=menu.id,
            provider_session_id=session_id,
            phone_number=phone_number,
            network=network,
            node=start,
            message=screen(menu.document["nodes"][start]),
            expires_at=now() + IDLE,
        )
        database.add(session)
        await database.flush()
        database.add(UssdStep(session_id=session.id, turn=0, entry="", node=start, screen=session.message))
    elif len(entries) > session.turn and session.status == "active" and session.expires_at > now():
        await _go_on(database, session, menu.document["nodes"], entries[-1])
    await database.commit()
    word = "END" if session.status == "completed" else "CON"
    return f"{word} {session.message}"


async def _go_on(database: AsyncSession, session: UssdSession, nodes: dict[str, Any], entry: str) -> None:
    goals = goals_of(nodes[session.node])
    if entry == BACK:
        of_turn = (UssdStep.session_id == session.id, UssdStep.turn == max(session.turn - 1, 0))
        goals[BACK] = await database.scalar(select(UssdStep.node).where(*of_turn))
    if enter(session, goals.get(entry, session.node), nodes, now()):
        payload = {"session_id": str(session.id), "status": session.status, "turns": session.turn}
        database.add(
            Event(client_id=session.client_id, type="ussd.session.ended", object_id=session.id, payload=payload)
        )
    database.add(
        UssdStep(session_id=session.id, turn=session.turn, entry=entry, node=session.node, screen=session.message)
    )


async def _menu(database: AsyncSession, code: str) -> Menu:
    """The menu of a code, read once."""
    if code not in _menus:
        menu = await database.scalar(select(Menu).where(Menu.code == code))
        assert menu is not None
        database.expunge(menu)
        _menus[code] = menu
    return _menus[code]
