"""The content of a node before it is divided into pages, with live values or with every value at its widest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.expressions import Scope
from ussd_server.menus.document.nodes import (
    ConfirmNode,
    LanguageNode,
    ListNode,
    MenuNode,
    Option,
    PinNode,
    ScreenNode,
    TextNode,
    WaitNode,
)
from ussd_server.menus.document.templates import LocalizedText
from ussd_server.menus.document.variables import MAX_ITEMS
from ussd_server.menus.phrases import phrase
from ussd_server.menus.text import Budget, Footer, option_pages, single, transliterate, word_pages

OPTIONS, WORDS, SINGLE = "options", "words", "single"


class Values(Protocol):
    """The source of the values of a view."""

    def text(self, text: LocalizedText, language: str) -> str:
        """Return a text with its values."""

    def options(self, node: MenuNode) -> Sequence[Option]:
        """Return the options that are shown."""

    def labels(self, node: ListNode, language: str) -> Sequence[str]:
        """Return the label of every item."""


@dataclass(frozen=True, slots=True)
class WidestValues:
    """Every variable at its declared maximum."""

    document: Document

    def text(self, text: LocalizedText, language: str) -> str:
        return text.in_language(language).widest

    def options(self, node: MenuNode) -> Sequence[Option]:
        """Return all options: a screen with fewer options is never longer."""
        return node.options

    def labels(self, node: ListNode, language: str) -> Sequence[str]:
        """Return the widest label, once for each item that the list can have."""
        return [node.label.in_language(language).widest] * most_items(node)


@dataclass(frozen=True, slots=True)
class View:
    """The text of a node and the lines below it; `layout` defines how it is divided, at most `most` lines on a page."""

    body: str
    lines: tuple[str, ...]
    layout: str
    most: int | None = None

    def pages(self, footer: Footer, budget: Budget) -> list[str]:
        if self.layout == OPTIONS:
            return option_pages(self.body, self.lines, footer, budget, self.most)
        if self.layout == WORDS:
            return word_pages(self.body, self.lines[0], footer, budget)
        return [single(self.body, self.lines, footer)]


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders the nodes of one document in one language, with or without transliteration."""

    document: Document
    language: str
    transliterates: bool = True

    def view(self, node: ScreenNode, values: Values, notice: str = "", stage: int = 0) -> View:
        """Return the view of `node`, with `notice` above its text; `stage` is the screen of a `pin` node."""
        text = self._title(node, values, stage)
        body = f"{notice}\n{text}" if notice and text else notice or text
        layout = {MenuNode: OPTIONS, ListNode: OPTIONS, LanguageNode: OPTIONS, TextNode: WORDS}.get(type(node), SINGLE)
        offered = choices(self.document, node, values, self.language)
        lines = tuple(self.write(f"{each.key}. {each.label}") for each in offered)
        return View(self.write(body), lines, layout, _page_of(self.document, node))

    def footer(self, *, back: bool) -> Footer:
        more, prev, home = (self.write(self._line(name)) for name in ("more", "prev", "back"))
        return Footer(more, prev, home if back else None)

    def write(self, text: str) -> str:
        """Return `text` in the alphabet of the channel."""
        return transliterate(text) if self.transliterates else text

    def _line(self, name: str) -> str:
        navigation = self.document.navigation
        return f"{getattr(navigation, name)} {navigation.label(name, self.language)}"

    def _title(self, node: ScreenNode, values: Values, stage: int) -> str:
        if isinstance(node, PinNode) and stage:
            return phrase(f"pin_{node.stages[stage]}", self.language, length=str(node.length))
        if node.text is None:
            return phrase("choose_language", self.language)
        text = values.text(node.text, self.language)
        if isinstance(node, ListNode) and not values.labels(node, self.language):
            return f"{text}\n{phrase('empty_list', self.language)}"
        return text


class Choice(NamedTuple):
    """A key, its label, and the node that it leads to; `key` is empty for a free entry."""

    key: str
    label: str
    goto: str


def choices(document: Document, node: ScreenNode, values: Values, language: str) -> Iterator[Choice]:
    """Yield what can be chosen at a node, besides navigation."""
    label = document.navigation.label
    match node:
        case MenuNode():
            for option in values.options(node):
                yield Choice(option.key, values.text(option.label, language), option.goto)
        case ListNode():
            for number, item in enumerate(values.labels(node, language), start=1):
                yield Choice(str(number), item, node.goto)
        case LanguageNode():
            for key, _, name in node.options:
                yield Choice(key, name, node.goto)
        case ConfirmNode():
            yield Choice("1", label("yes", language), node.yes)
            yield Choice("2", label("no", language), node.no)
        case TextNode():
            yield Choice("1", label("continue", language), node.goto)
        case WaitNode():
            yield Choice("1", label("continue", language), node.succeeded)


def is_constant(node: ScreenNode) -> bool:
    """Return whether a node shows the same in every session of one language."""
    if isinstance(node, ListNode | PinNode) or (node.text is not None and node.text.names):
        return False
    return not isinstance(node, MenuNode) or all(
        option.when is None and not option.label.names for option in node.options
    )


def items_of(node: ListNode, scope: Scope) -> list[Any]:
    """Return the items of a list node; empty when its variable was never set."""
    items = node.items.value(scope)
    return list(items) if isinstance(items, list | tuple) else []


def most_items(node: ListNode) -> int:
    """Return how many items a list node can have."""
    return MAX_ITEMS if node.items.names else len(items_of(node, {}))


def _page_of(document: Document, node: ScreenNode) -> int | None:
    """Return how many items of a list variable stand on a page; None without such a bound."""
    names = node.items.names if isinstance(node, ListNode) else ()
    return next((document.variables[name.name].max_items for name in names if name.name in document.variables), None)
