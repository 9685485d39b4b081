"""A menu as an SVG diagram: columns of boxes from the first screen to the last, with a line for every edge."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as Xml

from ussd_server.menus.document.document import Document
from ussd_server.menus.tools.graph import graph

WIDTH, GAP, MARGIN, LINE = 200, 150, 24, 15
# So many characters fit into a box, or between two boxes, in the widest of the usual sans-serif fonts.
CHARACTERS_A_LINE = 28
CHARACTERS_OF_AN_EDGE = 24
MAX_LINES = 3
SWEEPS = 4

_COLOURS = {"pay": "#fde2c8", "confirm": "#fff3bf", "end": "#e3e6ea", "menu": "#d9ecff", "list": "#d9ecff"}
_ACTION_COLOUR, _OTHER_COLOUR = "#e6dcf7", "#e2f4e4"
_BACKGROUND_COLOUR, _LINE_COLOUR = "#ffffff", "#5b6b7b"
_ACTIONS = ("http", "balance", "lookup_name", "handover")


@dataclass(slots=True)
class Box:
    """A node in the drawing."""

    name: str
    kind: str
    lines: list[str]
    column: int
    height: int = 0
    x: int = 0
    y: int = 0


def draw(document: Document) -> str:
    """Return the SVG of a document: columns by distance from the start, few crossings, no overlapping boxes.

    An edge to the same or an earlier column is a label beside its box: a line would run behind other boxes.
    """
    described = graph(document)
    edges: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for edge in described["edges"]:
        edges[edge["from"]].append(edge)
    deepest = max((node["rank"] for node in described["nodes"] if node["rank"] is not None), default=0)
    boxes = {
        node["id"]: Box(
            node["id"], node["type"], _wrapped(node["text"]), deepest + 1 if node["rank"] is None else node["rank"]
        )
        for node in described["nodes"]
    }
    columns = _columns(boxes, edges)
    height = _place(columns, edges)
    width = 2 * MARGIN + len(columns) * (WIDTH + GAP) - GAP
    svg = Xml.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}", "width": str(width),
            "height": str(height), "font-family": "sans-serif", "font-size": "11", "role": "img",
        },
    )  # fmt: skip
    Xml.SubElement(svg, "title").text = document.title or document.id
    Xml.SubElement(svg, "rect", {"width": "100%", "height": "100%", "fill": _BACKGROUND_COLOUR})
    places = [(box, box.y + LINE * row, edge) for box in boxes.values() for row, edge in enumerate(edges[box.name], 1)]
    for box, y, edge in places:
        if boxes[edge["to"]].column > box.column:
            _draw_line(svg, box.x + WIDTH, y, boxes[edge["to"]])
    for box, y, edge in places:
        is_forward = boxes[edge["to"]].column > box.column
        _draw_label(svg, box.x + WIDTH, y, edge["label"], None if is_forward else edge["to"])
    for box in boxes.values():
        _draw_box(svg, box, is_start=box.name == document.start)
    return Xml.tostring(svg, encoding="unicode")


def _columns(boxes: dict[str, Box], edges: dict[str, list[dict[str, Any]]]) -> list[list[Box]]:
    """Sort the boxes into columns, each column by the average position of the boxes that lead to it."""
    origins: dict[str, list[str]] = defaultdict(list)
    for name, leaving in edges.items():
        for edge in leaving:
            origins[edge["to"]].append(name)
    columns: list[list[Box]] = [[] for _ in range(max((box.column for box in boxes.values()), default=0) + 1)]
    for box in boxes.values():
        columns[box.column].append(box)
    for _ in range(SWEEPS):
        for before, column in pairwise(columns):
            places = {box.name: place for place, box in enumerate(before)}
            averages = {
                box.name: _average([places[name] for name in origins[box.name] if name in places]) for box in column
            }
            column.sort(key=lambda box: averages[box.name])
    return columns


def _place(columns: list[list[Box]], edges: dict[str, list[dict[str, Any]]]) -> int:
    """Set the position and size of every box; return the height of the diagram."""
    tallest = 0
    for number, column in enumerate(columns):
        y = MARGIN
        for box in column:
            box.height = LINE * (max(len(box.lines) + 1, len(edges[box.name])) + 1)
            box.x, box.y = MARGIN + number * (WIDTH + GAP), y
            y += box.height + 2 * LINE
        tallest = max(tallest, y)
    for column in columns:
        used = column[-1].y + column[-1].height + 2 * LINE if column else tallest
        for box in column:
            box.y += (tallest - used) // 2
    return tallest


def _draw_line(svg: Xml.Element, x: int, y: int, target: Box) -> None:
    """Draw an arrow from the right of a box to the left of another."""
    to_x, to_y, bend = target.x, target.y + target.height // 2, GAP // 2
    curve = f"M{x} {y} C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"
    Xml.SubElement(svg, "path", {"d": curve, "fill": "none", "stroke": _LINE_COLOUR})
    head = f"M{to_x} {to_y} l-8 -4 v8 z"
    Xml.SubElement(svg, "path", {"d": head, "fill": _LINE_COLOUR})


def _draw_label(svg: Xml.Element, x: int, y: int, label: str, back_to: str | None) -> None:
    """Write the label of an edge above the beginning of its line, or the node to which it leads back."""
    text = _shortened(label, CHARACTERS_OF_AN_EDGE)
    if back_to is not None:
        half = CHARACTERS_OF_AN_EDGE // 2
        text = f"{_shortened(label, half)} → {_shortened(back_to, half)}".strip()
    place = {"x": str(x + 4), "y": str(y - 3 if back_to is None else y + 3), "font-size": "10"}
    # First an outline in the background colour, so that a line behind the text does not hide it.
    for paint in ({"stroke": _BACKGROUND_COLOUR, "stroke-width": "3", "fill": _BACKGROUND_COLOUR}, {"fill": "#34404c"}):
        Xml.SubElement(svg, "text", {**place, **paint}).text = text


def _draw_box(svg: Xml.Element, box: Box, *, is_start: bool) -> None:
    fill = _ACTION_COLOUR if box.kind in _ACTIONS else _COLOURS.get(box.kind, _OTHER_COLOUR)
    frame = {"stroke": "#1f6feb" if is_start else _LINE_COLOUR, "stroke-width": "3" if is_start else "1", "rx": "6"}
    place = {"x": str(box.x), "y": str(box.y), "width": str(WIDTH), "height": str(box.height)}
    Xml.SubElement(svg, "rect", {**place, **frame, "fill": fill})
    for number, line in enumerate([f"{_shortened(box.name, 22)} ({box.kind})", *box.lines], start=1):
        weight = {"font-weight": "bold"} if number == 1 else {}
        text = Xml.SubElement(svg, "text", {"x": str(box.x + 8), "y": str(box.y + LINE * number + 2), **weight})
        text.text = line


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
