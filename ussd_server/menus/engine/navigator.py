"""The state of a session, and how it moves through the nodes of a menu to the next screen or action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ussd_server.menus.document import nodes
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.expressions import Assignments, CalendarDay, Expression, NoValueError, Scope
from ussd_server.menus.document.templates import LocalizedText
from ussd_server.menus.document.variables import EVERY_PROVIDER, ProviderStates
from ussd_server.menus.engine.actions import MenuAction, PinAction, WaitAction, action_of, failure_target
from ussd_server.menus.engine.kept_secrets import Digest, KeptSecret, digests_of, kept_secrets
from ussd_server.menus.engine.views import Renderer, is_constant, items_of
from ussd_server.menus.phrases import phrase
from ussd_server.menus.text import MAX_SEPTETS, MAX_UCS2, Budget, Screen
from ussd_server.values import unchanging

MAX_HOPS = 24  # nodes without a screen in one step
MAX_BACK = 20
MAX_HANDOVER_ENTRIES = 50
MASK = "****"
_NOTHING: Mapping[str, Any] = {}
SAMPLE_DAY = "2026-12-31"
"""Today in the tools that walk a menu, so that scripts expect the same date every day."""


@unchanging
class SessionFacts:
    """The facts of a session, known from its first step; documents read them as `session.x`."""

    phone_number: str  # +256 and nine digits
    service_code: str  # as dialled, for example *165#
    network: str = ""  # the network code, for example 64110
    session_id: str = ""
    today: str = SAMPLE_DAY  # in Kampala, when the session began; documents read it as `today()`
    has_pin: bool | None = None  # None where the menu does not ask; documents read it as `subscriber.has_pin`
    providers: ProviderStates = field(default_factory=lambda: EVERY_PROVIDER, repr=False, compare=False)  # never stored

    def as_scope(self) -> dict[str, str]:
        """Return the facts by their names in documents."""
        return {
            "phone_number": self.phone_number,
            "service_code": self.service_code,
            "network": self.network,
            "session_id": self.session_id,
        }


@unchanging
class LiveValues:
    """The values of a running session."""

    scope: Scope

    def text(self, text: LocalizedText, language: str) -> str:
        return text.in_language(language).phone_text(self.scope)

    def options(self, node: nodes.MenuNode) -> Sequence[nodes.Option]:
        """Return the options whose condition holds."""
        return [option for option in node.options if option.when is None or option.when.is_true(self.scope)]

    def labels(self, node: nodes.ListNode, language: str) -> Sequence[str]:
        template = node.label.in_language(language)
        return [template.phone_text({**self.scope, "item": item}) for item in items_of(node, self.scope)]


class State(NamedTuple):
    """The state of a session between two steps: a tuple, because a changed copy of a dataclass takes 3 us more.

    `confirmation` names the visit to a confirm node that the session is at or has just confirmed; otherwise None.
    `stage` is the screen of a `pin` node. Where `is_past_pin`, the session shows what only the right PIN opens.
    `secrets` (secret entries) and `ahead` (remaining entries of a fast-forward) last for one step and are never stored.
    `kept` are secret entries that the present screen may compare; their digests are stored.
    """

    facts: SessionFacts
    node: str
    language: str
    page: int = 0
    back: tuple[tuple[str, int], ...] = ()
    variables: Mapping[str, Any] = _NOTHING
    attempts: int = 0
    confirm_visits: int = 0
    confirmation: str | None = None
    interlude: str | None = None  # "resume" or "payment": a built-in screen before the node
    handover_entries: tuple[str, ...] | None = None
    hops: int = 0
    stage: int = 0
    is_past_pin: bool = False
    secrets: Mapping[str, Any] = _NOTHING
    kept: Mapping[str, Any] = _NOTHING
    ahead: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        """Show where the session is, and nothing that was entered."""
        return f"State(node={self.node!r}, page={self.page})"

    def scope(self) -> dict[str, Any]:
        """Return the values that expressions and texts may read."""
        return {
            "vars": {**self.variables, **self.kept, **self.secrets},
            "session": self.facts.as_scope(),
            "provider": self.facts.providers,
            "subscriber": {"has_pin": bool(self.facts.has_pin)},
            "today": CalendarDay(self.facts.today),
        }

    def values(self) -> LiveValues:
        """Return the values that the view of a node shows."""
        return LiveValues(self.scope())

    def to_dict(self, digest_of: Digest | None = None) -> dict[str, Any]:
        """Return the state as JSON values, without secrets: of those that are kept, only what `digest_of` returns."""
        stored = {**{name: getattr(self, name) for name in _STORED}, "facts": self.facts.as_scope()}
        if self.facts.today != SAMPLE_DAY:
            stored["facts"]["today"] = self.facts.today
        if self.facts.has_pin is not None:
            stored["facts"]["has_pin"] = self.facts.has_pin
        if self.kept and digest_of is not None:
            stored["kept"] = digests_of(self.kept, digest_of)
        return stored

    @classmethod
    def from_dict(
        cls, stored: Mapping[str, Any], digest_of: Digest | None = None, providers: ProviderStates = EVERY_PROVIDER
    ) -> State:
        """Read a state that `to_dict` returned, with the same `digest_of`."""
        values, entries = {name: stored[name] for name in _STORED}, stored["handover_entries"]
        values["back"] = tuple((node, page) for node, page in stored["back"])
        values["handover_entries"] = None if entries is None else tuple(entries)
        if digest_of is not None and "kept" in stored:
            values["kept"] = kept_secrets(stored["kept"], digest_of)
        return cls(facts=SessionFacts(**stored["facts"], providers=providers), **values)


_STORED = tuple(name for name in State._fields if name not in ("facts", "secrets", "kept", "ahead"))


class Turn(NamedTuple):
    """The result of one step: the new state, and a screen or an action. After the action, call `resume`.

    `language_chosen` is to be stored for the phone number. `entry_shown` is the entry for the transcript, masked when
    it may be secret.
    """

    state: State
    screen: Screen | None = None
    action: MenuAction | None = None
    language_chosen: str | None = None
    entry_shown: str = ""


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    """How a channel shows screens: whether to transliterate, and a budget narrower than the menu's."""

    transliterates: bool = True
    budget: Budget | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> DisplayOptions:
        """Return the options of a channel with these settings; null is as much as a phone shows."""
        septets, ucs2 = settings["septets"], settings["ucs2"]
        budget = Budget(septets or MAX_SEPTETS, ucs2 or MAX_UCS2) if septets or ucs2 else None
        return cls(settings["transliterates"], budget)


