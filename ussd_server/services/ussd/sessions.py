"""Rows of USSD sessions: insert one, claim it for a step, write the step.

A step is written only if its session did not change since it was read. The steps of concurrent requests are one batch,
which the dialect writes in one transaction.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any

from ussd_server.clock import attempts
from ussd_server.database.tables import values_of
from ussd_server.database.unit_of_work import GroupCommit, database, dialect, for_update, unit_of_work
from ussd_server.gateways.messages import Action
from ussd_server.logs import current_traceparent
from ussd_server.menus.document.nodes import MAX_WAIT_SECONDS
from ussd_server.menus.document.variables import ProviderStates
from ussd_server.menus.engine.navigator import State, Turn
from ussd_server.menus.text import measure
from ussd_server.models.keys import ApiKey
from ussd_server.models.sending import Event
from ussd_server.models.ussd import UssdSession
from ussd_server.security.key_ring import hmac_sha256
from ussd_server.security.secrets_file import MasterKey, Ring
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.runtime import Runtime
from ussd_server.services.ussd.answered import AnsweredSteps, AnsweredTexts
from ussd_server.services.ussd.endings import IS_ACTIVE, SessionEndings, end_event, is_as_read
from ussd_server.services.ussd.lookup import WaitingOutcome, mark_shown
from ussd_server.services.ussd.messages import EndReason, SessionStatus
from ussd_server.services.webhooks.events import new_event
from ussd_server.threads import Turns
from ussd_server.values import iso_milliseconds, new_id, unchanging

# Longer than any step may take and shorter than a gateway waits: a waiting step takes over from a dead process.
LEASE_SECONDS = 7
_WAIT_SECONDS = 7.5
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.01, 0.1
# With these pauses, half a second: most steps are done by then.
_ATTEMPTS_OF_ALL = 8
MAX_TURNS = 200
# A menu that waits for a payment answers two seconds before its sender gives up. Programs have no such limit.
_RESERVE_SECONDS, _API_SECONDS = 2.0, MAX_WAIT_SECONDS + 2.0
# A gateway that delivers a step twice does so at once; a subscriber has to read the screen first.
_REPEAT_WITHIN = timedelta(seconds=2)


class _NotWrittenError(Exception):
    """Raised to roll a unit of work back."""


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
    """The changes of a step.

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


@dataclass(slots=True)
class StepEffects:
    """What the actions of a step did. `is_unsure` while it is unknown whether a payment was created.

    `told_id` is a payment whose outcome the screen tells.
    """

    transaction_id: str | None = None
    may_have_paid: bool = False
    is_unsure: bool = False
    told_id: str | None = None


@unchanging
class StepInput:
    """The input of a step: its time, its text, and its number where the gateway numbers steps.

    `waits_until` is when its sender needs a screen that waits for a payment, in seconds of the monotonic clock.
    """

    received_at: datetime
    text: str = field(repr=False)
    sequence: int | None = None
    waits_until: float = 0.0
    effects: StepEffects = field(default_factory=StepEffects, compare=False)


