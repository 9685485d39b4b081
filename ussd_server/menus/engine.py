"""The conversation as pure functions: a document, a state and an entry give a new state with a screen or a deed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ussd_server.menus.deeds import (
    Answered,
    BalanceFound,
    Deed,
    Failed,
    HandedOver,
    HttpDeed,
    NameFound,
    Outcome,
    Paid,
    PayDeed,
)  # fmt: skip
from ussd_server.menus.document import Document
from ussd_server.menus.entries import CheckedNode, EntryError, notice, read_entry
from ussd_server.menus.gsm7 import drop_controls
from ussd_server.menus.guide import MAX_HANDOVER_ENTRIES, STANDARD, Channel, Guide, failure_target, handover_deed
from ussd_server.menus.nodes import (
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
    PayNode,
    Rule,
    TextNode,
)  # fmt: skip
from ussd_server.menus.phrases import phrase
from ussd_server.menus.resumption import leave_interlude
from ussd_server.menus.state import MASK, State, Turn
from ussd_server.menus.variables import SessionFacts
from ussd_server.menus.views import LiveValues, items_of

MAX_FAST_FORWARD = 50


def start(
    document: Document,
    facts: SessionFacts,
    language: str | None = None,
    *,
    given: Mapping[str, Any] | None = None,
    entries: Sequence[str] = (),
    channel: Channel = STANDARD,
) -> Turn:
    """Begin a session, in the language remembered for the number when the menu has it.

    `given` fills variables that the document declares as given; `entries` were dialled along with the code and are
    applied as `fast_forward` does.
    """
    guide = Guide(document, channel)
    state = replace(guide.begin(facts, language, given), ahead=tuple(entries[:MAX_FAST_FORWARD]) or None)
    return _go_on(guide, guide.arrive(state, document.start))


def enter(document: Document, state: State, entry: str, channel: Channel = STANDARD) -> Turn:
    """Answer what a person typed at the screen where `state` stands.

    Only a state that came with a screen is ever stored and entered again: after a crash between a deed and its
    `resume`, the same entry at the state before names the same deed.
    """
    guide = Guide(document, channel)
    node = document.nodes[state.node]
    secret = isinstance(node, HandoverNode) or (isinstance(node, InputNode) and node.secret)
    return replace(
        _entered(guide, state, entry), entry_shown=MASK if secret else drop_controls(entry)[:160], is_secret=secret
    )


def resume(document: Document, state: State, outcome: Outcome, channel: Channel = STANDARD) -> Turn:
    """Go on after the deed at which `state` stands was done, with what came of it."""
    guide = Guide(document, channel)
    turn = _concluded(guide, state, outcome)
    if state.ahead is not None and _stops_fast_forward(turn.deed) and state.back:
        turn = guide.go_back(state)
        return replace(turn, state=replace(turn.state, ahead=None))
    return _go_on(guide, turn)


def fast_forward(document: Document, state: State, entries: Sequence[str], channel: Channel = STANDARD) -> Turn:
    """Apply entries through menus, inputs, lists and languages only.

    Stops before a confirmation, a secret, a payment or an http call that is not GET, and at the first entry that does
    not fit; what is left of the entries is dropped.
    """
    guide = Guide(document, channel)
    return _go_on(guide, guide.show(replace(state, ahead=tuple(entries[:MAX_FAST_FORWARD]) or None)))


def _go_on(guide: Guide, turn: Turn) -> Turn:
    """Apply the entries that a fast-forward has still before it, as far as it may go."""
    while turn.screen is not None and turn.state.ahead and _may_pass(guide.document, turn.state):
        entry, *rest = turn.state.ahead
        following = _entered(guide, replace(turn.state, ahead=tuple(rest)), entry)
        if _stops_fast_forward(following.deed):
            break
        chosen = following.language_chosen or turn.language_chosen
        turn = replace(following, language_chosen=chosen)
        if turn.state.attempts:
            break
    if turn.screen is not None and turn.state.ahead is not None:
        turn = replace(turn, state=replace(turn.state, ahead=None))
    return turn


def _may_pass(document: Document, state: State) -> bool:
    node = document.nodes[state.node]
    return isinstance(node, MenuNode | ListNode | LanguageNode) or (isinstance(node, InputNode) and not node.secret)


def _stops_fast_forward(deed: Deed | None) -> bool:
    return isinstance(deed, PayDeed) or (isinstance(deed, HttpDeed) and deed.method != "GET")


def _entered(guide: Guide, state: State, entry: str) -> Turn:
    document = guide.document
    node = document.nodes[state.node]
    if state.interlude is not None:
        return leave_interlude(guide, state, entry.strip())
    if isinstance(node, HandoverNode):
        entries = (*(state.handover_entries or ()), drop_controls(entry))[-MAX_HANDOVER_ENTRIES:]
        return Turn(replace(state, handover_entries=entries), deed=handover_deed(node, entries))
    typed = entry.strip()
    return _navigated(guide, state, typed) or _answered(guide, state, typed)


def _navigated(guide: Guide, state: State, typed: str) -> Turn | None:
    """Follow a navigation key, or give None when the entry is none here."""
    keys, node = guide.document.navigation, guide.document.nodes[state.node]
    if isinstance(node, EndNode):
        return guide.show(state)
    if typed == keys.back:
        return guide.go_back(state)
    if typed == keys.home:
        return guide.arrive(_unconfirmed(replace(state, back=())), guide.document.start)
    if typed in (keys.more, keys.prev) and not isinstance(node, InputNode | ConfirmNode):
        page = state.page + (1 if typed == keys.more else -1)
        if 0 <= page < len(guide.pages(state, node)):
            return guide.show(replace(state, page=page))
    return None


def _answered(guide: Guide, state: State, typed: str) -> Turn:
    node = guide.document.nodes[state.node]
    match node:
        case MenuNode():
            shown = LiveValues(state.scope()).options(node)
            option = next((each for each in shown if each.key == typed), None)
            if option is not None:
                return guide.leave(guide.assign(state, option.set), option.goto)
        case ConfirmNode() if typed in ("1", "2"):
            return guide.leave(state, node.yes) if typed == "1" else guide.leave(_unconfirmed(state), node.no)
        case LanguageNode():
            language = next((each for key, each, _ in node.options if key == typed), None)
            if language is not None:
                return replace(guide.leave(replace(state, language=language), node.goto), language_chosen=language)
        case ListNode():
            items = items_of(node, state.scope())
            if typed in (str(number) for number in range(1, len(items) + 1)):
                return _chosen(guide, state, node, items[int(typed) - 1])
        case TextNode():
            last = state.page == len(guide.pages(state, node)) - 1
            return guide.leave(state, node.goto) if last else guide.show(state)
        case InputNode():
            return _typed(guide, state, node, typed)
    assert isinstance(node, CheckedNode)
    return _refused(guide, state, node, None)


def _chosen(guide: Guide, state: State, node: ListNode, item: Any) -> Turn:
    if node.var is not None:
        value = node.value.value({**state.scope(), "item": item}) if node.value is not None else item
        state = guide.keep(state, node.var, value)
    return guide.leave(state, node.goto)


def _typed(guide: Guide, state: State, node: InputNode, typed: str) -> Turn:
    try:
        value = read_entry(node, guide.document.variables[node.var], typed, state.scope())
    except EntryError as refused:
        return _refused(guide, state, node, refused.rule)
    if node.secret:
        return guide.leave(replace(state, secrets={node.var: value}), node.goto)
    return guide.leave(guide.keep(state, node.var, value), node.goto)


def _refused(guide: Guide, state: State, node: CheckedNode, rule: Rule | None) -> Turn:
    """Show the node again from its first page, below a notice; after too many refusals go where the node says."""
    attempts = state.attempts + 1
    if node.invalid.goto is not None and attempts >= node.invalid.max:
        return guide.leave(_unconfirmed(state), node.invalid.goto)
    variable = guide.document.variables[node.var] if isinstance(node, InputNode) else None
    sentence = notice(node, rule, LiveValues(state.scope()), state.language, variable)
    return guide.show(replace(state, attempts=attempts, page=0), sentence)


def _unconfirmed(state: State) -> State:
    return replace(state, confirmation=None)


def _concluded(guide: Guide, state: State, outcome: Outcome) -> Turn:
    node = guide.document.nodes[state.node]
    match node, outcome:
        case PayNode(), Paid(accepted=True):
            return guide.arrive(replace(state, back=()), node.accepted)
        case PayNode(), Paid():
            return guide.arrive(state, node.rejected)
        case PayNode(), _:
            # Nobody knows whether the payment was recorded, so nobody may say that it failed.
            return guide.say(state, phrase("payment_processing", state.language), ends=True)
        case HandoverNode(), HandedOver(text=text, ends=ends):
            return guide.say(state, _tidied(text), ends=ends)
        case BalanceNode(), BalanceFound(available_cents=cents):
            return _kept(guide, state, node, {node.var: cents // 100})
        case LookupNameNode(), NameFound(name=name):
            return _kept(guide, state, node, {node.var: name})
        case HttpNode(), Answered(data=data):
            return _kept(guide, state, node, {var: _found(data, path) for var, path in node.map})
        case ((BalanceNode() | LookupNameNode() | HttpNode() | HandoverNode()), _):
            timed_out = isinstance(outcome, Failed) and outcome.timed_out
            return guide.arrive(state, failure_target(node, timed_out=timed_out))
    return guide.trouble(state)


def _kept(guide: Guide, state: State, node: BalanceNode | LookupNameNode | HttpNode, values: Mapping[str, Any]) -> Turn:
    """Keep what a deed brought; when one value does not fit its variable, the whole answer counts as an error."""
    for name, value in values.items():
        state = guide.keep(state, name, value)
        if name not in state.variables:
            return guide.arrive(state, node.on_error)
    return guide.arrive(state, node.goto)


def _found(data: Any, path: str) -> Any:
    """Follow a dotted path into an answer; a number picks from a list."""
    for step in path.split("."):
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, list) and step.isascii() and step.isdigit() and len(step) <= 4 and int(step) < len(data):
            data = data[int(step)]
        else:
            return None
    return data


def _tidied(text: str) -> str:
    """Bring a foreign screen into order: line breaks stay, other control characters go."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n")
    return "\n".join("".join(character for character in line if character.isprintable()) for line in lines)
