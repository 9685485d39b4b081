"""The screens of a `pin` node: what is typed on each, and where what became of the PIN leads."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ussd_server.menus.document.nodes import PinNode
from ussd_server.menus.engine.actions import ActionOutcome, PinAction, PinChecked, PinVerdict
from ussd_server.menus.engine.navigator import Navigator, State, Turn
from ussd_server.menus.phrases import phrase

# The name under which the new PIN waits to be typed again; no variable has it.
_CHOSEN = ""


def enter_pin(navigator: Navigator, state: State, node: PinNode, typed: str) -> Turn:
    """Process an entry at the present screen of a node."""

    def refused(why: str, stage: int) -> Turn:
        notice = phrase(why, state.language, length=str(node.length))
        return navigator.show(state._replace(stage=stage, kept={}), notice)

    asked = node.stages[state.stage]
    if not (typed.isascii() and typed.isdigit() and len(typed) == node.length):
        # The new PIN still waits to be typed again.
        return navigator.show(state, phrase("pin_length", state.language, length=str(node.length)))
    if asked == "old":
        return Turn(state, action=PinAction(node.name, "old", node.mode, node.tries, typed))
    if asked == "new":
        if is_simple(typed):
            return refused("pin_simple", state.stage)
        return navigator.show(state._replace(stage=state.stage + 1, kept={_CHOSEN: typed}))
    if state.kept.get(_CHOSEN) != typed:
        return refused("pin_differs", state.stage - 1)
    return Turn(state._replace(kept={}), action=PinAction(node.name, "new", node.mode, node.tries, typed))


def is_simple(pin: str) -> bool:
    """Whether a PIN is easy to guess: 1111, 3456, 7890, 4321, 1212 or 1122."""
    steps = {(int(after) - int(before)) % 10 for before, after in pairwise(pin)}
    is_pair_repeated = pin == (pin[:2] * len(pin))[: len(pin)]
    return steps in ({0}, {1}, {9}) or is_pair_repeated or pin[::2] == pin[1::2]


def apply_pin_outcome(navigator: Navigator, state: State, node: PinNode, outcome: ActionOutcome) -> Turn:
    """Continue after the PIN was looked at, checked or kept."""
    if not isinstance(outcome, PinChecked):
        return navigator.end_with_error(state)
    match outcome.verdict:
        case PinVerdict.OPEN:
            return navigator.show(navigator.stand_at(state, node))
        case PinVerdict.LOCKED:
            return navigator.go_to(state, node.locked)
        case PinVerdict.MISSING:
            return navigator.go_to(state, node.missing)
        case PinVerdict.WRONG:
            return navigator.show(state, phrase("pin_wrong", state.language, left=str(outcome.left)))
    if state.stage + 1 < len(node.stages):
        return navigator.show(state._replace(stage=state.stage + 1))
    facts = replace(state.facts, has_pin=True) if node.mode == "choose" else state.facts
    return navigator.go_to(state._replace(facts=facts, is_past_pin=True), node.goto)