class Sessions:
    """Reads and writes sessions. A step is one read and one write; a step with actions claims the session first."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._keyring = runtime.clock, runtime.keyring
        # A step that waits for another step of its session looks at the session ten times a second.
        self._waiting_steps = Bulkhead(100, 25)
        self.endings = SessionEndings(runtime)
        self.provider_states = ProviderStates(runtime.providers.takes_payments)
        self._idle = timedelta(seconds=runtime.settings.session_idle_seconds)
        self._life = timedelta(seconds=runtime.settings.session_life_seconds)
        self._writes = GroupCommit(write_steps)

    def received(self, text: str, sequence: int | None = None, answer_seconds: float = _API_SECONDS) -> StepInput:
        """Return the input of a step that is received now, and whose sender waits so long for its screen."""
        return StepInput(self._clock.now(), text, sequence, time.monotonic() + answer_seconds - _RESERVE_SECONDS)

    def attempts(self, client_of: Callable[[], str]) -> Iterator[int]:
        """Attempts at a step while another step of its session is in progress, for longer than a lease.

        They end after half a second when too many steps of the client are waiting already. `client_of` gives its id,
        after the first attempt.
        """
        tries = Turns.pauses(attempts(_WAIT_SECONDS, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))
        yield from islice(tries, _ATTEMPTS_OF_ALL)
        with self._waiting_steps.permit(client_of()) as has_permit:
            if has_permit:
                yield from tries

    def is_over(self, row: UssdSession) -> bool:
        """Whether a session has ended or its time is up."""
        return row.is_over(self._clock.now())

    def is_claimed(self, row: UssdSession) -> bool:
        """Whether a step of this session is in progress."""
        return row.working_until is not None and row.working_until > self._clock.now()

    def new_row(self, previous_id: str | None, **facts: Any) -> UssdSession:
        """Return a session without turns, not yet inserted; its id sorts behind `previous_id`."""
        now = self._clock.now()
        facts |= {
            "id": new_id(now, previous_id),
            "status": SessionStatus.ACTIVE,
            "turn": 0,
            "state": {},
            "turns": [],
            "node": "",
            "message": "",
            "action": Action.CONTINUE,
            "created_at": now,
            "last_seen_at": now,
            "expires_at": now + self._idle,
            "due_at": now + self._idle,
            "traceparent": current_traceparent(),
        }
        return UssdSession(**dict.fromkeys(UssdSession._meta.fields) | facts)

    def insert_claimed(self, row: UssdSession) -> bool:
        """Insert a session whose first screen needs actions, claimed. Returns False as `insert_answered` does."""
        row.working_token = secrets.token_hex(8)
        row.working_until = self._clock.now() + timedelta(seconds=LEASE_SECONDS)
        return self._insert(row)

    def insert_answered(self, row: UssdSession, turn: Turn, step_input: StepInput) -> bool:
        """Insert a session with its first screen. False when the same step was inserted before or the key deleted."""
        self._apply(row, turn, step_input, None)
        return self._insert(row, turn.language_chosen)

    def insert_announcing(self, row: UssdSession, turn: Turn, step_input: StepInput, outcome: WaitingOutcome) -> bool:
        """Insert a session whose first screen is the outcome of a payment, and note that it was shown.

        Returns False, and writes nothing, when it was shown before, and as `insert_answered` does.
        """
        self._apply(row, turn, step_input, None)
        try:
            with unit_of_work():
                if not (mark_shown(outcome.transaction_id, outcome.session_id, row.last_seen_at) and self._insert(row)):
                    raise _NotWrittenError
        except _NotWrittenError:
            return False
        return True

    def claim(self, row: UssdSession) -> bool:
        """Claim a session for a step with actions. False when another step was faster or the session expired."""
        now = self._clock.now()
        token = secrets.token_hex(8)
        claimed = {"working_token": token, "working_until": now + timedelta(seconds=LEASE_SECONDS)}
        is_in_time = IS_ACTIVE & (UssdSession.expires_at > now)
        if not UssdSession.update(claimed).where(is_as_read(row, now), is_in_time).execute():
            return False
        row.working_token = token
        return True

    def hold(self, row: UssdSession, until: float) -> None:
        """Keep the claim of a step that waits for a payment until this second of the monotonic clock."""
        ends_at = self._clock.now() + timedelta(seconds=max(0.0, until - time.monotonic()) + LEASE_SECONDS)
        has_claim = (UssdSession.id == row.id) & (UssdSession.working_token == row.working_token)
        UssdSession.update(working_until=ends_at).where(has_claim).execute()

    def release(self, session_id: str, token: str, transaction_id: str | None) -> None:
        """Release the claim of a step that was not written; keeps the id of the payment that it created, if any."""
        released: dict[str, Any] = {"working_token": None, "working_until": None}
        if transaction_id is not None:
            released["transaction_id"] = transaction_id
        has_claim = (UssdSession.id == session_id) & (UssdSession.working_token == token)
        UssdSession.update(released).where(has_claim).execute()

    def write(
        self,
        row: UssdSession,
        turn: Turn,
        step_input: StepInput,
        transaction_id: str | None = None,
        *,
        is_cached: bool = False,
    ) -> bool:
        """Write an answered step. Returns False, and writes nothing, when the session has changed or ended since.

        A cached session is written only while its channel and its client are active.
        """
        condition = (
            WriteCondition.CACHED
            if is_cached
            else WriteCondition.READ
            if row.working_token is None
            else WriteCondition.CLAIMED
        )
        step = StepWrite(row, condition, row.turn, row.working_token, language=turn.language_chosen)
        self._apply(row, turn, step_input, transaction_id)
        step.event = _end_event_of(row)
        self._writes.do(step)
        return step.is_written

    def state_of(self, row: UssdSession) -> State:
        """Return the engine's state of a session, with the secret entries that its screen may compare."""
        return State.from_dict(
            row.state, _digest_of(row, self._digest_key(row), "secret"), self.provider_states.of(row.client_id)
        )

    def answered(self, row: UssdSession) -> AnsweredTexts:
        return AnsweredTexts(row.turns, _digest_of(row, self._digest_key(row)))

    def answered_steps(self, row: UssdSession | None, step_input: StepInput) -> AnsweredSteps | None:
        """Return what a session has answered, as a step finds it; None without a session or an answer."""
        if row is None or not row.turns:
            return None
        return AnsweredSteps(
            SessionStatus(row.status),
            row.turn,
            row.service_code,
            self.is_over(row),
            step_input.received_at - row.last_seen_at < _REPEAT_WITHIN,
            self.answered(row),
        )

    def _digest_key(self, row: UssdSession) -> MasterKey:
        """The master key that the session began with, so that repeats are recognised after a rotation."""
        first_key = self._keyring.find(Ring.DIGESTS, row.turns[0]["key"]) if row.turns else None
        return first_key or self._keyring.newest(Ring.DIGESTS)

    def _insert(self, row: UssdSession, language_chosen: str | None = None) -> bool:
        step = StepWrite(row, WriteCondition.NEW, event=_end_event_of(row), language=language_chosen)
        if row.key_id is None:
            if database.in_transaction():
                write_steps([step])
            else:
                self._writes.do(step)
            return step.is_written
        with unit_of_work():
            # The key may have been deleted, and its sessions ended, after this request was authenticated.
            if for_update(ApiKey.select().where(ApiKey.id == row.key_id)).exists():
                write_steps([step])
        return step.is_written

    def _apply(self, row: UssdSession, turn: Turn, step_input: StepInput, transaction_id: str | None) -> None:
        """Change a row to its state after a turn."""
        screen = turn.screen
        assert screen is not None
        now = self._clock.now()
        key, text = self._digest_key(row), step_input.text
        is_last = screen.ends or len(row.turns) == MAX_TURNS
        row.message, row.action = screen.text, Action.END if is_last else Action.CONTINUE
        row.turn = len(row.turns)
        row.turns = [
            *row.turns,
            {
                "entry": turn.entry_shown,
                "screen": screen.text,
                "node": turn.state.node,
                "action": row.action,
                "septets": measure(screen.text).units,
                "took_ms": max(0, round((now - step_input.received_at) / timedelta(milliseconds=1))),
                "at": iso_milliseconds(now),
                "key": key.id,
                "length": len(text),
                "digest": _digest_of(row, key)(text),
                "sequence": step_input.sequence,
            },
        ]
        row.state = {} if is_last else turn.state.to_dict(_digest_of(row, key, "secret"))
        row.node, row.language = turn.state.node, turn.state.language
        row.transaction_id = transaction_id or row.transaction_id
        row.last_seen_at = now
        row.expires_at = min(row.created_at + self._life, now + self._idle)
        row.working_token = row.working_until = None
        if is_last:
            row.status = SessionStatus.COMPLETED if screen.ends else SessionStatus.FAILED
            row.end_reason = EndReason.LAST_SCREEN if screen.ends else EndReason.TOO_MANY_TURNS
            row.ended_at = now


