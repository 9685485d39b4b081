"""A past conversation walked again through another document. Actions are answered from what the phone showed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.expressions import Name
from ussd_server.menus.document.nodes import InputNode, PinNode, ScreenNode
from ussd_server.menus.document.templates import Template
from ussd_server.menus.engine import actions
from ussd_server.menus.engine.engine import enter, enter_masked, finish, start
from ussd_server.menus.engine.navigator import MASK, DisplayOptions, SessionFacts, State, Turn
from ussd_server.menus.phrases import PHRASES, phrase
from ussd_server.menus.tools.node_parts import texts
from ussd_server.values import phone_number

_INTERLUDES = ("resume", "payment_processing")
_LONGEST_NUMBER = 15
# One that each rule refuses: nothing, too short, letters, too long.
_MISTYPED = ("", "0", "abcd", "0" * 40)
# Two PINs that may be chosen, at their longest.
_PINS = ("258025", "139713")
# A secret entry that differs from the one that it is compared with.
_DIFFERENT = f"{MASK}*"


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One turn of a transcript: a secret entry is masked."""

    entry: str
    screen: str
    node: str
    ends: bool


@dataclass(frozen=True, slots=True)
class PastConversation:
    """A conversation, the document and the channel that it was held with, and whether it created a payment."""

    document: Document
    facts: SessionFacts
    language: str
    turns: Sequence[PastTurn]
    has_paid: bool
    channel: DisplayOptions


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """The first turn that goes differently; `is_dead_end` where the conversation cannot be continued."""

    turn: int
    was: str
    is_now: str
    is_dead_end: bool


def replay(draft: Document, past: PastConversation) -> ReplayDifference | None:
    """Walk a conversation through `draft`; return None when it shows the same screens.

    A dead end, where the draft ends or refuses an entry that led on, counts before another screen.
    """
    first = _first_menu_turn(past.turns)
    if first == len(past.turns):
        return None
    replayer = _Replayer(draft, past, first)
    screen_difference: ReplayDifference | None = None
    for number in range(first, len(past.turns)):
        turn = past.turns[number]
        draft_turn = replayer.step(number)
        goes_on = number + 1 < len(past.turns)
        ended = draft_turn.screen is not None and draft_turn.screen.ends
        is_now = "" if draft_turn.screen is None else draft_turn.screen.text
        moved = number > first and turn.node != past.turns[number - 1].node
        if (ended and (goes_on or not turn.ends)) or (moved and draft_turn.state.attempts > 0):
            return ReplayDifference(number, turn.screen, is_now, is_dead_end=True)
        if screen_difference is None and is_now != turn.screen:
            screen_difference = ReplayDifference(
                number, turn.screen, is_now, is_dead_end=_apologises(is_now) and not _apologises(turn.screen)
            )
            if screen_difference.is_dead_end:
                return screen_difference
        if ended:
            break
    return screen_difference


class _Replayer:
    """The draft's side of a conversation."""

    def __init__(self, draft: Document, past: PastConversation, first: int) -> None:
        self._draft, self._past, self._first = draft, past, first
        self._values = _values_shown(past)
        self._state: State | None = None
        self._checked: actions.PinChecked | None = None

    def step(self, number: int) -> Turn:
        """Answer the entry of a turn; the first turn dials."""
        draft, past, channel = self._draft, self._past, self._past.channel
        entry = past.turns[number].entry
        if self._state is None:
            language, facts = self._beginning()
            turn = self._finished(start(draft, facts, language, values=self._values, channel=channel), number)
        elif entry == MASK and isinstance(draft.nodes[self._state.node], PinNode):
            turn = self._pin_entry(self._state, number)
        elif entry == MASK and self._is_secret(self._state):
            turn = self._secret_entry(self._state, number)
        else:
            turn = self._finished(enter(draft, self._state, entry, channel), number)
        self._state = turn.state
        return turn

    def _secret_entry(self, state: State, number: int) -> Turn:
        """Answer a secret entry, which may have been mistyped: as the transcript shows, if any entry leads there."""
        draft, past, channel = self._draft, self._past, self._past.channel
        right = enter_masked(draft, state, channel)
        wrong = [enter(draft, state, entry, channel) for entry in _MISTYPED]
        wrong.append(enter_masked(draft, state, channel, _DIFFERENT))
        stayed = past.turns[number].node == past.turns[number - 1].node
        turns = [self._finished(turn, number) for turn in ((*wrong, right) if stayed else (right, *wrong))]
        screen = past.turns[number].screen
        return next((turn for turn in turns if turn.screen is not None and turn.screen.text == screen), turns[0])

    def _pin_entry(self, state: State, number: int) -> Turn:
        """Answer a PIN, which is not known: as the transcript shows, if any PIN and any judgement of it lead there."""
        past, node = self._past, self._draft.nodes[state.node]
        assert isinstance(node, PinNode)
        first, other = _PINS[0][: node.length], _PINS[1][: node.length]
        turns = []
        for entry in (first, other, "0" * node.length, ""):
            entered = enter(self._draft, state, entry, past.channel)
            checks = [actions.PinChecked(actions.PinVerdict.RIGHT)]
            for checked in checks if entered.action is None else _possible_checks(node):
                self._checked = checked
                turns.append(self._finished(entered, number))
        self._checked = None
        screen = past.turns[number].screen
        return next((turn for turn in turns if turn.screen is not None and turn.screen.text == screen), turns[0])

    def _judgement(self, action: actions.PinAction, turn: PastTurn) -> actions.PinChecked:
        """Return what became of a PIN that was typed, or what was found when the node was reached."""
        if action.act != "look" and self._checked is not None:
            return self._checked
        node: Any = self._draft.nodes[action.node]
        if turn.node != action.node and turn.node == node.locked:
            return actions.PinChecked(actions.PinVerdict.LOCKED)
        if turn.node != action.node and turn.node == node.missing:
            return actions.PinChecked(actions.PinVerdict.MISSING)
        return actions.PinChecked(actions.PinVerdict.OPEN)

    def _finished(self, turn: Turn, number: int) -> Turn:
        return finish(self._draft, turn, lambda action: self._outcome(action, number), self._past.channel)

    def _beginning(self) -> tuple[str, SessionFacts]:
        """Return the language that the conversation began in, and its facts: those whose first screen it shows."""
        past = self._past
        screen = past.turns[self._first].screen
        for language, has_pin in product(past.document.languages, (False, True)):
            facts = replace(past.facts, has_pin=has_pin)
            begun = start(past.document, facts, language, values=self._values, channel=past.channel)
            if begun.screen is not None and begun.screen.text == screen:
                return language, facts
        return past.language, past.facts

    def _is_secret(self, state: State) -> bool:
        node = self._draft.nodes[state.node]
        return isinstance(node, InputNode) and node.secret

    def _outcome(self, action: actions.MenuAction, number: int) -> actions.ActionOutcome:
        """Return what the transcript shows of an action; nothing is paid, called or looked up."""
        turn = self._past.turns[number]
        node: Any = self._draft.nodes[action.node]
        failed_to = getattr(node, "on_error", None)
        if failed_to is not None and turn.node == failed_to != getattr(node, "goto", None):
            return actions.Failed()
        match action:
            case actions.PayAction():
                return actions.Paid(accepted=self._past.has_paid and turn.node != node.rejected)
            case actions.WaitAction():
                seen = (word for word in ("failed", "waiting") if turn.node == getattr(node, word))
                return actions.PaymentSeen(next(seen, "succeeded"))
            case actions.BalanceAction():
                return actions.BalanceFound(100 * _whole(self._values.get(node.var)))
            case actions.LookupNameAction():
                name = self._values.get(node.var)
                return actions.Failed() if name is None else actions.NameFound(str(name))
            case actions.PinAction():
                return self._judgement(action, turn)
            case actions.SmsAction():
                return actions.SmsQueued()
            case actions.HandoverAction():
                return actions.HandedOver(turn.screen, turn.ends)
            case actions.HttpAction():
                return actions.Answered(_reply([(path, self._values.get(var)) for var, path in node.map]))


