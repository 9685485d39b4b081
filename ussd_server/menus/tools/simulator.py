"""A phone and a small world in memory, to talk with a menu file alone: no money, no network, no clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.variables import SessionFacts
from ussd_server.menus.engine.actions import (
    ActionOutcome,
    Answered,
    BalanceAction,
    BalanceFound,
    Failed,
    HandedOver,
    HandoverAction,
    HttpAction,
    LookupNameAction,
    MenuAction,
    NameFound,
    Paid,
    PayAction,
)
from ussd_server.menus.engine.engine import enter, resume, start
from ussd_server.menus.engine.navigator import STANDARD, DisplayOptions
from ussd_server.menus.engine.resumption import announce, reopen
from ussd_server.menus.engine.state import State, Turn
from ussd_server.menus.text.screen import Screen

IDLE_SECONDS = 180
RESUME_SECONDS = 600
MAX_ACTIONS = 24


@dataclass(frozen=True, slots=True)
class World:
    """What the world answers: balances in shillings by account, names by number, answers by node, given variables."""

    balances: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    accepts_payments: bool = True


class Simulator:
    """One phone in conversation with one menu. Payments are remembered as pending, once for each confirmation."""

    screen: Screen
    state: State

    def __init__(
        self,
        document: Document,
        facts: SessionFacts,
        world: World,
        language: str | None = None,
        channel: DisplayOptions = STANDARD,
    ) -> None:
        self.document, self.facts, self.world, self.channel = document, facts, world, channel
        self.language = language
        self.payments: dict[tuple[str, str], dict[str, Any]] = {}
        self._calls = 0
        self._turns = 0
        self._idle_seconds = 0
        self._last: tuple[State, str] | None = None
        self._paid_cents: int | None = None

    @property
    def is_over(self) -> bool:
        """Return whether the session has ended, by its last screen or by waiting too long."""
        return self.screen.ends or self._idle_seconds > IDLE_SECONDS

    def dial(self, entries: Sequence[str] = ()) -> None:
        """Begin a session, with the entries dialled along."""
        facts = self._new_call()
        self._take(
            start(self.document, facts, self.language, given=self.world.given, entries=entries, channel=self.channel)
        )

    def send(self, entry: str) -> None:
        """Type one entry."""
        self._last = (self.state, entry)
        self._turns += 1
        self._idle_seconds = 0
        self._take(enter(self.document, self.state, entry, self.channel))

    def repeat(self) -> None:
        """Let the phone company send the last entry again, as if its answer had been lost."""
        if self._last is not None:
            state, entry = self._last
            self._take(enter(self.document, state, entry, self.channel))

    def wait(self, seconds: int) -> None:
        """Let time pass without typing."""
        self._idle_seconds += seconds

    def redial(self) -> None:
        """Hang up and dial again: first a payment's outcome, else an offer to continue, else the beginning."""
        dropped, turns, paid_cents = self.state, self._turns, self._paid_cents
        lost = not self.screen.ends and turns >= 2 and self._idle_seconds <= RESUME_SECONDS
        if lost and paid_cents is not None:
            outcome = announce(
                self.document,
                self._new_call(),
                self.language,
                "processing",
                paid_cents,
                given=self.world.given,
                channel=self.channel,
            )
            self._take(outcome)
            return
        facts = self._new_call()
        reopened = reopen(self.document, dropped, facts, self.channel) if lost else None
        self._take(reopened or start(self.document, facts, self.language, given=self.world.given, channel=self.channel))

    def _new_call(self) -> SessionFacts:
        self._calls += 1
        self._turns, self._idle_seconds, self._last, self._paid_cents = 0, 0, None, None
        return replace(self.facts, session_id=f"{self.facts.session_id}-{self._calls}")

    def _take(self, turn: Turn) -> None:
        """Do the deeds of a turn until there is a screen."""
        for _ in range(MAX_ACTIONS):
            self.language = turn.language_chosen or self.language
            if turn.action is None:
                break
            turn = resume(self.document, turn.state, self._do(turn.state, turn.action), self.channel)
        assert turn.screen is not None
        self.state, self.screen = turn.state, turn.screen

    def _do(self, state: State, action: MenuAction) -> ActionOutcome:
        match action:
            case PayAction():
                return self._pay(state, action)
            case BalanceAction(account=account):
                return BalanceFound(_cents(self.world.balances.get(account, 0)))
            case LookupNameAction(phone_number=phone_number):
                name = self.world.names.get(phone_number)
                return Failed() if name is None else NameFound(str(name))
            case HttpAction(node=node):
                answer = self.world.answers.get(node, "error")
                return Failed(answer == "timeout") if answer in ("error", "timeout") else Answered(answer)
            case HandoverAction(node=node):
                answer = self.world.answers.get(node)
                if isinstance(answer, Mapping):
                    return HandedOver(str(answer.get("text", "")), bool(answer.get("ends", True)))
                return Failed()

    def _pay(self, state: State, action: PayAction) -> ActionOutcome:
        if not self.world.accepts_payments:
            return Paid(accepted=False)
        self._paid_cents = action.amount_cents
        self.payments[state.facts.session_id, action.confirmation] = {
            "status": "pending",
            "type": action.kind,
            "amount": action.amount_cents // 100,
            "phone_number": action.phone_number,
            "to_phone_number": action.to_phone_number,
            "account": action.account,
        }
        return Paid(accepted=True)


def _cents(shillings: Any) -> int:
    if isinstance(shillings, bool) or not isinstance(shillings, int | float) or not math.isfinite(shillings):
        return 0
    return round(shillings * 100)
