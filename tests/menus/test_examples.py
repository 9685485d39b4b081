"""The example menus pass the check, play their scripts, and can be drawn."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
import yaml

import ussd_server.menus.document.document as document_room
from ussd_server.menus.checks.check import check
from ussd_server.menus.document.document import parse
from ussd_server.menus.document.findings import Report
from ussd_server.menus.document.variables import SessionFacts
from ussd_server.menus.text.gsm7 import measure
from ussd_server.menus.text.phrases import _PHRASES
from ussd_server.menus.text.screen import MIN_SEPTETS
from ussd_server.menus.tools.diagram import draw
from ussd_server.menus.tools.graph import graph
from ussd_server.menus.tools.simulator import Simulator, World

FOLDER = Path(document_room.__file__).parents[1] / "examples"
EXAMPLES = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml"))}
FACTS = SessionFacts("+256772123456", "*165#", "64110", "s")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_the_check_without_a_word(name: str) -> None:
    assert check(EXAMPLES[name], allowed_hosts=()) == Report(())
    assert len(EXAMPLES[name]["scripts"]) >= 3


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_scripts_of_an_example_fail_when_the_menu_says_something_else(name: str) -> None:
    spoiled = copy.deepcopy(EXAMPLES[name])
    for script in spoiled["scripts"]:
        script["steps"].append({"expect": "something that no screen shows"})
    findings = check(spoiled).errors
    assert [finding.rule for finding in findings] == ["script"] * len(spoiled["scripts"])


def test_the_demonstration_menu_takes_a_deposit_in_three_entries() -> None:
    phone = Simulator(parse(EXAMPLES["savings_group"]), FACTS, World())
    phone.dial()
    for entry in ("1", "5000", "1"):
        assert not phone.screen.ends
        phone.send(entry)
    assert phone.screen.ends
    assert [each["amount"] for each in phone.payments.values()] == [5000]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_speaks_luganda_on_every_screen_it_can(name: str) -> None:
    document = parse(EXAMPLES[name])
    texts = [node.text for node in document.nodes.values() if getattr(node, "text", None) is not None]
    spoken = [text for text in texts if "lg" in text.by_language]
    assert len(spoken) >= len(texts) - 2


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_picture_shows_every_node_once_and_nothing_overlaps(name: str) -> None:
    document = parse(EXAMPLES[name])
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
    told = graph(document)
    column = {node["id"]: node["rank"] for node in told["nodes"]}
    onwards = [way for way in told["edges"] if column[way["to"]] > column[way["from"]]]
    written = " ".join(text.text or "" for text in drawn.iter(f"{SVG}text"))
    assert len(list(drawn.iter(f"{SVG}path"))) == 2 * len(onwards), "a line and its head"
    assert all(f"→ {way['to'][:8]}" in written for way in told["edges"] if way not in onwards)
    assert all(0 <= x <= int(drawn.attrib["width"]) - width for x, _, width, _ in boxes)
    assert all(0 <= y <= int(drawn.attrib["height"]) - height for _, y, _, height in boxes)


def test_a_picture_cannot_be_made_to_run_anything() -> None:
    raw: dict[str, Any] = copy.deepcopy(EXAMPLES["shop_bill"])
    raw["nodes"]["root"]["text"]["en"] = "<script>alert(1)</script>"
    assert "<script" not in draw(parse(raw))


def test_a_graph_names_nodes_ways_and_ranks() -> None:
    described = graph(parse(EXAMPLES["shop_bill"]))
    nodes = {node["id"]: node for node in described["nodes"]}
    assert described["start"] == "root"
    assert nodes["root"] == {"id": "root", "type": "menu", "text": "Owino Hardware", "rank": 0}
    assert nodes["pay"]["text"] == "collection of vars.amount"
    assert nodes["pay.accepted"]["rank"] == nodes["pay"]["rank"] + 1
    assert {"from": "root", "to": "bill", "label": "1. Pay a bill"} in described["edges"]


def test_the_engines_own_sentences_fit_the_smallest_budget() -> None:
    for key, sentences in _PHRASES.items():
        for sentence in sentences.values():
            size = measure(sentence.format(amount="999,999", min="500", max="999,999"))
            assert size.encoding == "gsm7", sentence
            assert size.units <= MIN_SEPTETS - 20 * (key in ("resume", "payment_succeeded", "payment_failed")), sentence
