"""Steps of conversations: each is written where nobody was faster, together with others that come at the same time.

PostgreSQL has a function for it, which is one round trip and a transaction by itself; on SQLite it is a statement or
two for each step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import orjson
from peewee import fn

from ussd_server.database.columns import values_of
from ussd_server.database.compiled_queries import CompiledQuery, param
from ussd_server.database.unit_of_work import database, is_postgres, unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.events import Event, insert_event
from ussd_server.models.ussd import Channel, SubscriberLanguage, UssdSession


class WriteCondition(StrEnum):
    """What lets a step be written.

    That the session is new; that its turn is the one that was read; that it is the one that was remembered, while
    channel and client are still active; or the claim that was made before.
    """

    NEW = "new"
    READ = "read"
    REMEMBERED = "remembered"
    CLAIMED = "claimed"


@dataclass(slots=True)
class StepWrite:
    """What a step changes: the session as it shall be, the news that it is over, the language to be remembered.

    `turn_read` and `my_token` are the session's before the step; `event` is what `new_event` gave. `is_written` is
    told by `write_steps`.
    """

    row: UssdSession
    proof: WriteCondition
    turn_read: int = 0
    my_token: str | None = None
    event: Mapping[str, Any] | None = None
    language: str | None = None
    is_written: bool = False


def write_steps(steps: Sequence[StepWrite]) -> None:
    """Write those steps whose proof holds, in one transaction or in the unit of work that is open."""
    if is_postgres():
        document = orjson.dumps([_document(step) for step in steps]).decode()
        written = {place for (place,) in database.execute_sql("SELECT ussd_step(%s::jsonb)", (document,))}
        for place, step in enumerate(steps, start=1):
            step.is_written = place in written
        return
    is_alone = len(steps) == 1 and steps[0].event is None and steps[0].language is None
    with nullcontext() if is_alone else unit_of_work():
        for step in steps:
            step.is_written = _write_one(step)


def _document(step: StepWrite) -> dict[str, Any]:
    """A step as the function of PostgreSQL takes it."""
    document = values_of(step.row)
    document |= {"proof": step.proof, "turn_read": step.turn_read, "my_token": step.my_token}
    if step.event is not None:
        document["event"] = {name: getattr(Event, name).db_value(value) for name, value in step.event.items()}
    if step.language is not None:
        document["language_chosen"] = step.language
    return document


# What follows is for SQLite, and says what the function in the migrations says.
def _write_one(step: StepWrite) -> bool:
    row = step.row
    before = {"turn_read": step.turn_read, "my_token": step.my_token, "now": row.last_seen_at}
    if not _WRITES[step.proof].run(**row.__data__, **before):
        return False
    if step.event is not None:
        insert_event(step.event)
    if step.language is not None:
        _REMEMBER.run(client_id=row.client_id, phone_number=row.phone_number, language=step.language)
    return True


def _update(proof: WriteCondition) -> Any:
    """Write a step where its proof holds."""
    mine = (UssdSession.id == param(UssdSession.id)) & (UssdSession.status == "active")
    if proof is WriteCondition.CLAIMED:
        mine &= UssdSession.working_token == param(UssdSession.working_token, "my_token")
    else:
        free = UssdSession.working_until.is_null() | (
            UssdSession.working_until <= param(UssdSession.last_seen_at, "now")
        )
        mine &= (UssdSession.turn == param(UssdSession.turn, "turn_read")) & free
    if proof is WriteCondition.REMEMBERED:
        channel = Channel.select(Channel.id).where(Channel.id == param(UssdSession.channel_id), Channel.is_active)
        client = Client.select(Client.id).where(Client.id == param(UssdSession.client_id), Client.is_active)
        mine &= fn.EXISTS(channel) & fn.EXISTS(client)
    return UssdSession.update({field: param(field) for field in _WRITTEN}).where(mine)


_WRITTEN = (
    UssdSession.turns, UssdSession.turn, UssdSession.state, UssdSession.node, UssdSession.language,
    UssdSession.message, UssdSession.transaction_id, UssdSession.last_seen_at, UssdSession.expires_at,
    UssdSession.status, UssdSession.end_reason, UssdSession.ended_at, UssdSession.action,
    UssdSession.working_token, UssdSession.working_until,
)  # fmt: skip
_WRITES = {
    WriteCondition.NEW: CompiledQuery(
        lambda: UssdSession.insert(
            {field: param(field) for field in UssdSession._meta.sorted_fields}
        ).on_conflict_ignore()
    ),
    **{
        proof: CompiledQuery(partial(_update, proof))
        for proof in (WriteCondition.READ, WriteCondition.REMEMBERED, WriteCondition.CLAIMED)
    },
}
_REMEMBER = CompiledQuery(
    lambda: SubscriberLanguage.insert(
        {field: param(field) for field in SubscriberLanguage._meta.sorted_fields}
    ).on_conflict(
        conflict_target=(SubscriberLanguage.client_id, SubscriberLanguage.phone_number),
        preserve=(SubscriberLanguage.language,),
    )
)
