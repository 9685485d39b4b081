"""Writes steps of USSD sessions in batches. A step is written only if its session did not change since it was read.

`Sessions` gives the steps of concurrent requests as one batch, which the dialect writes in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ussd_server.database.tables import CompiledQuery, param, values_of
from ussd_server.database.unit_of_work import dialect
from ussd_server.models.events import Event
from ussd_server.models.ussd import SubscriberLanguage, UssdSession


class WriteCondition(StrEnum):
    """When a step may be written. The values are those that the dialects know; all but NEW need an active session.

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
    written = dialect().write_steps([_document(step) for step in steps])
    for place, step in enumerate(steps, start=1):
        step.is_written = place in written


def _document(step: StepWrite) -> dict[str, Any]:
    """Return a step as the dialects take it."""
    document = values_of(step.row)
    document |= {"proof": step.condition, "turn_read": step.turn_read, "my_token": step.my_token}
    if step.event is not None:
        document["event"] = {name: getattr(Event, name).db_value(value) for name, value in step.event.items()}
    if step.language is not None:
        document["language_chosen"] = step.language
    return document


def save_language(client_id: str, phone_number: str, language: str) -> None:
    """Store the language that a subscriber chose."""
    _SAVE_LANGUAGE.run(client_id=client_id, phone_number=phone_number, language=language)


_SAVE_LANGUAGE = CompiledQuery(
    lambda: SubscriberLanguage.insert(
        {field: param(field) for field in SubscriberLanguage._meta.sorted_fields}
    ).on_conflict(
        conflict_target=(SubscriberLanguage.client_id, SubscriberLanguage.phone_number),
        preserve=(SubscriberLanguage.language,),
    )
)