def _first_menu_turn(turns: Sequence[PastTurn]) -> int:
    """Return the first turn that shows the menu: before it may be an offer to resume, or a payment's outcome."""
    for number, turn in enumerate(turns):
        if not turn.screen.startswith(tuple(_openings())):
            return number
    return len(turns)


def _openings() -> list[str]:
    fixed = [sentence for name in _INTERLUDES for sentence in PHRASES[name].values()]
    outcomes = [PHRASES[f"payment_{word}"] for word in ("succeeded", "failed")]
    return fixed + [sentence.partition("{")[0] for sentences in outcomes for sentence in sentences.values()]


def _apologises(screen: str) -> bool:
    return screen in {phrase("trouble", language) for language in PHRASES["trouble"]}


def _values_shown(past: PastConversation) -> dict[str, Any]:
    """Return the variables that the screens of a conversation show, read by the texts of its document."""
    values: dict[str, Any] = {}
    for turn in past.turns:
        node = past.document.nodes.get(turn.node)
        if isinstance(node, ScreenNode):
            for _, text in texts(node):
                for template in text.by_language.values():
                    for name, value in _read(template, turn.screen):
                        values.setdefault(name, value)
    return values


def _read(template: Template, screen: str) -> list[tuple[str, Any]]:
    """Return the variables in the lines of a screen that a template wrote; those with lossy filters are left out."""
    if not template.slots:
        return []
    names: list[tuple[Name, tuple[str, ...]]] = []
    pattern = ""
    for part in template.parts:
        if isinstance(part, str):
            pattern += re.escape(part)
        else:
            names.append((part.name, tuple(each.name for each in part.filters)))
            pattern += "([^\\n]{0,160}?)"
    match = re.search(f"{pattern}(?:\\n|\\Z)", screen)
    if match is None:
        return []
    return [
        (name.name, _unfiltered(text, filters))
        for (name, filters), text in zip(names, match.groups(), strict=True)
        if name.scope == "vars" and not {"mask", "trunc", "upper"} & set(filters)
    ]


def _unfiltered(text: str, filters: tuple[str, ...]) -> Any:
    if "ugx" in filters:
        text = text.replace(",", "")
    if "local" in filters and text.startswith("0"):
        return phone_number(text) or text
    return text


def _possible_checks(node: PinNode) -> list[actions.PinChecked]:
    """Return everything that may become of a PIN that is checked or kept."""
    wrong = [actions.PinChecked(actions.PinVerdict.WRONG, left) for left in range(1, node.tries)]
    others = (actions.PinVerdict.RIGHT, actions.PinVerdict.LOCKED, actions.PinVerdict.MISSING)
    return [*(actions.PinChecked(verdict) for verdict in others), *wrong]


def _whole(value: Any) -> int:
    digits = str(value or "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_NUMBER else 0


def _reply(values: Sequence[tuple[str, Any]]) -> Any:
    """Return a reply that has the values at their dotted paths."""
    reply: dict[str, Any] = {}
    for path, value in values:
        *outer, last = path.split(".")
        place = reply
        for step in outer:
            inner = place.setdefault(step, {})
            place = inner if isinstance(inner, dict) else {}
        place[last] = value
    return reply
