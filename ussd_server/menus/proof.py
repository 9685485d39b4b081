"""The proof that every screen fits: each node, language and network, with every variable at its declared maximum."""

from __future__ import annotations

from collections.abc import Iterator

from ussd_server.menus.document import Document
from ussd_server.menus.entries import notices
from ussd_server.menus.findings import Finding
from ussd_server.menus.gsm7 import BASIC, EXTENSION, measure
from ussd_server.menus.nodes import EndNode, InputNode, ScreenNode
from ussd_server.menus.screen import Budget, Footer, Screen, option_pieces, single, word_pieces
from ussd_server.menus.views import OPTIONS, WORDS, Painter, View, WidestValues

CHANNELS = (True, False)  # one that transliterates, and one that does not: a menu may be dialled on either


def prove(document: Document) -> Iterator[Finding]:
    """Give a finding for every node, language and network whose worst screen is over budget.

    Why the worst case is the worst: a value is shown in the basic alphabet, one septet a character, and is cut to the
    width of its declaration, so a text is never longer than at its widest and never becomes UCS-2 because of a value.
    Leaving out an option, a notice or a navigation line only makes a screen shorter (`Budget.characters` keeps that
    true where it stops being UCS-2). A paged node is proven by the smallest pages it may have to be divided into.
    """
    for node in document.nodes.values():
        if isinstance(node, ScreenNode):
            for language in document.languages:
                yield from _findings(document, node, language)


def fullest_screen(document: Document) -> Screen:
    """Give the screen that leaves the least room within the document's budget, with every variable at its maximum."""
    drawn = [
        Screen(text, node.name, language)
        for node in document.nodes.values()
        if isinstance(node, ScreenNode)
        for language in document.languages
        for transliterates in CHANNELS
        for view, footer in _views(document, node, language, transliterates)
        for text in _worst_screens(view, footer, document.budget)
    ]
    return max(drawn, key=lambda screen: _share(document.budget, screen.text))


def _share(budget: Budget, text: str) -> float:
    """Say which part of the budget a text takes; 1 is all of it."""
    size = measure(text)
    return size.units / (budget.septets if size.encoding == "gsm7" else budget.characters)


def _findings(document: Document, node: ScreenNode, language: str) -> Iterator[Finding]:
    drawn = [each for transliterates in CHANNELS for each in _views(document, node, language, transliterates)]
    budgets: dict[str | None, Budget] = {None: document.budget}
    budgets.update((name, each) for name, each in document.network_budgets.items() if each != document.budget)
    for network, budget in budgets.items():
        screens = [screen for view, footer in drawn for screen in _worst_screens(view, footer, budget)]
        worst = max(screens, key=budget.excess, default="")
        if budget.excess(worst):
            yield _finding(node.name, language, network, budget, worst)


def _views(document: Document, node: ScreenNode, language: str, transliterates: bool) -> Iterator[tuple[View, Footer]]:
    painter = Painter(document, language, transliterates)
    values = WidestValues(document)
    variable = document.variables.get(node.var) if isinstance(node, InputNode) else None
    footer = painter.footer(back=node.name != document.start and not isinstance(node, EndNode))
    for notice in sorted(notices(node, values, language, variable)):
        yield painter.view(node, values, notice), footer


def _worst_screens(view: View, footer: Footer, budget: Budget) -> list[str]:
    """Give the screens that have to fit; a paged node that fits whole needs no pages."""
    whole = single(view.body, view.lines, footer)
    if budget.fits(whole) or view.layout not in (OPTIONS, WORDS):
        return [whole]
    if view.layout == OPTIONS:
        return option_pieces(view.body, view.lines, footer)
    return word_pieces(view.body, view.lines[0], footer)


def _finding(node: str, language: str, network: str | None, budget: Budget, screen: str) -> Finding:
    size, excess = measure(screen), budget.excess(screen)
    where = f"on network {network}" if network else "on every network"
    if size.encoding == "gsm7":
        unit, limit, cause = "septets", budget.septets, ""
    else:
        strange = next(character for character in screen if character not in BASIC and character not in EXTENSION)
        unit, limit = "characters", budget.characters
        cause = f", because `{strange}` is outside GSM-7 and turns the whole screen to UCS-2"
    return Finding(
        "error",
        "budget",
        f"{excess} {unit if excess > 1 else unit[:-1]} too many in `{language}` {where}: {size.units} of {limit}{cause}"
        "; shorten the text, or give its variables a smaller max_len",
        node,
        language,
        network,
        excess,
        unit,
        screen,
    )
