"""A menu as a graph of nodes and edges, and as an SVG diagram: rows of boxes from the first screen down to the last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated
from xml.etree import ElementTree as Xml

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.nodes import MenuNode, Node, PayNode, kind_of
from ussd_server.menus.document.templates import LocalizedText
from ussd_server.menus.text import drop_controls
from ussd_server.menus.tools.node_parts import exits, rank_nodes
from ussd_server.wire import Key

WIDTH, GAP, ROW_GAP, MARGIN, LINE = 244, 60, 56, 24, 16
# The characters that fit into a box in the widest of the usual sans-serif fonts.
CHARACTERS_A_LINE = 30
MAX_LINES = 3
MOST_IN_A_ROW = 6
SWEEPS = 4

_COLOURS = {"pay": "#fde2c8", "confirm": "#fff3bf", "end": "#e3e6ea", "menu": "#d9ecff", "list": "#d9ecff"}
_ACTION_COLOUR, _OTHER_COLOUR = "#e6dcf7", "#e2f4e4"
# Visible on a light and on a dark page.
_LINE_COLOUR, _START_COLOUR = "#7a8794", "#1f6feb"
_TEXT_COLOUR, _QUIET_COLOUR = "#1c2733", "#4b5a68"
_ACTIONS = ("http", "balance", "lookup_name", "sms", "handover", "wait_for_payment")


@dataclass(frozen=True, slots=True)
class GraphNode:
    id: Annotated[str, "The node's name in the document."]
    type: Annotated[str, "The type."]
    text: Annotated[str, "What the phone shows there."]
    rank: Annotated[int | None, "How many steps from the start; null for a node that cannot be reached."]


@dataclass(frozen=True, slots=True)
class GraphEdge:
    source: Annotated[str, Key("from"), "The node where the edge begins."]
    target: Annotated[str, Key("to"), "The node where the edge ends."]
    label: Annotated[str, "What the phone shows for this edge."]


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes and edges of a document, in its order."""

    start: Annotated[str, "The node where a session begins."]
    nodes: Annotated[tuple[GraphNode, ...], "The nodes."]
    edges: Annotated[tuple[GraphEdge, ...], "The edges."]


def graph(document: Document) -> Graph:
    """Return a document as a graph. The rank of a node is that of the shortest path."""
    ranks = rank_nodes(document)
    return Graph(
        document.start,
        tuple(
            GraphNode(name, kind_of(node), _caption(document, node), ranks.get(name))
            for name, node in document.nodes.items()
        ),
        tuple(
            GraphEdge(name, each.target, _label(document, node, each.label))
            for name, node in document.nodes.items()
            for each in exits(node)
            if each.target in document.nodes
        ),
    )


def _caption(document: Document, node: Node) -> str:
    if isinstance(node, PayNode):
        return f"{node.kind} of {node.amount.source}"
    text = getattr(node, "text", None)
    return text.in_language(document.default_language).source if isinstance(text, LocalizedText) else ""


def _label(document: Document, node: Node, label: str) -> str:
    if isinstance(node, MenuNode):
        for option in node.options:
            if option.key == label:
                return f"{label}. {option.label.in_language(document.default_language).source}"
    return label


@dataclass(slots=True)
class Box:
    """A node in the drawing. `note` is a line below its name; `exits` are its edges."""

    name: str
    kind: str
    text: str
    row: int
    note: str = ""
    exits: list[GraphEdge] = field(default_factory=list)
    x: int = 0
    y: int = 0

    @property
    def lines(self) -> list[str]:
        """The lines below the name."""
        return [*([self.note] if self.note else []), *_wrapped(self.text)]

    @property
    def height(self) -> int:
        return LINE * (len(self.lines) + len(self.exits) + 2)

    def exit_y(self, number: int) -> int:
        """The height at which the exit `number` is written, counted from 0."""
        return self.y + LINE * (len(self.lines) + number + 2)


def draw(document: Document, notes: Mapping[str, str] | None = None, marks: Mapping[str, str] | None = None) -> str:
    """Return the SVG of a document: rows by distance from the start, few crossings, no overlapping boxes.

    Each node is a group of class `node` with the id `node-NAME` and the attribute `data-node`. `notes` are written
    below the names of nodes, `marks` are further classes of their groups. Colours are attributes, which a style sheet
    may replace; the background is transparent.
    """
    boxes = _boxes(document, notes or {})
    rows = _rows(boxes)
    width, height = _place(rows)
    svg = Xml.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width} {height}",
            "width": str(width),
            "height": str(height),
            "font-family": "sans-serif",
            "font-size": "12",
            "role": "img",
            "class": "diagram",
        },
    )
    Xml.SubElement(svg, "title").text = drop_controls(document.title or document.id)
    for box in boxes.values():
        for number, edge in enumerate(box.exits):
            target = boxes[edge.target]
            if target.row > box.row:
                _draw_line(svg, box, number, target)
    for box in boxes.values():
        _draw_box(svg, box, boxes, (marks or {}).get(box.name, ""), is_start=box.name == document.start)
    return Xml.tostring(svg, encoding="unicode")


