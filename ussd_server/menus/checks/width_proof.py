"""The proof that every screen fits: each node, language and network, with every variable at its declared maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ussd_server.menus.document.bounds import WorkBudget
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.findings import Finding, shorten
from ussd_server.menus.document.nodes import EndNode, InputNode, ScreenNode
from ussd_server.menus.engine.entries import notices
from ussd_server.menus.engine.views import OPTIONS, WORDS, Painter, WidestValues
from ussd_server.menus.text.gsm7 import BASIC, EXTENSION, Size, measure
from ussd_server.menus.text.screen import Budget, Screen, joined

CHANNELS = (True, False)  # one that transliterates, and one that does not: a menu may be dialled on either
_CHARACTERS_A_UNIT = 20  # of work: how many characters are measured or written in about a microsecond

Lines = Sequence[str]
Measured = tuple[Size, Lines]


@dataclass(frozen=True, slots=True)
class Layout:
    """A node as one screen, and the smallest screens into which it may have to be divided; none if it is not paged."""

    size: Size
    whole: Lines
    pieces: Sequence[Lines]

    def screens(self, budget: Budget) -> Sequence[Lines]:
        """Return the screens that have to fit; a node that fits whole needs no pages."""
        return self.pieces if self.pieces and budget.excess_of(self.size) else (self.whole,)


def prove(document: Document, work: WorkBudget) -> Iterator[Finding]:
    """Return a finding for every node, language and network whose worst screen is over budget.

    Why the worst case is the worst: a value is shown in the basic alphabet, one septet a character, and is cut to the
    width of its declaration, so a text is never longer than at its widest and never becomes UCS-2 because of a value.
    Leaving out an option, a notice or a navigation line only makes a screen shorter (`Budget.characters` keeps that
    true where it stops being UCS-2). A paged node is proven by the smallest pages it may have to be divided into.

    Screens are measured once, however many networks there are. Raises `WorkExceededError` when there are too many.
    """
    budgets: dict[str | None, Budget] = {None: document.budget}
    budgets.update((name, each) for name, each in document.network_budgets.items() if each != document.budget)
    narrowest = Budget(min(each.septets for each in budgets.values()), min(each.ucs2 for each in budgets.values()))
    ruler = _Ruler(work)
    for node, language in _shown(document):
        layouts = [
            (layout.size, ruler.longest(layout.screens(narrowest)))
            for layout in _layouts(document, node, language, ruler)
            if narrowest.excess_of(layout.size)
        ]
        for network, budget in budgets.items():
            screens = [screen for size, longest in layouts if budget.excess_of(size) for screen in longest]
            size, lines = max(screens, key=lambda screen: budget.excess_of(screen[0]), default=(Size("gsm7", 0), ()))
            if budget.excess_of(size):
                yield _finding(node.name, language, network, budget, size, joined(lines))


def fullest_screen(document: Document) -> Screen:
    """Return the screen that leaves the least room within the document's budget, with every variable at its maximum."""
    budget, ruler = document.budget, _Ruler(WorkBudget())
    fullest, largest = Screen("", document.start, document.default_language), 0.0
    for node, language in _shown(document):
        for layout in _layouts(document, node, language, ruler):
            for size, lines in ruler.longest(layout.screens(budget)):
                share = size.units / (budget.septets if size.encoding == "gsm7" else budget.characters)
                if share > largest:
                    fullest, largest = Screen(joined(lines), node.name, language), share
    return fullest


class _Ruler:
    """Measures screens by adding up their lines; a line that was measured before is not measured again."""

    def __init__(self, work: WorkBudget) -> None:
        self.work = work
        self._sizes: dict[str, Size] = {}
        self._widest: dict[str, str] = {}

    def size_of(self, lines: Lines) -> Size:
        """Return what the lines take as one screen, with the line breaks between them."""
        sizes = [(self.measure(line), line) for line in lines if line]
        breaks = max(0, len(sizes) - 1)
        if all(size.encoding == "gsm7" for size, _ in sizes):
            return Size("gsm7", sum(size.units for size, _ in sizes) + breaks)
        # A character of GSM-7 is always one 16-bit character.
        return Size("ucs2", sum(len(line) if size.encoding == "gsm7" else size.units for size, line in sizes) + breaks)

    def longest(self, screens: Sequence[Lines]) -> list[Measured]:
        """Return the longest of the screens that are GSM-7, and the longest of those that are UCS-2."""
        self.work.spend(2 * len(screens))
        longest: dict[str, Measured] = {}
        for lines in screens:
            size = self.size_of(lines)
            if size.encoding not in longest or longest[size.encoding][0].units < size.units:
                longest[size.encoding] = (size, lines)
        return list(longest.values())

    def measure(self, text: str) -> Size:
        """Return the size of a text."""
        if text not in self._sizes:
            self.work.spend(1 + len(text) // _CHARACTERS_A_UNIT)
            self._sizes[text] = measure(text)
        return self._sizes[text]

    def widest_character(self, text: str) -> str:
        """Return the character of a text that takes most; one outside GSM-7 takes more than any within."""
        if text not in self._widest:
            self.work.spend(len(text) // _CHARACTERS_A_UNIT)
            sizes = {character: measure(character) for character in sorted(set(text))}
            self._widest[text] = max(
                sizes, key=lambda each: (sizes[each].encoding == "ucs2", sizes[each].units), default=""
            )
        return self._widest[text]


def _shown(document: Document) -> Iterator[tuple[ScreenNode, str]]:
    """Return every node that has a screen, in every language."""
    for node in document.nodes.values():
        if isinstance(node, ScreenNode):
            for language in document.languages:
                yield node, language


def _layouts(document: Document, node: ScreenNode, language: str, ruler: _Ruler) -> Iterator[Layout]:
    """Return the node as it is laid out on both channels, below each sentence that may stand above it."""
    values = WidestValues(document)
    variable = document.variables.get(node.var) if isinstance(node, InputNode) else None
    sentences = sorted(notices(node, values, language, variable))
    for transliterates in CHANNELS:
        painter = Painter(document, language, transliterates)
        view = painter.view(node, values)
        footer = painter.footer(back=node.name != document.start and not isinstance(node, EndNode))
        # Writing the lines is work, too, and a text may be written in many languages although it stands there once.
        ruler.work.spend(2 * len(view.lines) + len(sentences) + (len(view.body) + sum(map(len, view.lines))) // 50)
        for sentence in sentences:
            body = [painter.write(sentence), view.body]
            whole = [*body, *view.lines, *footer.lines(more=False, prev=False)]
            pieces: list[Lines] = []
            if view.layout == OPTIONS:
                pieces = [[*body, *footer.lines(more=bool(view.lines), prev=False)]]
                pieces += [[line, *footer.lines(more=True, prev=True)] for line in view.lines]
            elif view.layout == WORDS:
                widest = ruler.widest_character(view.body)
                pieces = [
                    [widest, *footer.lines(more=True, prev=True)],
                    [widest, *view.lines, *footer.lines(more=False, prev=True)],
                ]
            yield Layout(ruler.size_of(whole), whole, pieces)


def _finding(node: str, language: str, network: str | None, budget: Budget, size: Size, screen: str) -> Finding:
    excess = budget.excess_of(size)
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
        shorten(screen),
    )
