"""Takes a session through the nodes that need no entry, to the next screen or action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.nodes import (
    ActionNode,
    Assignments,
    BalanceNode,
    ConfirmNode,
    EndNode,
    HandoverNode,
    HttpNode,
    InputNode,
    ListNode,
    LookupNameNode,
    Node,
    PayNode,
    RouterNode,
    ScreenNode,
    SetNode,
    SmsNode,
)
from ussd_server.menus.document.templates import Template
from ussd_server.menus.document.variables import SessionFacts
from ussd_server.menus.engine.actions import (
    BalanceAction,
    HandoverAction,
    HttpAction,
    LookupNameAction,
    MenuAction,
    PayAction,
    SmsAction,
)
from ussd_server.menus.engine.state import State, Turn
from ussd_server.menus.engine.views import LiveValues, Renderer, is_constant, items_of
from ussd_server.menus.phrases import phrase
from ussd_server.menus.text import MAX_SEPTETS, MAX_UCS2, Budget, Screen, transliterate
from ussd_server.values import PHONE_NUMBER

MAX_HOPS = 24  # nodes without a screen in one step
MAX_BACK = 20
MAX_PAYMENT_SHILLINGS = 999_999
MAX_HANDOVER_ENTRIES = 50


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    """How a channel shows screens: whether to transliterate, and a budget narrower than the menu's."""

    transliterates: bool = True
    budget: Budget | None = None


STANDARD = DisplayOptions()


def display_options(*, transliterates: bool, septets: int | None, ucs2: int | None) -> DisplayOptions:
    """Return the options of a channel with these settings; None is as much as a phone shows."""
    budget = Budget(septets or MAX_SEPTETS, ucs2 or MAX_UCS2) if septets or ucs2 else None
    return DisplayOptions(transliterates, budget)


@dataclass(frozen=True, slots=True)
class Navigator:
    """Navigates one document on one channel. Every method is pure: it takes a state and returns a turn."""

    document: Document
    channel: DisplayOptions

    def begin(self, facts: SessionFacts, language: str | None, given: Mapping[str, Any] | None) -> State:
        """Return the state before the first screen, with the variables that the document declares as given."""
        spoken = language if language in self.document.languages else self.document.default_language
        state = State(facts, self.document.start, spoken or self.document.default_language)
        for name, value in (given or {}).items():
            if name in self.document.variables and self.document.variables[name].given:
                state = self.keep(state, name, value)
        return state

    def go_to(self, state: State, target: str | None) -> Turn:
        """Go to the node `target`, and on until there is a screen to show or an action to execute."""
        for hops in range(state.hops + 1, MAX_HOPS + 1):
            node = self.document.nodes.get(target or "")
            match node:
                case None:
                    break
                case RouterNode():
                    scope = state.scope()
                    target = next((goto for when, goto in node.cases if when.is_true(scope)), node.otherwise)
                case SetNode():
                    state, target = self.assign(state, node.values), node.goto
                case ListNode(empty=str(empty)) if not items_of(node, state.scope()):
                    target = empty
                case BalanceNode() | LookupNameNode() | SmsNode() | HttpNode() | PayNode() | HandoverNode():
                    action = _action(node, state)
                    if action is not None:
                        return Turn(_state_during(state, node, hops), action=action)
                    target = failure_target(node)
                case _:
                    return self.show(self.stand_at(state, node))
        return self.end_with_error(state)

    def advance(self, state: State, target: str | None) -> Turn:
        """Go from the present screen to `target`; the screen is pushed onto the stack for back."""
        back = (*state.back, (state.node, state.page))[-MAX_BACK:]
        return self.go_to(replace(state, back=back), target)

    def go_back(self, state: State) -> Turn:
        """Return to the previous screen; on the first screen, show it again."""
        if not state.back:
            return self.show(state)
        *back, (name, page) = state.back
        node = self.document.nodes[name]
        return self.show(replace(self.stand_at(replace(state, back=tuple(back)), node), page=page))

    def stand_at(self, state: State, node: Node) -> State:
        """Return the state on arrival at the screen of `node`.

        The start clears the stack for back. A screen that is already on the stack is popped to, so that going back
        never loops. Each visit to a confirmation gets its own name; every other screen clears it, except a secret
        entry, which may be between a confirmation and its payment.
        """
        names = [name for name, _ in state.back]
        back = () if node.name == self.document.start else state.back
        visits = state.confirm_visits
        confirmation = state.confirmation if isinstance(node, InputNode) and node.secret else None
        if isinstance(node, ConfirmNode):
            visits += 1
            confirmation = f"{node.name}#{visits}"
        return replace(
            state,
            node=node.name,
            page=0,
            back=back[: names.index(node.name)] if node.name in names else back,
            attempts=0,
            hops=0,
            secrets={},
            interlude=None,
            handover_entries=None,
            confirm_visits=visits,
            confirmation=confirmation,
        )

    def show(self, state: State, notice: str = "") -> Turn:
        """Show the screen of the present node and page."""
        node = self.document.nodes[state.node]
        pages = self.pages(state, node, notice)
        page = min(state.page, len(pages) - 1)
        ends = isinstance(node, EndNode)
        screen = Screen(self.budget(state).cut(pages[page]), state.node, state.language, page, ends)
        return Turn(state if state.page == page else replace(state, page=page), screen)

    def pages(self, state: State, node: Node, notice: str = "") -> list[str]:
        """Return all pages of a node that has a screen."""
        assert isinstance(node, ScreenNode)
        budget, has_back = self.budget(state), bool(state.back) and not isinstance(node, EndNode)
        place = (node.name, state.language, self.channel.transliterates, has_back, budget)
        if not notice and place in self.document.page_cache:
            return self.document.page_cache[place]
        renderer = Renderer(self.document, state.language, self.channel.transliterates)
        view = renderer.view(node, LiveValues(state.scope()), notice)
        pages = view.pages(renderer.footer(back=has_back), budget)
        if not notice and is_constant(node):
            self.document.page_cache[place] = pages
        return pages

    def say(self, state: State, text: str, *, ends: bool) -> Turn:
        """Show a text that is not from a node: a built-in sentence, or the screen of a client's server."""
        renderer = Renderer(self.document, state.language, self.channel.transliterates)
        written = self.budget(state).cut(renderer.write(text))
        return Turn(replace(state, hops=0, secrets={}), Screen(written, state.node, state.language, ends=ends))

    def end_with_error(self, state: State) -> Turn:
        """End with an apology: there is no next node, or an action failed and the menu has no node for that."""
        return self.say(state, phrase("trouble", state.language), ends=True)

    def budget(self, state: State) -> Budget:
        """Return the budget of a screen in this session."""
        return self.document.budget_for(state.facts.network).narrowed(self.channel.budget)

    def assign(self, state: State, assignments: Assignments) -> State:
        """Set variables one after another; a value that does not fit its variable unsets it."""
        if not assignments:
            return state
        # Copy all variables once, not for each assignment: a menu may have many of both.
        kept, scope = dict(state.variables), state.scope()
        for name, expression in assignments:
            self._set(kept, name, expression.value(scope))
            if name not in state.secrets:
                scope["vars"][name] = kept.get(name)
        return replace(state, variables=kept)

    def keep(self, state: State, name: str, value: Any) -> State:
        """Set one variable, or unset it when the value does not fit its declaration."""
        kept = dict(state.variables)
        self._set(kept, name, value)
        return replace(state, variables=kept)

    def _set(self, kept: dict[str, Any], name: str, value: Any) -> None:
        converted = self.document.variables[name].convert(value)
        kept.pop(name, None)
        if converted is not None:
            kept[name] = converted