def _digest_of(row: UssdSession, key: MasterKey, of_what: str = "entry") -> Callable[[str], str]:
    """Return the HMAC function for the texts of a session, or for its secret entries."""
    return lambda text: hmac_sha256(key.material, f"{of_what}\0{row.id}\0{text}".encode()).hex()[:32]


def may_be_paying(row: UssdSession) -> bool:
    """Whether a confirmation was claimed and not written: its step may still create a payment."""
    return row.working_token is not None and bool(row.state.get("confirmation"))


def state_of(row: UssdSession, providers: ProviderStates) -> State:
    """Return the engine's state of a session."""
    return State.from_dict(row.state, providers=providers.of(row.client_id))


def _end_event_of(row: UssdSession) -> dict[str, Any] | None:
    """The event of a session that has ended, to be written with the step that ended it."""
    return None if row.ended_at is None else new_event(*end_event(row), row.ended_at, row.traceparent)


def write_steps(steps: Sequence[StepWrite]) -> None:
    """Write the steps whose condition holds, in one transaction or in the surrounding unit of work."""
    written = dialect().write_steps([_document(step) for step in steps])
    for number, step in enumerate(steps, start=1):
        step.is_written = number in written


def _document(step: StepWrite) -> dict[str, Any]:
    """Return a step as the dialects take it."""
    document = values_of(step.row)
    document |= {"proof": step.condition, "turn_read": step.turn_read, "my_token": step.my_token}
    if step.event is not None:
        document["event"] = {name: getattr(Event, name).db_value(value) for name, value in step.event.items()}
    if step.language is not None:
        document["language_chosen"] = step.language
    return document
