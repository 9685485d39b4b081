"""The menu engine as pure functions: document, state and entry in; new state with a screen or an action out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.nodes import (
    BalanceNode,
    ConfirmNode,
    EndNode,
    HandoverNode,
    HttpNode,
    InputNode,
    LanguageNode,
    ListNode,
    LookupNameNode,
    MenuNode,
    Node,
    PayNode,
    PinNode,
    SmsNode,
    TextNode,
    WaitNode,
)
from ussd_server.menus.document.rules import Rule
from ussd_server.menus.engine.actions import (
    ActionOutcome,
    Answered,
    BalanceFound,
    Failed,
    HandedOver,
    HttpAction,
    MenuAction,
    NameFound,
    Paid,
    PayAction,
    PaymentSeen,
    SmsAction,
    failure_target,
    handover_action,
)
from ussd_server.menus.engine.entries import CheckedNode, EntryError, notice, read_entry
from ussd_server.menus.engine.navigator import (
    MASK,
    MAX_HANDOVER_ENTRIES,
    STANDARD,
    DisplayOptions,
    Navigator,
    SessionFacts,
    State,
    Turn,
)
from ussd_server.menus.engine.pins import apply_pin_outcome, enter_pin
from ussd_server.menus.engine.resumption import leave_interlude
from ussd_server.menus.engine.views import items_of
from ussd_server.menus.phrases import phrase
from ussd_server.menus.text import drop_controls

MAX_FAST_FORWARD = 50


def start(
    document: Document,
    facts: SessionFacts,
    language: str | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    entries: Sequence[str] = (),
    channel: DisplayOptions = STANDARD,
) -> Turn:
    """Begin a session, in `language` if the menu has it.

    `values` sets variables that the document declares as given. `entries` were dialled with the code. They are applied
    through menus, inputs, lists and languages only, up to a confirmation, a secret, a payment, a message, an http call
    that is not GET, or the first invalid entry; the others are dropped.
    """
    navigator = Navigator(document, channel)
    state = navigator.begin(facts, language, values)._replace(ahead=tuple(entries[:MAX_FAST_FORWARD]) or None)
    return _apply_remaining(navigator, navigator.go_to(state, document.start))


def dialled_entries(text: str) -> tuple[str, ...]:
    """Return the entries of a text that was dialled after a code, joined by `*`."""
    return tuple(text.split("*")) if text.strip("*") else ()


def enter(document: Document, state: State, entry: str, channel: DisplayOptions = STANDARD) -> Turn:
    """Process an entry at the screen of `state`.

    Only a state with a screen is ever stored. After a crash between an action and its `resume`, the same entry at the
    stored state returns the same action.
    """
    navigator = Navigator(document, channel)
    text = MASK if asks_secret(document, state) else drop_controls(entry)[:160]
    return _enter(navigator, state, entry)._replace(entry_shown=text)


def asks_secret(document: Document, state: State) -> bool:
    """Whether the next entry may be a secret, such as a PIN: it is never stored or shown."""
    node = document.nodes[state.node]
    return isinstance(node, HandoverNode | PinNode) or (isinstance(node, InputNode) and node.secret)


def enter_masked(document: Document, state: State, channel: DisplayOptions, entry: str = MASK) -> Turn:
    """Process a secret entry that is no longer known, as a valid one. For replays of past conversations."""
    node = document.nodes[state.node]
    assert isinstance(node, InputNode)
    entered = state._replace(secrets={**state.kept, node.var: entry}, kept={})
    return Navigator(document, channel).advance(entered, node.goto)


def resume(document: Document, state: State, outcome: ActionOutcome, channel: DisplayOptions = STANDARD) -> Turn:
    """Continue after the action of `state`, with its outcome."""
    navigator = Navigator(document, channel)
    turn = _apply_outcome(navigator, state, outcome)
    if state.ahead is not None and _stops_fast_forward(turn.action) and state.back:
        turn = navigator.go_back(state)
        return turn._replace(state=turn.state._replace(ahead=None))
    return _apply_remaining(navigator, turn)


def finish(
    document: Document, turn: Turn, run: Callable[[MenuAction], ActionOutcome], channel: DisplayOptions = STANDARD
) -> Turn:
    """Run the actions of a turn until it has a screen. Keeps the entry and the language that was chosen."""
    entered, chosen = turn, turn.language_chosen
    while turn.action is not None:
        turn = resume(document, turn.state, run(turn.action), channel)
        chosen = turn.language_chosen or chosen
    return turn._replace(language_chosen=chosen, entry_shown=entered.entry_shown)


def _apply_remaining(navigator: Navigator, turn: Turn) -> Turn:
    """Apply the remaining entries of a fast-forward, as far as allowed."""
    while turn.screen is not None and turn.state.ahead and _may_pass(navigator.document, turn.state):
        entry, *rest = turn.state.ahead
        following = _enter(navigator, turn.state._replace(ahead=tuple(rest)), entry)
        if _stops_fast_forward(following.action):
            break
        chosen = following.language_chosen or turn.language_chosen
        turn = following._replace(language_chosen=chosen)
        if turn.state.attempts:
            break
    if turn.screen is not None and turn.state.ahead is not None:
        turn = turn._replace(state=turn.state._replace(ahead=None))
    return turn


def _may_pass(document: Document, state: State) -> bool:
    node = document.nodes[state.node]
    return isinstance(node, MenuNode | ListNode | LanguageNode) or (isinstance(node, InputNode) and not node.secret)


def _stops_fast_forward(action: MenuAction | None) -> bool:
    return isinstance(action, PayAction | SmsAction) or (isinstance(action, HttpAction) and action.method != "GET")


def _enter(navigator: Navigator, state: State, entry: str) -> Turn:
    document = navigator.document
    node = document.nodes[state.node]
    if state.interlude is not None:
        return leave_interlude(navigator, state, entry.strip())
    if isinstance(node, HandoverNode):
        entries = (*(state.handover_entries or ()), drop_controls(entry))[-MAX_HANDOVER_ENTRIES:]
        return Turn(state._replace(handover_entries=entries), action=handover_action(node, entries))
    typed = entry.strip()
    return _navigate(navigator, state, typed) or _choose(navigator, state, typed)


def _navigate(navigator: Navigator, state: State, typed: str) -> Turn | None:
    """Follow a navigation key; None when the entry is not one here."""
    keys, node = navigator.document.navigation, navigator.document.nodes[state.node]
    if isinstance(node, EndNode):
        return navigator.show(state)
    if typed == keys.back:
        return navigator.go_back(state)
    if typed == keys.home:
        return navigator.go_to(_unconfirmed(state._replace(back=())), navigator.document.start)
    if typed in (keys.more, keys.prev) and not isinstance(node, InputNode | PinNode | ConfirmNode):
        page = state.page + (1 if typed == keys.more else -1)
        sentence = notice_of_pages(state, node)
        if 0 <= page < len(navigator.pages(state, node, sentence)):
            return navigator.show(state._replace(page=page), sentence if page else "")
    return None


def notice_of_pages(state: State, node: Node) -> str:
    """Return the notice on the first page of a menu or list that was shown again; empty without one.

    It takes room of that page, so the pages below it begin with other options.
    """
    if not state.attempts or not isinstance(node, MenuNode | ListNode | LanguageNode):
        return ""
    return notice(node, None, state.values(), state.language)


def _choose(navigator: Navigator, state: State, typed: str) -> Turn:
    node = navigator.document.nodes[state.node]
    match node:
        case MenuNode():
            options = state.values().options(node)
            option = next((each for each in options if each.key == typed), None)
            if option is not None:
                assigned = navigator.assign(state, option.set)
                if assigned is None:
                    return navigator.advance(state, node.on_error)
                return navigator.advance(assigned, option.goto)
        case ConfirmNode() if typed in ("1", "2"):
            return (
                navigator.advance(state, node.yes) if typed == "1" else navigator.advance(_unconfirmed(state), node.no)
            )
        case LanguageNode():
            language = next((each for key, each, _ in node.options if key == typed), None)
            if language is not None:
                return navigator.advance(state._replace(language=language), node.goto)._replace(
                    language_chosen=language
                )
        case ListNode():
            items = items_of(node, state.scope())
            if typed in (str(number) for number in range(1, len(items) + 1)):
                return _choose_item(navigator, state, node, items[int(typed) - 1])
        case TextNode():
            last = state.page == len(navigator.pages(state, node)) - 1
            return navigator.advance(state, node.goto) if last else navigator.show(state)
        case WaitNode():
            return navigator.wait(state, node)
        case InputNode():
            return _store_input(navigator, state, node, typed)
        case PinNode():
            return enter_pin(navigator, state, node, typed)
    assert isinstance(node, CheckedNode)
    return _refuse(navigator, state, node, None)


def _choose_item(navigator: Navigator, state: State, node: ListNode, item: Any) -> Turn:
    if node.var is not None:
        value = node.value.value({**state.scope(), "item": item}) if node.value is not None else item
        state = navigator.keep(state, node.var, value)
        if node.var not in state.variables:
            return navigator.advance(state, node.on_error)
    return navigator.advance(state, node.goto)


def _store_input(navigator: Navigator, state: State, node: InputNode, typed: str) -> Turn:
    try:
        value = read_entry(node, navigator.document.variables[node.var], typed, state.scope())
    except EntryError as refused:
        return _refuse(navigator, state, node, refused.rule)
    if node.secret:
        return navigator.advance(state._replace(secrets={**state.kept, node.var: value}, kept={}), node.goto)
    return navigator.advance(navigator.keep(state, node.var, value), node.goto)


def _refuse(navigator: Navigator, state: State, node: CheckedNode, rule: Rule | None) -> Turn:
    """Show the node again from its first page, below a notice; after too many invalid entries, go to `invalid.goto`."""
    attempts = state.attempts + 1
    if node.invalid.goto is not None and attempts >= node.invalid.max:
        return navigator.advance(_unconfirmed(state), node.invalid.goto)
    variable = navigator.document.variables[node.var] if isinstance(node, InputNode) else None
    sentence = notice(node, rule, state.values(), state.language, variable)
    return navigator.show(state._replace(attempts=attempts, page=0), sentence)


def _unconfirmed(state: State) -> State:
    return state._replace(confirmation=None)


def _apply_outcome(navigator: Navigator, state: State, outcome: ActionOutcome) -> Turn:
    node = navigator.document.nodes[state.node]
    match node, outcome:
        case PayNode(), Paid(accepted=True):
            return navigator.go_to(state._replace(back=()), node.accepted)
        case PayNode(), Paid():
            return navigator.go_to(state, node.rejected)
        case PayNode(), _:
            # It is not known whether the payment was created, so the screen must not say that it failed.
            return navigator.say(state, phrase("payment_processing", state.language), ends=True)
        case WaitNode(), PaymentSeen(word=word):
            return navigator.go_to(state, getattr(node, word))
        case PinNode(), _:
            return apply_pin_outcome(navigator, state, node, outcome)
        case HandoverNode(), HandedOver(text=text, ends=ends):
            return navigator.say(state, _cleaned(text), ends=ends)
        case BalanceNode(), BalanceFound(available_cents=cents):
            return _store_values(navigator, state, node, {node.var: cents // 100})
        case LookupNameNode(), NameFound(name=name):
            return _store_values(navigator, state, node, {node.var: name})
        case HttpNode(), Answered(data=data):
            return _store_values(navigator, state, node, {var: _value_at(data, path) for var, path in node.map})
        case ((BalanceNode() | LookupNameNode() | SmsNode() | HttpNode() | HandoverNode()), _):
            timed_out = isinstance(outcome, Failed) and outcome.timed_out
            return navigator.go_to(state, failure_target(node, timed_out=timed_out))
    return navigator.end_with_error(state)


def _store_values(
    navigator: Navigator, state: State, node: BalanceNode | LookupNameNode | HttpNode, values: Mapping[str, Any]
) -> Turn:
    """Store the values of an outcome; when one does not fit its variable, go to `on_error`."""
    for name, value in values.items():
        state = navigator.keep(state, name, value)
        if name not in state.variables:
            return navigator.go_to(state, node.on_error)
    return navigator.go_to(state, node.goto)


def _value_at(data: Any, path: str) -> Any:
    """Return the value at a dotted path of a JSON reply; a number is the index in a list."""
    for step in path.split("."):
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, list) and step.isascii() and step.isdigit() and len(step) <= 4 and int(step) < len(data):
            data = data[int(step)]
        else:
            return None
    return data


def _cleaned(text: str) -> str:
    """Remove all control characters except line breaks from the screen of a client's server."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n")
    return "\n".join("".join(character for character in line if character.isprintable()) for line in lines)
