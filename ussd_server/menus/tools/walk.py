"""A walk through a menu: the screens after each act, what each key does there, and the script that repeats the walk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ussd_server.menus.document import nodes
from ussd_server.menus.document.document import Document
from ussd_server.menus.engine.engine import asks_secret, notice_of_pages
from ussd_server.menus.engine.navigator import DisplayOptions, Navigator, SessionFacts, State
from ussd_server.menus.engine.resumption import TO_MENU
from ussd_server.menus.engine.views import Choice, choices, items_of
from ussd_server.menus.phrases import phrase
from ussd_server.menus.text import Screen, measure
from ussd_server.menus.tools.scripts import MAX_STEPS, to_fill_in
from ussd_server.menus.tools.simulator import Simulator, World

MAX_ACTS = MAX_STEPS - 1


@dataclass(frozen=True, slots=True)
class Act:
    """An action of the phone: `send` (`text`), `retry` or `redial`."""

    kind: str
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class WalkScreen:
    """A screen, and what a designer wants to know about it. `act` led to it; `used` and `limit` count `unit`.

    `secret` names what the screen asks for secretly: the variable, or the node where there is none. Empty elsewhere.
    """

    act: Act
    text: str
    ends: bool
    node: str
    node_type: str
    language: str
    network: str
    used: int
    limit: int
    unit: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    keys: tuple[Choice, ...] = ()
    secret: str = ""


@dataclass(frozen=True, slots=True)
class Walk:
    """All screens of a walk, the phone after it, and the acts that could be done before the session was over."""

    simulator: Simulator
    entries: tuple[str, ...]
    screens: tuple[WalkScreen, ...]


def walk(
    document: Document,
    facts: SessionFacts,
    acts: Sequence[Act],
    language: str | None = None,
    entries: tuple[str, ...] = (),
) -> Walk:
    """Dial a menu and do `acts`; stops before an entry to a session that is over."""
    simulator = Simulator(document, facts, World(), language)
    simulator.dial(entries)
    screens = [_seen(simulator, Act("send"))]
    for act in acts[:MAX_ACTS]:
        if act.kind in ("send", "retry") and simulator.is_over:
            break
        match act.kind:
            case "send":
                simulator.send(act.text)
            case "retry":
                simulator.repeat()
            case "redial":
                simulator.redial()
        screens.append(_seen(simulator, act))
    return Walk(simulator, entries, tuple(screens))


def script_of(walked: Walk, name: str) -> dict[str, Any]:
    """Return the script that repeats a walk: it expects the first line of every screen.

    A secret entry is left out: in its place stands what its author has to fill in.
    """
    simulator = walked.simulator
    facts = simulator.facts
    dial = {"phone": facts.phone_number, "code": facts.service_code, "network": facts.network}
    if walked.entries:
        dial["text"] = "*".join(walked.entries)
    payments = list(simulator.payments.values())
    paid = {key: value for key, value in payments[-1].items() if value is not None} if payments else "none"
    script: dict[str, Any] = {"name": name, "dial": dial}
    first = walked.screens[0].language
    if first != simulator.document.default_language:
        script["language"] = first
    script["steps"] = list(_steps(walked.screens))
    script["after"] = {"transaction": paid, "node": simulator.state.node, "language": simulator.state.language}
    return script


def _steps(screens: Sequence[WalkScreen]) -> Iterator[dict[str, Any]]:
    for number, screen in enumerate(screens):
        step: dict[str, Any] = {}
        match screen.act.kind:
            case "retry" | "redial" as act:
                step[act] = True
            case _ if number:
                asked = screens[number - 1].secret
                step["send"] = to_fill_in(asked) if asked else screen.act.text
        line = next((line for line in screen.text.split("\n") if line.strip()), "")
        yield {**step, "expect": line, "end": screen.ends}


def seen_screen(
    document: Document, screen: Screen, state: State | None, network: str, channel: DisplayOptions, act: Act
) -> WalkScreen:
    """Return what a designer wants to know about a screen. `state` is None when the session is over."""
    budget = document.budget_for(network).narrowed(channel.budget)
    size = measure(screen.text)
    walk_screen = WalkScreen(
        act=act,
        text=screen.text,
        ends=screen.ends,
        node=screen.node,
        node_type=nodes.kind_of(document.nodes[screen.node]),
        language=screen.language,
        network=network,
        used=size.units,
        limit=budget.limit_of(size),
        unit=size.unit,
        variables={} if state is None else dict(state.variables),
    )
    if state is None or screen.ends:
        return walk_screen
    secret = _name_of(document, state) if asks_secret(document, state) else ""
    return replace(walk_screen, keys=next_keys(document, state, channel), secret=secret)


def _name_of(document: Document, state: State) -> str:
    node = document.nodes[state.node]
    return node.var if isinstance(node, nodes.InputNode) else state.node


def _seen(simulator: Simulator, act: Act) -> WalkScreen:
    seen = seen_screen(
        simulator.document, simulator.screen, simulator.state, simulator.facts.network, simulator.channel, act
    )
    return replace(seen, keys=()) if simulator.is_over else seen


def next_keys(document: Document, state: State, channel: DisplayOptions) -> tuple[Choice, ...]:
    """Return the keys of a screen; none for a last screen."""
    node, language = document.nodes[state.node], state.language
    label = document.navigation.label
    if state.interlude == "resume":
        again = Choice("2", phrase("start_again", language), document.start)
        return (Choice("1", label("yes", language), state.node), again)
    if state.interlude is not None:
        return (Choice(TO_MENU, phrase("menu", language), document.start),)
    if isinstance(node, nodes.EndNode):
        return ()
    if isinstance(node, nodes.HandoverNode):
        return (Choice("", node.url, state.node),)
    if not isinstance(node, nodes.ScreenNode):
        return ()
    navigation = _navigation(document, state, node, channel)
    if isinstance(node, nodes.PinNode):
        return (Choice("", "PIN", node.goto), *navigation)
    if isinstance(node, nodes.InputNode):
        return (Choice("", "secret entry" if node.secret else f"vars.{node.var}", node.goto), *navigation)
    return (*choices(document, node, state.values(), language), *navigation)


def _navigation(document: Document, state: State, node: nodes.ScreenNode, channel: DisplayOptions) -> Iterator[Choice]:
    keys, language = document.navigation, state.language
    if state.back:
        yield Choice(keys.back, keys.label("back", language), state.back[-1][0])
        yield Choice(keys.home, phrase("home", language), document.start)
    if isinstance(node, nodes.InputNode | nodes.PinNode | nodes.ConfirmNode):
        return
    if isinstance(node, nodes.ListNode) and not items_of(node, state.scope()):
        return
    last = len(Navigator(document, channel).pages(state, node, notice_of_pages(state, node))) - 1
    if state.page < last:
        yield Choice(keys.more, keys.label("more", language), node.name)
    if state.page > 0:
        yield Choice(keys.prev, keys.label("prev", language), node.name)