def failure_target(node: ActionNode, *, timed_out: bool = False) -> str | None:
    """Return the next node after a failed action; None when the menu has none."""
    if isinstance(node, PayNode):
        return node.rejected
    if isinstance(node, SmsNode):
        return node.goto
    if isinstance(node, HttpNode) and timed_out and node.on_timeout is not None:
        return node.on_timeout
    return node.on_error


def handover_action(node: HandoverNode, entries: tuple[str, ...]) -> HandoverAction:
    """Return the action for one step of a handover, with all entries since it began."""
    return HandoverAction(node.name, node.url, node.protocol, entries[-1] if entries else "", "*".join(entries))


def _state_during(state: State, node: ActionNode, hops: int) -> State:
    """Return the state during an action, without the values that only this action may use."""
    return replace(
        state,
        node=node.name,
        hops=hops,
        secrets={},
        confirmation=None if isinstance(node, PayNode) else state.confirmation,
        handover_entries=() if isinstance(node, HandoverNode) else None,
    )


def _action(node: ActionNode, state: State) -> MenuAction | None:
    """Return the action of a node, or None when its values are not valid."""
    scope = state.scope()
    match node:
        case PayNode():
            return _payment(node, state)
        case BalanceNode():
            account = _account(node.of.value(scope))
            return BalanceAction(node.name, account) if account else None
        case LookupNameNode():
            number = _phone_number(node.of.value(scope))
            return LookupNameAction(node.name, number) if number else None
        case SmsNode():
            number, text = _phone_number(node.to.value(scope)), node.text.in_language(state.language).shown(scope)
            return SmsAction(node.name, number, transliterate(text)) if number and text.strip() else None
        case HttpNode():
            headers = tuple((name, value.filled(scope)) for name, value in node.headers)
            url = node.url.filled(scope, lambda value: quote(value, safe=""))
            return HttpAction(node.name, node.method, url, headers, _body(node.body, scope), node.timeout_ms)
    return handover_action(node, ())


def _payment(node: PayNode, state: State) -> PayAction | None:
    scope = state.scope()
    amount = node.amount.value(scope)
    phone_number = _phone_number(node.phone_number.value(scope))
    to_phone_number = _phone_number(node.to_phone_number.value(scope)) if node.to_phone_number else None
    account = _account(node.account.value(scope)) if node.account else "main"
    whole = isinstance(amount, int) and not isinstance(amount, bool) and 0 < amount <= MAX_PAYMENT_SHILLINGS
    if not (whole and phone_number and account and state.confirmation):
        return None
    if node.to_phone_number and not to_phone_number:
        return None
    return PayAction(node.name, node.kind, amount * 100, phone_number, to_phone_number, account, state.confirmation)


def _account(value: Any) -> str | None:
    return "main" if value == "main" else _phone_number(value)


def _phone_number(value: Any) -> str | None:
    return value if isinstance(value, str) and PHONE_NUMBER.fullmatch(value) else None


def _body(body: Any, scope: Mapping[str, Any]) -> Any:
    match body:
        case Template():
            return body.raw(scope)
        case dict():
            return {key: _body(value, scope) for key, value in body.items()}
        case list():
            return [_body(value, scope) for value in body]
    return body
