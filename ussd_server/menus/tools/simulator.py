"""Simulates sessions with a menu in memory, without money, network or clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.kinds import ANYTHING, one_of
from ussd_server.menus.engine import actions
from ussd_server.menus.engine.engine import enter, finish, start
from ussd_server.menus.engine.navigator import STANDARD, DisplayOptions, SessionFacts, State, Turn
from ussd_server.menus.engine.resumption import announce, reopen
from ussd_server.menus.text import Screen

IDLE_SECONDS = 180
RESUME_SECONDS = 600

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class World:
    """Simulated values of a session: what the menu reads from outside."""

    balances: Annotated[Values, ANYTHING, "balances in shillings, by account"] = field(default_factory=dict)
    names: Annotated[Values, ANYTHING, "names, by phone number"] = field(default_factory=dict)
    answers: Annotated[
        Values, ANYTHING, "the replies of your server by node; `error` and `timeout` stand for no reply"
    ] = field(default_factory=dict)
    given: Annotated[Values, ANYTHING, "the given variables"] = field(default_factory=dict)
    pins: Annotated[Mapping[str, str], ANYTHING, "PINs, by phone number"] = field(default_factory=dict)
    payments: Annotated[
        str,
        one_of("accepted", "rejected", "succeeded", "failed"),
        "`accepted` (default): without an outcome; `rejected`: refused; `succeeded`, `failed`: what a wait finds",
    ] = "accepted"


class Simulator:
    """One phone and one menu. Payments are stored as pending, once for each confirmation.

    `unanswered` names the `http` and `handover` nodes that had no answer in the world and went on as after an error.
    """

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
        self.unanswered: list[str] = []
        self._pins = {number: str(pin) for number, pin in world.pins.items()}
        self._wrong_pins = 0
        self._is_locked = False
        self._sessions = 0
        self._session = facts
        self._turns = 0
        self._idle_seconds = 0
        self._last: tuple[State, str] | None = None
        self._paid_cents: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether the session has ended, by its last screen or because it expired."""
        return self.screen.ends or self._idle_seconds > IDLE_SECONDS

    def dial(self, entries: Sequence[str] = ()) -> None:
        """Begin a session, with the entries dialled with the code."""
        self._new_session()
        self._begin(entries)

    def send(self, entry: str) -> None:
        self._last = (self.state, entry)
        self._turns += 1
        self._idle_seconds = 0
        self._show(enter(self.document, self.state, entry, self.channel))

    def repeat(self) -> None:
        """Send the last entry again, as a gateway does when the reply was lost."""
        if self._last is not None:
            state, entry = self._last
            self._show(enter(self.document, state, entry, self.channel))

    def wait(self, seconds: int) -> None:
        """Let time pass without an entry."""
        self._idle_seconds += seconds

    def redial(self) -> None:
        """Hang up and dial again: shows a payment's outcome, else an offer to continue, else the start."""
        dropped, turns, paid_cents = self.state, self._turns, self._paid_cents
        lost = not self.screen.ends and turns >= 2 and self._idle_seconds <= RESUME_SECONDS
        self._new_session()
        if lost and paid_cents is not None:
            self._show(
                announce(
                    self.document,
                    self._session,
                    self.language,
                    "pending",
                    paid_cents,
                    values=self.world.given,
                    channel=self.channel,
                )
            )
        elif lost and (reopened := reopen(self.document, dropped, self._session, self.channel)):
            self._show(reopened)
        else:
            self._begin()

    def _begin(self, entries: Sequence[str] = ()) -> None:
        values = self.world.given
        self._show(
            start(self.document, self._session, self.language, values=values, entries=entries, channel=self.channel)
        )

    def _new_session(self) -> None:
        self._sessions += 1
        self._turns, self._idle_seconds, self._last, self._paid_cents = 0, 0, None, None
        session_id, has_pin = f"{self.facts.session_id}-{self._sessions}", self.facts.phone_number in self._pins
        self._session = replace(self.facts, session_id=session_id, has_pin=has_pin)

    def _show(self, turn: Turn) -> None:
        turn = finish(self.document, turn, self._execute, self.channel)
        assert turn.screen is not None
        self.language = turn.language_chosen or self.language
        self.state, self.screen = turn.state, turn.screen

    def _execute(self, action: actions.MenuAction) -> actions.ActionOutcome:
        if isinstance(action, actions.HttpAction | actions.HandoverAction) and action.node not in self.world.answers:
            self.unanswered.append(action.node)
        match action:
            case actions.PayAction():
                return self._pay(action)
            case actions.WaitAction():
                return actions.PaymentSeen("waiting" if self.world.payments == "accepted" else self.world.payments)
            case actions.BalanceAction(account=account):
                return actions.BalanceFound(_cents(self.world.balances.get(account, 0)))
            case actions.LookupNameAction(phone_number=phone_number):
                name = self.world.names.get(phone_number)
                return actions.Failed() if name is None else actions.NameFound(str(name))
            case actions.PinAction():
                return self._judge_pin(action)
            case actions.SmsAction():
                return actions.SmsQueued()
            case actions.HttpAction(node=node):
                reply = self.world.answers.get(node, "error")
                return actions.Failed(reply == "timeout") if reply in ("error", "timeout") else actions.Answered(reply)
            case actions.HandoverAction(node=node):
                reply = self.world.answers.get(node)
                if isinstance(reply, Mapping):
                    return actions.HandedOver(str(reply.get("text", "")), bool(reply.get("ends", True)))
                return actions.Failed()

    def _judge_pin(self, action: actions.PinAction) -> actions.PinChecked:
        number = self.facts.phone_number
        kept = self._pins.get(number)
        if action.mode == "choose" and kept is None:
            if action.act == "look":
                return actions.PinChecked(actions.PinVerdict.OPEN)
        elif kept is None:
            return actions.PinChecked(actions.PinVerdict.MISSING)
        elif self._is_locked or action.mode == "choose":
            return actions.PinChecked(actions.PinVerdict.LOCKED)
        if action.act == "look":
            return actions.PinChecked(actions.PinVerdict.OPEN)
        if action.act == "new":
            self._pins[number] = action.pin
        elif action.pin != kept:
            self._wrong_pins += 1
            self._is_locked = self._wrong_pins >= action.tries
            verdict = actions.PinVerdict.LOCKED if self._is_locked else actions.PinVerdict.WRONG
            return actions.PinChecked(verdict, action.tries - self._wrong_pins)
        self._wrong_pins = 0
        return actions.PinChecked(actions.PinVerdict.RIGHT)

    def _pay(self, action: actions.PayAction) -> actions.ActionOutcome:
        if self.world.payments == "rejected":
            return actions.Paid(accepted=False)
        self._paid_cents = action.amount_cents
        self.payments[self._session.session_id, action.confirmation] = {
            "status": "pending" if self.world.payments == "accepted" else self.world.payments,
            "type": action.kind,
            "amount": action.amount_cents // 100,
            "phone_number": action.phone_number,
            "to_phone_number": action.to_phone_number,
            "account": action.account,
            "description": action.description,
            "metadata": action.metadata,
        }
        return actions.Paid(accepted=True)


def _cents(shillings: Any) -> int:
    if isinstance(shillings, bool) or not isinstance(shillings, int | float) or not math.isfinite(shillings):
        return 0
    return round(shillings * 100)
