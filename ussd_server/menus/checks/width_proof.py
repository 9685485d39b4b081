"""The width proof: every screen fits, for each node, language and network, with all variables at their maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from ussd_server.menus.document.bounds import WorkBudget
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.findings import Finding, error, node_path, shorten
from ussd_server.menus.document.nodes import EndNode, InputNode, PinNode, ScreenNode, SmsNode, has_screen
from ussd_server.menus.engine.entries import notices
from ussd_server.menus.engine.views import OPTIONS, WORDS, Renderer, WidestValues
from ussd_server.menus.text import BASIC, EXTENSION, Budget, Size, joined, measure, sms_parts, transliterate
from ussd_server.menus.tools.node_parts import texts

CHANNELS = (True, False)  # with and without transliteration: a menu may be dialled on both kinds
_CHARACTERS_A_UNIT = 20  # characters for each unit of work: about a microsecond

Lines = Sequence[str]
Measured = tuple[Size, Lines]
MOST_PARTS = 3
# A shorter value may move a character of two units to the end of a part, which it then leaves empty: at most one unit
# in each part but the last.
_RESERVE = " " * (MOST_PARTS - 1)


@dataclass(frozen=True, slots=True)
class Layout:
    """A node as one screen, and the smallest pages into which it may be divided; none if it is not paged."""

    size: Size
    whole: Lines
    pieces: Sequence[Lines]

    def screens(self, budget: Budget) -> Sequence[Lines]:
        """Return the screens that have to fit: the whole node, or its pages."""
        return self.pieces if self.pieces and budget.excess_of(self.size) else (self.whole,)


def prove(document: Document, work: WorkBudget) -> Iterator[Finding]:
    """Yield a finding for every node, language and network whose longest screen is over budget.

    Why no screen can be longer: a value is written in the basic alphabet, one septet a character, and is cut to its
    declared width. A value therefore never makes a text longer than its widest form, and never turns it to UCS-2.
    Leaving out an option, a notice or a navigation line only shortens a screen (see `Budget.characters` for UCS-2).
    For a paged node, the smallest pages into which it may be divided are measured.

    Screens are measured once for all networks. Raises `WorkExceededError` when there are too many.
    """
    budgets: dict[str | None, Budget] = {None: document.budgets.common}
    budgets.update((name, each) for name, each in document.budgets.networks.items() if each != document.budgets.common)
    narrowest = Budget(min(each.septets for each in budgets.values()), min(each.ucs2 for each in budgets.values()))
    measurer = _Measurer(work)
    for node, language in _shown(document):
        layouts = [
            (layout.size, measurer.longest(layout.screens(narrowest)))
            for layout in _layouts(document, node, language, measurer)
            if narrowest.excess_of(layout.size)
        ]
        for network, budget in budgets.items():
            screens = [screen for size, longest in layouts if budget.excess_of(size) for screen in longest]
            size, lines = max(screens, key=lambda screen: budget.excess_of(screen[0]), default=(Size("gsm7", 0), ()))
            if budget.excess_of(size):
                yield _finding(node.name, language, network, budget, size, joined(lines))


@dataclass(frozen=True, slots=True)
class FullestScreen:
    """The fullest screen of a language on a network, every variable at its maximum. `used` and `limit` count `unit`.

    `network` None stands for every network without a budget of its own.
    """

    language: str
    network: str | None
    node: str
    text: str
    used: int
    limit: int
    unit: str

    @property
    def share(self) -> float:
        """The used part of the budget; above 1 the screen does not fit."""
        return self.used / self.limit


def fullest_screens(document: Document, work: WorkBudget) -> list[FullestScreen]:
    """Return the fullest screen of each language on each network. Raises `WorkExceededError` when they are too many."""
    budgets: dict[str | None, Budget] = {None: document.budgets.common}
    budgets.update(document.budgets.networks)
    measurer = _Measurer(work)
    fullest: dict[tuple[str, str | None], FullestScreen] = {}
    for node, language in _shown(document):
        for layout in _layouts(document, node, language, measurer):
            for network, budget in budgets.items():
                for size, lines in measurer.longest(layout.screens(budget)):
                    screen = FullestScreen(
                        language, network, node.name, joined(lines), size.units, budget.limit_of(size), size.unit
                    )
                    before = fullest.get((language, network))
                    if before is None or screen.share > before.share:
                        fullest[language, network] = screen
    return list(fullest.values())


class _Measurer:
    """Measures screens by adding up their lines; each line is measured once."""

    def __init__(self, work: WorkBudget) -> None:
        self.work = work
        self._sizes: dict[str, Size] = {}
        self._widest: dict[str, str] = {}

    def size_of(self, lines: Lines) -> Size:
        """Return the size of the lines as one screen, with line breaks."""
        sizes = [(self.measure(line), line) for line in lines if line]
        breaks = max(0, len(sizes) - 1)
        if all(size.encoding == "gsm7" for size, _ in sizes):
            return Size("gsm7", sum(size.units for size, _ in sizes) + breaks)
        # Every GSM-7 character is one 16-bit character.
        return Size("ucs2", sum(len(line) if size.encoding == "gsm7" else size.units for size, line in sizes) + breaks)

    def longest(self, screens: Sequence[Lines]) -> list[Measured]:
        """Return the longest GSM-7 screen and the longest UCS-2 screen."""
        self.work.spend(2 * len(screens))
        longest: dict[str, Measured] = {}
        for lines in screens:
            size = self.size_of(lines)
            if size.encoding not in longest or longest[size.encoding][0].units < size.units:
                longest[size.encoding] = (size, lines)
        return list(longest.values())

    def measure(self, text: str) -> Size:
        if text not in self._sizes:
            self.work.spend(1 + len(text) // _CHARACTERS_A_UNIT)
            self._sizes[text] = measure(text)
        return self._sizes[text]

    def widest_character(self, text: str) -> str:
        """Return the widest character of a text; one outside GSM-7 is wider than all others."""
        if text not in self._widest:
            self.work.spend(len(text) // _CHARACTERS_A_UNIT)
            sizes = {character: measure(character) for character in sorted(set(text))}
            self._widest[text] = max(
                sizes, key=lambda each: (sizes[each].encoding == "ucs2", sizes[each].units), default=""
            )
        return self._widest[text]


def _shown(document: Document) -> Iterator[tuple[ScreenNode, str]]:
    """Yield every node that has a screen, with every language.

    Where a text is missing that may not be missing, only that is reported.
    """
    for node in document.nodes.values():
        if has_screen(node):
            for language in document.languages:
                if document.fallback or all(language in text.by_language for _, text in texts(node)):
                    yield node, language


def _layouts(document: Document, node: ScreenNode, language: str, measurer: _Measurer) -> Iterator[Layout]:
    """Yield the layouts of a node: on both kinds of channel, with each notice that may be shown above it."""
    values = WidestValues(document)
    variable = document.variables.get(node.var) if isinstance(node, InputNode) else None
    sentences = sorted(notices(node, values, language, variable))
    stages = range(len(node.stages) if isinstance(node, PinNode) else 1)
    for transliterates, stage in product(CHANNELS, stages):
        renderer = Renderer(document, language, transliterates)
        view = renderer.view(node, values, stage=stage)
        footer = renderer.footer(back=node.name != document.start and not isinstance(node, EndNode))
        # Laying out the lines is work as well: one text may be laid out in many languages.
        measurer.work.spend(2 * len(view.lines) + len(sentences) + (len(view.body) + sum(map(len, view.lines))) // 50)
        for sentence in sentences:
            body = [renderer.write(sentence), view.body]
            whole = [*body, *view.lines, *footer.lines(more=False, prev=False)]
            pieces: list[Lines] = []
            if view.layout == OPTIONS:
                pieces = [[*body, *footer.lines(more=bool(view.lines), prev=False)]]
                pieces += [[line, *footer.lines(more=True, prev=True)] for line in view.lines]
            elif view.layout == WORDS:
                widest = measurer.widest_character(view.body)
                pieces = [
                    [widest, *footer.lines(more=True, prev=True)],
                    [widest, *view.lines, *footer.lines(more=False, prev=True)],
                ]
            yield Layout(measurer.size_of(whole), whole, pieces)


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
        path=(*node_path(node), "text"),
    )


def find_long_messages(document: Document, work: WorkBudget) -> Iterator[Finding]:
    """Find messages without text, and those that could take more than three parts. Each part is paid for."""
    for name, node in document.nodes.items():
        if isinstance(node, SmsNode):
            for language in document.languages:
                text = node.text.in_language(language)
                widest = transliterate(text.widest)
                work.spend(1 + len(widest) // _CHARACTERS_A_UNIT)
                if not widest.strip():
                    yield error("text", f"the message has no text in `{language}`", name, ("text", language))
                parts = sms_parts(widest + (_RESERVE if text.names else ""))
                if parts > MOST_PARTS:
                    message = (
                        f"the message could take {parts} parts in `{language}`, and {MOST_PARTS} are allowed; shorten "
                        "the text, or give its variables a smaller max_len"
                    )
                    yield error("parts", message, name, ("text", language))
