"""Arrivals: what a step from a phone company is, told from the session it belongs to."""

from __future__ import annotations

from ussd_server.menus.engine.turns import (
    Arrival,
    Entry,
    NumberedArrival,
    Repeat,
    Start,
    classify_number,
    classify_text,
)
from ussd_server.messages.gateways import StepKind, UssdStep
from ussd_server.messages.ussd import SessionStatus
from ussd_server.models.ussd import UssdSession
from ussd_server.services.ussd.sessions import Arrived, Sessions


def classify(
    row: UssdSession | None, known_turn: int | None, step: UssdStep, arrived: Arrived, sessions: Sessions
) -> Arrival | NumberedArrival:
    """Say what a step is. `known_turn` is where the session stood when the step arrived, None when there was none."""
    if row is None or not row.turns:
        return Start(_opening_entries(step))
    if not sessions.is_over(row):
        return _within(row, known_turn, step, arrived, sessions)
    if row.status != SessionStatus.COMPLETED:
        return Start(_opening_entries(step))
    # Nobody types behind a last screen: the same text is its repeat, anything else a new call under an old name.
    dials_again = step.cumulative and not step.text and row.turn > 0
    arrival = _within(row, None, step, arrived, sessions)
    if isinstance(arrival, Repeat) and not dials_again:
        return arrival
    return Start(_opening_entries(step) if step.kind is StepKind.BEGIN else ())


def _within(
    row: UssdSession, known_turn: int | None, step: UssdStep, arrived: Arrived, sessions: Sessions
) -> Arrival | NumberedArrival:
    """Say what a step is in a session that has answered something."""
    answered, digest = sessions.answered(row), sessions.digest(row)
    last_number = row.turns[-1]["sequence"]
    if step.cumulative:
        return classify_text(answered, step.text, digest)
    if step.sequence is not None and last_number is not None:
        arrival = classify_number(last_number, step.sequence, step.text)
        # What was dialled is never an entry, whatever its number is.
        dials_again = step.kind is StepKind.BEGIN and not isinstance(arrival, Repeat)
        return Start(_opening_entries(step)) if dials_again else arrival
    # The first delivery was being worked on when this one arrived, or its answer had only just been given.
    may_repeat = row.turn != known_turn or sessions.was_just_answered(row, arrived)
    if may_repeat and step.kind is StepKind.INPUT and answered[-1].equals(step.text, digest):
        return Repeat(row.turn)
    # Where nothing marks a first step, what was dialled tells it from an entry.
    is_dialled = step.opening_text is not None and step.service_code and answered[0].equals(step.text, digest)
    if step.kind is StepKind.BEGIN or is_dialled:
        return Repeat(0) if row.turn == 0 else Start(_opening_entries(step))
    return Entry(step.text)


def _opening_entries(step: UssdStep) -> tuple[str, ...]:
    """The entries that came along with a first step; an entry for a session that is gone fits nothing."""
    if step.opening_text is not None:
        text = step.opening_text
    elif step.cumulative or step.kind is StepKind.BEGIN:
        text = step.text
    else:
        text = ""
    return tuple(text.split("*")) if text.strip("*") else ()
