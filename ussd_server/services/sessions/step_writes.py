"""Writes steps of USSD sessions in batches. A step is written only if its session did not change since it was read.

`Sessions` gives the steps of concurrent requests as one batch. PostgreSQL writes it with one call of the function
`ussd_step` (`database/schema/postgres/batches.sql`), which is one transaction. On SQLite `_write_one` does the same,
statement by statement.
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
    """When a step may be written. The values are those that `ussd_step` knows; all but NEW need an active session.

    NEW: no session has this id, and no active one this channel, gateway session id and phone number. READ: no step was
    written since the session was read, and none has claimed it. CACHED: as READ, for a session from the session cache;
    its channel and client are active too. CLAIMED: the session has the claim of this step.
    """

    NEW = "new"
    READ = "read"
    CACHED = "cached"
    CLAIMED = "claimed"


@dataclass(slots=True)
class StepWrite:
    """What a step changes.

    `row` is the session after the step, and its `last_seen_at` the time of the step. `turn_read` and `my_token` are its
    `turn` and `working_token` before the step. `event`, from `new_event`, is set if the session ended, `language` if
    the subscriber chose one. `write_steps` sets `is_written`.
    """

    row: UssdSession
    condition: WriteCondition
    turn_read: int = 0
    my_token: str | None = None
    event: Mapping[str, Any] | None = None
    language: str | None = None
    is_written: bool = False


def write_steps(steps: Sequence[StepWrite]) -> None:
    """Write the steps whose condition holds, in one transaction or in the surrounding unit of work."""
    if is_postgres():
        document = orjson.dumps([_document(step) for step in steps]).decode()
        written = {position for (position,) in database.execute_sql("SELECT ussd_step(%s::jsonb)", (document,))}
        for position, step in enumerate(steps, start=1):
            step.is_written = position in written
        return
    # A single statement is a transaction by itself.
    is_one_statement = len(steps) == 1 and steps[0].event is None and steps[0].language is None
    with nullcontext() if is_one_statement else unit_of_work():
        for step in steps:
            step.is_written = _write_one(step)


def _document(step: StepWrite) -> dict[str, Any]:
    """Return a step as an element of the argument of `ussd_step`."""
    document = values_of(step.row)
    document |= {"proof": step.condition, "turn_read": step.turn_read, "my_token": step.my_token}
    if step.event is not None:
        document["event"] = {name: getattr(Event, name).db_value(value) for name, value in step.event.items()}
    if step.language is not None:
        document["language_chosen"] = step.language
    return document


def _write_one(step: StepWrite) -> bool:
    row = step.row
    before = {"turn_read": step.turn_read, "my_token": step.my_token, "now": row.last_seen_at}
    if not _WRITES[step.condition].run(**row.__data__, **before):
        return False
    if step.event is not None:
        insert_event(step.event)
    if step.language is not None:
        save_language(row.client_id, row.phone_number, step.language)
    return True


def save_language(client_id: str, phone_number: str, language: str) -> None:
    """Store the language that a subscriber chose."""
    _SAVE_LANGUAGE.run(client_id=client_id, phone_number=phone_number, language=language)


def _update(condition: WriteCondition) -> Any:
    where = (UssdSession.id == param(UssdSession.id)) & (UssdSession.status == "active")
    if condition is WriteCondition.CLAIMED:
        where &= UssdSession.working_token == param(UssdSession.working_token, "my_token")
    else:
        free = UssdSession.working_until.is_null() | (
            UssdSession.working_until <= param(UssdSession.last_seen_at, "now")
        )
        where &= (UssdSession.turn == param(UssdSession.turn, "turn_read")) & free
    if condition is WriteCondition.CACHED:
        channel = Channel.select(Channel.id).where(Channel.id == param(UssdSession.channel_id), Channel.is_active)
        client = Client.select(Client.id).where(Client.id == param(UssdSession.client_id), Client.is_active)
        where &= fn.EXISTS(channel) & fn.EXISTS(client)
    return UssdSession.update({field: param(field) for field in _WRITTEN}).where(where)


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
        condition: CompiledQuery(partial(_update, condition))
        for condition in (WriteCondition.READ, WriteCondition.CACHED, WriteCondition.CLAIMED)
    },
}
_SAVE_LANGUAGE = CompiledQuery(
    lambda: SubscriberLanguage.insert(
        {field: param(field) for field in SubscriberLanguage._meta.sorted_fields}
    ).on_conflict(
        conflict_target=(SubscriberLanguage.client_id, SubscriberLanguage.phone_number),
        preserve=(SubscriberLanguage.language,),
    )
)
