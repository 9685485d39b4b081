"""A menu drawn as SVG: columns of boxes from the first screen to the last, with a line for every way."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as Xml

from ussd_server.menus.document import Document
from ussd_server.menus.graph import graph

WIDTH, GAP, MARGIN, LINE = 200, 150, 24, 15
CHARACTERS_A_LINE = 30
MAX_LINES = 3
SWEEPS = 4

_COLOURS = {"pay": "#fde2c8", "confirm": "#fff3bf", "end": "#e3e6ea", "menu": "#d9ecff", "list": "#d9ecff"}
_DEED_COLOUR, _OTHER_COLOUR = "#e6dcf7", "#e2f4e4"
_DEEDS = ("http", "balance", "lookup_name", "handover")


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
    """Give the SVG of a document: columns by distance from the start, crossings reduced, nothing overlapping."""
    described = graph(document)
    ways: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for edge in described["edges"]:
        ways[edge["from"]].append(edge)
    deepest = max((node["rank"] for node in described["nodes"] if node["rank"] is not None), default=0)
    boxes = {
        node["id"]: Box(
            node["id"], node["type"], _wrapped(node["text"]), deepest + 1 if node["rank"] is None else node["rank"]
        )
        for node in described["nodes"]
    }
    columns = _columns(boxes, ways)
    height = _place(columns, ways)
    width = 2 * MARGIN + len(columns) * (WIDTH + GAP) - GAP
    svg = Xml.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}", "width": str(width),
            "height": str(height), "font-family": "sans-serif", "font-size": "11", "role": "img",
        },
    )  # fmt: skip
    Xml.SubElement(svg, "title").text = document.title or document.id
    Xml.SubElement(svg, "rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    for box in boxes.values():
        for position, way in enumerate(ways[box.name]):
            _draw_way(svg, box, position, boxes[way["to"]], way["label"])
    for box in boxes.values():
        _draw_box(svg, box, is_start=box.name == document.start)
    return Xml.tostring(svg, encoding="unicode")


def _columns(boxes: dict[str, Box], ways: dict[str, list[dict[str, Any]]]) -> list[list[Box]]:
    """Sort the boxes into columns, each column by the average place of what leads to it."""
    origins: dict[str, list[str]] = defaultdict(list)
    for name, leaving in ways.items():
        for way in leaving:
            origins[way["to"]].append(name)
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


def _place(columns: list[list[Box]], ways: dict[str, list[dict[str, Any]]]) -> int:
    """Give every box its place and size; returns the height of the drawing."""
    tallest = 0
    for number, column in enumerate(columns):
        y = MARGIN
        for box in column:
            box.height = LINE * (max(len(box.lines) + 1, len(ways[box.name])) + 1)
            box.x, box.y = MARGIN + number * (WIDTH + GAP), y
            y += box.height + 2 * LINE
        tallest = max(tallest, y)
    for column in columns:
        used = column[-1].y + column[-1].height + 2 * LINE if column else tallest
        for box in column:
            box.y += (tallest - used) // 2
    return tallest


def _draw_way(svg: Xml.Element, box: Box, position: int, target: Box, label: str) -> None:
    """Draw a line from its own place on the right of a box to the left of another; a way back is dashed."""
    x, y = box.x + WIDTH, box.y + LINE * (position + 1)
    to_x, to_y = target.x, target.y + target.height // 2
    forward = target.column > box.column
    bend = GAP // 2 if forward else GAP
    line = {
        "d": f"M{x} {y} C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}",
        "fill": "none",
        "stroke": "#5b6b7b" if forward else "#b0b9c2",
    }
    Xml.SubElement(svg, "path", line if forward else {**line, "stroke-dasharray": "4 3"})
    Xml.SubElement(svg, "circle", {"cx": str(to_x), "cy": str(to_y), "r": "3", "fill": "#5b6b7b"})
    if label:
        text = Xml.SubElement(svg, "text", {"x": str(x + 4), "y": str(y - 3), "fill": "#34404c", "font-size": "10"})
        text.text = _shortened(label, 24)


def _draw_box(svg: Xml.Element, box: Box, *, is_start: bool) -> None:
    fill = _DEED_COLOUR if box.kind in _DEEDS else _COLOURS.get(box.kind, _OTHER_COLOUR)
    frame = {"stroke": "#1f6feb" if is_start else "#5b6b7b", "stroke-width": "3" if is_start else "1", "rx": "6"}
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