def _boxes(document: Document, notes: Mapping[str, str]) -> dict[str, Box]:
    """Return a box for every node. A rank with many nodes is divided into several rows."""
    described = graph(document)
    ranks: dict[int, list[GraphNode]] = defaultdict(list)
    unreachable = 1 + max((node.rank for node in described.nodes if node.rank is not None), default=0)
    for node in described.nodes:
        ranks[unreachable if node.rank is None else node.rank].append(node)
    boxes: dict[str, Box] = {}
    row = 0
    for rank in sorted(ranks):
        for position, node in enumerate(ranks[rank]):
            row += position > 0 and position % MOST_IN_A_ROW == 0
            boxes[node.id] = Box(node.id, node.type, node.text, row, notes.get(node.id, ""))
        row += 1
    for edge in described.edges:
        boxes[edge.source].exits.append(edge)
    return boxes


def _rows(boxes: Mapping[str, Box]) -> list[list[Box]]:
    """Sort the boxes into rows, each row by the average position of the boxes that lead to it."""
    origins: dict[str, list[str]] = defaultdict(list)
    for box in boxes.values():
        for edge in box.exits:
            origins[edge.target].append(box.name)
    rows: list[list[Box]] = [[] for _ in range(max((box.row for box in boxes.values()), default=0) + 1)]
    for box in boxes.values():
        rows[box.row].append(box)
    for _ in range(SWEEPS):
        for before, row in pairwise(rows):
            places = {box.name: place for place, box in enumerate(before)}
            averages = {
                box.name: _average([places[name] for name in origins[box.name] if name in places]) for box in row
            }
            row.sort(key=lambda box: averages[box.name])
    return rows


def _place(rows: list[list[Box]]) -> tuple[int, int]:
    """Set the position of every box; return width and height of the diagram."""
    widest = max((len(row) for row in rows), default=1) or 1
    width = 2 * MARGIN + widest * (WIDTH + GAP) - GAP
    y = MARGIN
    for row in rows:
        used = len(row) * (WIDTH + GAP) - GAP
        for number, box in enumerate(row):
            box.x, box.y = (width - used) // 2 + number * (WIDTH + GAP), y
        y += max((box.height for box in row), default=0) + ROW_GAP
    return width, y - ROW_GAP + MARGIN


def _draw_line(svg: Xml.Element, box: Box, number: int, target: Box) -> None:
    """Draw an arrow to the top of the target: from the bottom of a box above it, else from the exit."""
    middle, to_x, to_y = box.x + WIDTH // 2, target.x + WIDTH // 2, target.y
    if abs(to_x - middle) < WIDTH // 2:
        x, y, bend, down = middle, box.y + box.height, middle, ROW_GAP // 2
    else:
        side = -1 if to_x < middle else 1
        x, y, down = middle + side * WIDTH // 2, box.exit_y(number) - LINE // 4, 0
        bend = x + side * GAP
    edge = Xml.SubElement(svg, "g", {"class": "edge", "data-from": box.name, "data-to": target.name})
    curve = f"M{x} {y} C{bend} {y + down} {to_x} {to_y - ROW_GAP} {to_x} {to_y - 7}"
    Xml.SubElement(edge, "path", {"d": curve, "fill": "none", "stroke": _LINE_COLOUR, "stroke-width": "1.5"})
    Xml.SubElement(edge, "path", {"d": f"M{to_x} {to_y} l-4 -8 h8 z", "fill": _LINE_COLOUR})


def _draw_box(svg: Xml.Element, box: Box, boxes: Mapping[str, Box], mark: str, *, is_start: bool) -> None:
    group = {"class": f"node {mark}".strip(), "id": f"node-{box.name}", "data-node": box.name, "data-type": box.kind}
    drawn = Xml.SubElement(svg, "g", group)
    Xml.SubElement(drawn, "title").text = drop_controls(f"{box.name} ({box.kind}) {box.text}".strip())
    fill = _ACTION_COLOUR if box.kind in _ACTIONS else _COLOURS.get(box.kind, _OTHER_COLOUR)
    frame = {"stroke": _START_COLOUR if is_start else _LINE_COLOUR, "stroke-width": "3" if is_start else "1", "rx": "6"}
    place = {"x": str(box.x), "y": str(box.y), "width": str(WIDTH), "height": str(box.height)}
    Xml.SubElement(drawn, "rect", {**place, **frame, "fill": fill})
    name = f"{_shortened(box.name, 22)} ({box.kind})"
    _write(drawn, box.x + 8, box.y + LINE + 2, name, {"font-weight": "bold", "fill": _TEXT_COLOUR})
    for number, line in enumerate(box.lines, start=2):
        _write(drawn, box.x + 8, box.y + LINE * number + 2, line, {"fill": _TEXT_COLOUR})
    for number, edge in enumerate(box.exits):
        is_forward = boxes[edge.target].row > box.row
        label = _shortened(edge.label, 16)
        to = _shortened(edge.target, CHARACTERS_A_LINE - len(label))
        written = f"{label} {'→' if is_forward else '↑'} {to}".strip()
        _write(drawn, box.x + 8, box.exit_y(number), written, {"fill": _QUIET_COLOUR})


def _write(parent: Xml.Element, x: int, y: int, text: str, style: Mapping[str, str]) -> None:
    Xml.SubElement(parent, "text", {"x": str(x), "y": str(y), **style}).text = drop_controls(text)


def _wrapped(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > CHARACTERS_A_LINE and lines[-1]:
            lines.append("")
        lines[-1] = _shortened(f"{lines[-1]} {word}".strip(), CHARACTERS_A_LINE)
    kept = lines[:MAX_LINES] + (["…"] if len(lines) > MAX_LINES else [])
    return [line for line in kept if line]


def _shortened(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _average(places: list[int]) -> float:
    return sum(places) / len(places) if places else float("inf")
