"""What each key does at the present screen of a session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.nodes import (
    ConfirmNode,
    EndNode,
    HandoverNode,
    InputNode,
    LanguageNode,
    ListNode,
    MenuNode,
    ScreenNode,
    TextNode,
)
from ussd_server.menus.engine.navigator import DisplayOptions, Navigator, State
from ussd_server.menus.engine.resumption import TO_MENU
from ussd_server.menus.engine.views import items_of
from ussd_server.menus.phrases import phrase


@dataclass(frozen=True, slots=True)
class NextKey:
    """A key, its label, and the node that it leads to; `key` is empty for a free entry."""

    key: str
    label: str
    goto: str | None


def next_keys(document: Document, state: State, channel: DisplayOptions) -> tuple[NextKey, ...]:
    """Return the keys of a screen; none for a last screen."""
    node, language = document.nodes[state.node], state.language
    label = document.navigation.label
    if state.interlude == "resume":
        again = NextKey("2", phrase("start_again", language), document.start)
        return (NextKey("1", label("yes", language), state.node), again)
    if state.interlude is not None:
        return (NextKey(TO_MENU, phrase("menu", language), document.start),)
    if isinstance(node, EndNode):
        return ()
    if isinstance(node, HandoverNode):
        return (NextKey("", node.url, state.node),)
    if not isinstance(node, ScreenNode):
        return ()
    return (*_choices(document, state, node), *_navigation(document, state, node, channel))


def _choices(document: Document, state: State, node: ScreenNode) -> Iterator[NextKey]:
    label, values = document.navigation.label, state.values()
    match node:
        case MenuNode():
            for option in values.options(node):
                yield NextKey(option.key, values.text(option.label, state.language), option.goto)
        case ConfirmNode():
            yield NextKey("1", label("yes", state.language), node.yes)
            yield NextKey("2", label("no", state.language), node.no)
        case ListNode():
            for number, item in enumerate(values.labels(node, state.language), start=1):
                yield NextKey(str(number), item, node.goto)
        case LanguageNode():
            for key, _, name in node.options:
                yield NextKey(key, name, node.goto)
        case TextNode():
            yield NextKey("1", label("continue", state.language), node.goto)
        case InputNode():
            yield NextKey("", "secret entry" if node.secret else f"vars.{node.var}", node.goto)


def _navigation(document: Document, state: State, node: ScreenNode, channel: DisplayOptions) -> Iterator[NextKey]:
    keys, language = document.navigation, state.language
    if state.back:
        yield NextKey(keys.back, keys.label("back", language), state.back[-1][0])
        yield NextKey(keys.home, phrase("home", language), document.start)
    if isinstance(node, InputNode | ConfirmNode):
        return
    if isinstance(node, ListNode) and not items_of(node, state.scope()):
        return
    last = len(Navigator(document, channel).pages(state, node)) - 1
    if state.page < last:
        yield NextKey(keys.more, keys.label("more", language), node.name)
    if state.page > 0:
        yield NextKey(keys.prev, keys.label("prev", language), node.name)
