"""The example menus pass the check, play their scripts, and can be drawn."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

import ussd_server.menus
from ussd_server.menus.checks.check import check
from ussd_server.menus.document.document import parse
from ussd_server.menus.document.findings import Report
from ussd_server.menus.engine.navigator import SessionFacts
from ussd_server.menus.phrases import PHRASES
from ussd_server.menus.source.texts import read_menu_file
from ussd_server.menus.text import MIN_SEPTETS, measure
from ussd_server.menus.tools.diagram import GAP, MARGIN, WIDTH, GraphEdge, GraphNode, draw, graph
from ussd_server.menus.tools.simulator import Simulator, World

FOLDER = Path(ussd_server.menus.__file__).parent / "examples"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
FACTS = SessionFacts("+256772123456", "*165#", "64110", "s")
SVG = "{http://www.w3.org/2000/svg}"


@cache
def example(name: str) -> Any:
    """Return an example menu, as the file has it."""
    return read_menu_file(FOLDER / f"{name}.yaml")[0]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_the_check_without_findings(name: str) -> None:
    assert check(example(name)) == Report(())
    assert len(example(name)["scripts"]) >= 3


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_scripts_of_an_example_fail_when_the_menu_says_something_else(name: str) -> None:
    spoiled = copy.deepcopy(example(name))
    for script in spoiled["scripts"]:
        script["steps"].append({"expect": "something that no screen shows"})
    findings = check(spoiled).errors
    assert [finding.rule for finding in findings] == ["script"] * len(spoiled["scripts"])


def test_the_demonstration_menu_takes_a_deposit_in_three_entries() -> None:
    phone = Simulator(parse(example("savings_group")), FACTS, World())
    phone.dial()
    for entry in ("1", "5000", "1"):
        assert not phone.screen.ends
        phone.send(entry)
    assert phone.screen.ends
    assert [each["amount"] for each in phone.payments.values()] == [5000]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_speaks_luganda_on_every_screen_it_can(name: str) -> None:
    document = parse(example(name))
    texts = [node.text for node in document.nodes.values() if getattr(node, "text", None) is not None]
    spoken = [text for text in texts if "lg" in text.by_language]
    assert len(spoken) >= len(texts) - 2


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_diagram_shows_every_node_once_and_no_boxes_overlap(name: str) -> None:
    document = parse(example(name))
    drawn = Xml.fromstring(draw(document))
    boxes = [
        tuple(int(rect.attrib[side]) for side in ("x", "y", "width", "height"))
        for rect in drawn.iter(f"{SVG}rect")
        if "x" in rect.attrib
    ]
    assert len(boxes) == len(document.nodes)
    for number, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, _, other_height in boxes[number + 1 :]:
            assert abs(x - other_x) >= width or y + height <= other_y or other_y + other_height <= y
    described = graph(document)
    groups = {group.attrib["data-node"]: group for group in drawn.iter(f"{SVG}g") if "data-node" in group.attrib}
    assert groups.keys() == {node.id for node in described.nodes}
    assert all(group.attrib["id"] == f"node-{name}" for name, group in groups.items())
    top = {name: int(next(group.iter(f"{SVG}rect")).attrib["y"]) for name, group in groups.items()}
    forward = [(edge.source, edge.target) for edge in described.edges if top[edge.target] > top[edge.source]]
    lines = [(g.attrib["data-from"], g.attrib["data-to"]) for g in drawn.iter(f"{SVG}g") if "data-from" in g.attrib]
    assert sorted(lines) == sorted(forward), "a line down for every exit that leads on"
    for edge in described.edges:
        arrow = "→" if (edge.source, edge.target) in forward else "↑"
        written = " ".join(text.text or "" for text in groups[edge.source].iter(f"{SVG}text"))
        assert f"{arrow} {edge.target[:8]}" in written
    rank = {node.id: node.rank for node in described.nodes}
    assert all(top[one] <= top[two] for one in rank for two in rank if rank[one] < rank[two])
    assert all(0 <= x <= int(drawn.attrib["width"]) - width for x, _, width, _ in boxes)
    assert all(0 <= y <= int(drawn.attrib["height"]) - height for _, y, _, height in boxes)


def test_a_diagram_escapes_what_a_menu_says_cuts_it_and_has_no_style_of_its_own() -> None:
    raw: dict[str, Any] = copy.deepcopy(example("shop_bill"))
    raw["title"] = "\x01<img onerror=x>"
    raw["nodes"]["root"]["text"]["en"] = "<script>alert(1)</script> \u202e" + "x" * 500
    drawn = draw(parse(raw), {"root": "12 % leave here"})
    elements = list(Xml.fromstring(drawn).iter())
    assert {element.tag.removeprefix(SVG) for element in elements} == {"svg", "title", "g", "rect", "path", "text"}
    names = {name for element in elements for name in element.attrib}
    assert not [name for name in names if name == "style" or name.startswith("on") or "href" in name]
    texts = [text.text or "" for text in Xml.fromstring(drawn).iter(f"{SVG}text")]
    assert max(map(len, texts)) <= 40
    assert "12 % leave here" in texts


def test_a_diagram_of_the_largest_menu_has_at_most_six_boxes_beside_each_other() -> None:
    options = [{"label": f"To {number}", "goto": f"n{number}"} for number in range(60)]
    nodes: dict[str, Any] = {f"n{number}": {"type": "text", "text": "On", "goto": "root"} for number in range(499)}
    nodes["root"] = {"type": "menu", "text": "Hi", "options": options}
    drawn = Xml.fromstring(draw(parse({"id": "m", "start": "root", "nodes": nodes})))
    assert int(drawn.attrib["width"]) == 2 * MARGIN + 6 * WIDTH + 5 * GAP
    assert len([group for group in drawn.iter(f"{SVG}g") if "data-node" in group.attrib]) == 500


def test_a_graph_has_nodes_edges_and_ranks() -> None:
    described = graph(parse(example("shop_bill")))
    nodes = {node.id: node for node in described.nodes}
    assert described.start == "root"
    assert nodes["root"] == GraphNode("root", "menu", "Owino Hardware", 0)
    assert nodes["pay"].text == "collection of vars.amount"
    assert nodes["pay.accepted"].rank == nodes["pay"].rank + 1
    assert GraphEdge("root", "bill", "1. Pay a bill") in described.edges


def test_the_engines_own_sentences_fit_the_smallest_budget() -> None:
    for key, sentences in PHRASES.items():
        for sentence in sentences.values():
            values = {"amount": "999,999", "party": "", "name": "", "min": "500", "max": "999,999"}
            size = measure(sentence.format(**values, left="9", length="6"))
            assert size.encoding == "gsm7", sentence
            assert size.units <= MIN_SEPTETS - 20 * (key in ("resume", "payment_succeeded", "payment_failed")), sentence
