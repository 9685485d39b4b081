"""A menu is bounded before work is done on it: in size, in the work of its check, and in the work of a step."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from ussd_server.menus import text as texts
from ussd_server.menus.checks.check import check
from ussd_server.menus.checks.width_proof import prove
from ussd_server.menus.document.bounds import MAX_WORK, WorkBudget
from ussd_server.menus.document.document import parse
from ussd_server.menus.engine.engine import enter, start
from ussd_server.menus.engine.navigator import SessionFacts, State
from ussd_server.menus.text import Budget, Footer, word_pages

Menu = dict[str, Any]
Make = Callable[..., Menu]
LANGUAGES = ["en", "lg", "sw", "ach", "teo", "nyn", "cgg", "luc", "lgg", "xog", "myx", "laj"]
BYE = {"type": "end", "text": "Goodbye"}
FACTS = SessionFacts("+256772123456", "*1#")


def networks(count: int) -> Menu:
    return {"networks": {f"n{number}": {"septets": 100 + number} for number in range(count)}}


def integers(count: int) -> Menu:
    return {f"a{number}": {"type": "integer"} for number in range(count)}


def assignments(count: int) -> Menu:
    return {f"a{number}": str(number) for number in range(count)}


def option(sets: int) -> Menu:
    return {"label": "On", "goto": "bye", "set": assignments(sets)}


BOUNDS: list[tuple[Callable[[int], Menu], int, str]] = [
    (
        lambda count: {"nodes": {f"n{number}": BYE for number in range(count)}, "start": "n0"},
        500,
        "`nodes` has 501 nodes",
    ),
    (lambda count: {"languages": [*LANGUAGES, "luo"][:count]}, 12, "`languages` has 13 languages"),
    (lambda count: {"limits": networks(count)}, 8, "`limits.networks` has 9 networks"),
    (lambda count: {"vars": integers(count)}, 100, "`vars` has 101 variables"),
    (lambda count: {"vars": {"l": {"type": "list", "fields": integers(count - 1)}}}, 100, "`vars` has 101 variables"),
    (
        lambda count: {"nodes": {"root": {"type": "set", "values": assignments(count), "goto": "bye"}, "bye": BYE}},
        20,
        "`values` changes 21 variables",
    ),
    (
        lambda count: {"nodes": {"root": {"type": "menu", "text": "Hi", "options": [option(count)]}, "bye": BYE}},
        20,
        "`options.1.set` changes 21 variables",
    ),
]


@pytest.mark.parametrize(("fields", "most", "message"), BOUNDS, ids=[message for _, _, message in BOUNDS])
def test_a_document_over_a_bound_is_refused_and_the_bound_named(
    menu: Make, fields: Callable[[int], Menu], most: int, message: str
) -> None:
    def made(count: int) -> Menu:
        return {**menu({"root": BYE}, vars=integers(50)), **fields(count)}

    assert not any(finding.rule == "bounds" for finding in check(made(most)).findings)
    refused = check(made(most + 1))
    assert [(finding.rule, finding.severity) for finding in refused.findings] == [("bounds", "error")]
    assert message in refused.findings[0].message
    assert f"at most {most}" in refused.findings[0].message


def test_a_screen_is_measured_once_whatever_the_number_of_networks(menu: Make) -> None:
    options = [{"label": f"Number {number} of many", "goto": "bye"} for number in range(30)]
    raw = menu(
        {"root": {"type": "menu", "text": "Welcome", "options": options}}, languages=LANGUAGES[:3], fallback=True
    )
    alone, many = WorkBudget(), WorkBudget()
    assert not list(prove(parse(raw), alone))
    assert not list(prove(parse({**raw, "limits": networks(8)}), many))
    assert 0 < alone.spent == many.spent


def largest(kind: str) -> Menu:
    """Return a document within all bounds whose check costs as much as possible."""
    match kind:
        case "languages":
            nodes: Menu = {f"n{number}": {"type": "language", "goto": "n0"} for number in range(500)}
        case "lists":
            label = {"type": "list", "text": "Which?", "items": "vars.l", "label": "{{item.a}}", "goto": "n0"}
            nodes = {f"n{number}": label for number in range(500)}
        case "texts":
            wide = {"type": "text", "text": "{{vars.t}} " * 140, "goto": "n0"}
            nodes = {f"n{number}": wide for number in range(40)}
        case _:
            values = {f"a{number}": "1" for number in range(20)}
            nodes = {f"n{number}": {"type": "set", "values": values, "goto": f"n{number + 1}"} for number in range(22)}
            nodes["n22"] = {"type": "menu", "text": "Again?", "options": [{"label": "Yes", "goto": "n0"}]}
    variables = {
        "t": {"type": "text", "max_len": 160},
        "l": {"type": "list", "max_items": 50, "fields": {"a": {"type": "text"}}},
        **integers(20),
    }
    steps = [{"send": "1"}] * 100
    script = {"dial": {"phone": "+256772123456", "code": "*1#"}, "steps": steps}
    scripts = [script] * 50 if kind == "scripts" else []
    languages = LANGUAGES if kind != "scripts" else ["en"]
    return {
        "id": "m",
        "start": "n0",
        "languages": languages,
        "fallback": True,
        "limits": networks(8),
        "vars": variables,
        "nodes": nodes,
        "scripts": scripts,
    }


@pytest.mark.parametrize("kind", ["languages", "lists", "texts", "scripts"])
def test_a_check_stops_after_too_much_work(kind: str) -> None:
    work = WorkBudget()
    (finding,) = check(largest(kind), work=work).findings
    assert (finding.rule, finding.severity) == ("bounds", "error")
    assert "400,000 units of work" in finding.message
    assert work.spent < 1.1 * MAX_WORK


def test_a_report_has_at_most_a_hundred_findings_and_says_so(menu: Make) -> None:
    wide = {"type": "end", "text": "{{vars.t}} " * 140}
    nodes = {f"n{number}": wide for number in range(38)}
    raw = menu(
        {"root": BYE, **nodes}, languages=LANGUAGES, fallback=True, limits=networks(8), vars={"t": {"type": "text"}}
    )
    raw["vars"]["v" * 20_000] = {f"x{number}": 1 for number in range(20)}
    report = check(raw)
    assert len(report.findings) == 100
    assert not report.passes
    assert "at most 100 findings" in report.findings[-1].message
    assert len(json.dumps([asdict(each) for each in report.findings])) < 200_000


def test_assignments_copy_the_variables_once_for_a_node_and_not_for_each_of_them(
    menu: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[State] = []
    scope = State.scope
    monkeypatch.setattr(State, "scope", lambda state: copies.append(state) or scope(state))
    values = {"a0": "1", **{f"a{number}": f"vars.a{number - 1} + 1" for number in range(1, 20)}}
    nodes = {f"s{number}": {"type": "set", "values": values, "goto": f"s{number + 1}"} for number in range(4)}
    nodes["s4"] = {"type": "end", "text": "{{vars.a19}}"}
    document = parse(menu({"root": {**BYE, "type": "text", "goto": "s0"}, **nodes}, vars=integers(100)))
    first = start(document, FACTS)
    copies.clear()
    last = enter(document, first.state, "1").screen
    assert last is not None
    assert last.text == "20"
    assert len(copies) < 10


def test_the_work_of_dividing_a_text_grows_with_its_length_and_not_with_its_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[int] = []
    measure = texts.measure
    monkeypatch.setattr(texts, "measure", lambda text: measured.append(len(text)) or measure(text))

    def work(text: str) -> int:
        measured.clear()
        word_pages(text, "1. Continue", Footer("98 More", "99 Prev", "0 Back"), Budget())
        return sum(measured)

    assert work("a bc " * 4_000) < 5 * work("a bc " * 1_000)
    assert work("x" * 20_000) < 5 * work("x" * 5_000)