STANDARD = DisplayOptions()


@unchanging
class Navigator:
    """Navigates one document on one channel. Every method is pure: it takes a state and returns a turn."""

    document: Document
    channel: DisplayOptions

    def begin(self, facts: SessionFacts, language: str | None, values: Mapping[str, Any] | None) -> State:
        """Return the state before the first screen, with the variables that the document declares as given."""
        spoken = language if language in self.document.languages else self.document.default_language
        state = State(facts, self.document.start, spoken or self.document.default_language)
        for name, value in (values or {}).items():
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
                case nodes.RouterNode():
                    target = _routed(node, state)
                case nodes.SetNode():
                    assigned = self.assign(state, node.values)
                    state, target = (state, node.on_error) if assigned is None else (assigned, node.goto)
                case nodes.ListNode(empty=str(empty)) if not items_of(node, state.scope()):
                    target = empty
                case nodes.PinNode():
                    look = PinAction(node.name, "look", node.mode, node.tries)
                    return Turn(_state_during(state, node, hops), action=look)
                case nodes.WaitNode(text=None):
                    return self.wait(state._replace(hops=hops), node)
                case _ if isinstance(node, nodes.ActionNode):
                    action = action_of(node, state.scope(), state.language, state.confirmation)
                    if action is not None:
                        return Turn(_state_during(state, node, hops), action=action)
                    target = failure_target(node)
                case nodes.ConfirmNode() if self._shows_hole(node, state):
                    break
                case _:
                    return self.show(self.stand_at(state, node))
        return self.end_with_error(state)

    def wait(self, state: State, node: nodes.WaitNode) -> Turn:
        return Turn(_state_during(state, node, state.hops), action=WaitAction(node.name, node.seconds))

    def advance(self, state: State, target: str | None) -> Turn:
        """Go from the present screen to `target`; the screen is pushed onto the stack for back.

        Back never leads to a PIN.
        """
        back = (*state.back, (state.node, state.page))[-MAX_BACK:]
        return self.go_to(state._replace(back=back), target)

    def go_back(self, state: State) -> Turn:
        """Return to the previous screen; on the first screen, show it again."""
        if not state.back:
            return self.show(state)
        *back, (name, page) = state.back
        node = self.document.nodes[name]
        # Of secret entries in a row, the later ones are compared with the first: it has to be asked again.
        while back and _is_secret(node) and _is_secret(self.document.nodes[back[-1][0]]):
            *back, (name, page) = back
            node = self.document.nodes[name]
        return self.show(self.stand_at(state._replace(back=tuple(back)), node)._replace(page=page))

    def stand_at(self, state: State, node: nodes.Node) -> State:
        """Return the state on arrival at the screen of `node`.

        The start clears the stack for back. A screen that is already on the stack is popped to, so that going back
        never loops. Each visit to a confirmation gets its own name; every other screen clears it, except a secret
        entry, which may be between a confirmation and its payment.
        """
        names = [name for name, _ in state.back]
        back = () if node.name == self.document.start else state.back
        visits = state.confirm_visits
        confirmation = state.confirmation if _is_secret(node) or isinstance(node, nodes.PinNode) else None
        if isinstance(node, nodes.ConfirmNode):
            visits += 1
            confirmation = f"{node.name}#{visits}"
        return state._replace(
            node=node.name,
            page=0,
            back=back[: names.index(node.name)] if node.name in names else back,
            attempts=0,
            hops=0,
            stage=0,
            secrets={},
            kept=_kept_at(node, state.secrets),
            interlude=None,
            handover_entries=None,
            confirm_visits=visits,
            confirmation=confirmation,
        )

    def show(self, state: State, notice: str = "") -> Turn:
        node = self.document.nodes[state.node]
        pages = self.pages(state, node, notice)
        page = min(state.page, len(pages) - 1)
        ends = isinstance(node, nodes.EndNode)
        screen = Screen(pages[page], state.node, state.language, page, ends)
        return Turn(state if state.page == page else state._replace(page=page), screen)

    def pages(self, state: State, node: nodes.Node, notice: str = "") -> list[str]:
        assert nodes.has_screen(node)
        budget, has_back = self.budget(state), bool(state.back) and not isinstance(node, nodes.EndNode)
        place = (node.name, state.language, self.channel.transliterates, has_back, budget)
        if not notice and place in self.document.page_cache:
            return self.document.page_cache[place]
        renderer = Renderer(self.document, state.language, self.channel.transliterates)
        view = renderer.view(node, state.values(), notice, state.stage)
        pages = [budget.cut(page) for page in view.pages(renderer.footer(back=has_back), budget)]
        if not notice and is_constant(node):
            self.document.page_cache[place] = pages
        return pages

    def say(self, state: State, text: str, *, ends: bool) -> Turn:
        """Show a text that is not from a node: a built-in sentence, or the screen of a client's server."""
        renderer = Renderer(self.document, state.language, self.channel.transliterates)
        written = self.budget(state).cut(renderer.write(text))
        return Turn(state._replace(hops=0, secrets={}), Screen(written, state.node, state.language, ends=ends))

    def end_with_error(self, state: State) -> Turn:
        """End with an apology: there is no next node, or an action failed and the menu has no node for that."""
        return self.say(state, phrase("trouble", state.language), ends=True)

    def budget(self, state: State) -> Budget:
        return self.document.budget_for(state.facts.network).narrowed(self.channel.budget)

    def assign(self, state: State, assignments: Assignments) -> State | None:
        """Set variables one after another; None where an expression gives nothing that its variable can hold.

        No expression leaves a number without a value. The constant `None` clears a variable.
        """
        if not assignments:
            return state
        # Copy all variables once, not for each assignment: a menu may have many of both.
        kept, scope = dict(state.variables), state.scope()
        for name, expression in assignments:
            value = expression.value(scope)
            self._set(kept, name, value)
            if name not in kept and (value is not None or self._needs_value(name, expression)):
                return None
            if name not in state.secrets:
                scope["vars"][name] = kept.get(name)
        return state._replace(variables=kept)

    def keep(self, state: State, name: str, value: Any) -> State:
        """Set one variable, or unset it when the value does not fit its declaration."""
        kept = dict(state.variables)
        self._set(kept, name, value)
        return state._replace(variables=kept)

    def _shows_hole(self, node: nodes.ConfirmNode, state: State) -> bool:
        """Whether a question would show nothing where a number belongs: nobody can say yes to that."""
        scope, declared = state.scope(), self.document.variables
        return any(
            slot.name.scope == "vars"
            and declared[slot.name.name].is_number
            and slot.name.look_up(scope) is None
            and not slot.has_default
            for slot in node.text.in_language(state.language).slots
        )

    def _needs_value(self, name: str, expression: Expression) -> bool:
        return self.document.variables[name].is_number and expression.source.strip() != "None"

    def _set(self, kept: dict[str, Any], name: str, value: Any) -> None:
        converted = self.document.variables[name].convert(value)
        kept.pop(name, None)
        if converted is not None:
            kept[name] = converted


def _routed(node: nodes.RouterNode, state: State) -> str | None:
    """Return the next node of a router; `on_error` where a condition has no value."""
    scope = state.scope()
    try:
        return next((goto for when, goto in node.cases if when.holds(scope)), node.otherwise)
    except NoValueError:
        return node.on_error


def _is_secret(node: nodes.Node) -> bool:
    return isinstance(node, nodes.InputNode) and node.secret


def _kept_at(node: nodes.Node, entered: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the secret entries that a screen may compare: a menu all, a secret entry the one of this step."""
    if isinstance(node, nodes.MenuNode):
        return entered
    if _is_secret(node):
        return {name: value for name, value in entered.items() if not isinstance(value, KeptSecret)}
    return {}


def _state_during(state: State, node: nodes.ActionNode | nodes.PinNode | nodes.WaitNode, hops: int) -> State:
    """Return the state during an action, without the values that only this action may use."""
    return state._replace(
        node=node.name,
        hops=hops,
        secrets={},
        kept={},
        confirmation=None if isinstance(node, nodes.PayNode) else state.confirmation,
        handover_entries=() if isinstance(node, nodes.HandoverNode) else None,
    )
