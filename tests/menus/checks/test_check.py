"""Every rule of the check: errors that block publishing, warnings, and their messages."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.menus.checks.reports import HTTP, Make, Menu, errors
from tests.support.shop import shop_document
from ussd_server.menus.checks.check import check
from ussd_server.menus.document.document import DocumentError, parse


def test_the_menu_of_the_specification_passes(shop: Menu) -> None:
    report = check(shop)
    assert report.passes
    assert report.findings == ()


def test_a_variable_that_no_balance_node_sets_has_to_be_declared(shop: Menu) -> None:
    shop["nodes"]["bal"]["var"] = "funds"
    assert errors(shop) == [("variable", "show")]


def change(*path: Any, to: Any) -> Callable[[Menu], None]:
    """Make a change at a place in a document."""

    def changed(raw: Menu) -> None:
        for step in path[:-1]:
            raw = raw[step]
        raw[path[-1]] = to

    return changed


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([change("nodes", "amount", "goto", to="nowhere")], ("goto", "amount")),
        ([change("start", to="nowhere")], ("goto", None)),
        ([change("nodes", "root", "options", 1, "key", to="1")], ("option_key", "root")),
        ([change("nodes", "root", "options", 1, "key", to="0")], ("option_key", "root")),
        ([change("nodes", "root", "options", 1, "key", to="98")], ("option_key", "root")),
        ([change("nodes", "root", "options", 1, "key", to="1*2")], ("option_key", "root")),
        ([change("nav", "back", to="1")], ("option_key", "ok")),
        ([change("nodes", "bye", "text", to={"lg": "Weeraba"})], ("text", "bye")),
        ([change("nodes", "root", "options", 0, "label", to={"lg": "Sasula"})], ("text", "root")),
        ([change("nodes", "amount", "goto", to="pay")], ("payment", "pay")),
        ([change("nodes", "ok", "no", to="pay")], ("payment", "pay")),
        ([change("start", to="pay")], ("payment", "pay")),
        ([change("nodes", "pay", "rejected", to="pay")], ("payment", "pay")),
        (
            [
                change("nodes", "s", to={"type": "set", "values": {"amount": "1"}, "goto": "pay"}),
                change("nodes", "root", "options", 1, "goto", to="s"),
            ],
            ("payment", "pay"),
        ),
        ([change("nodes", "s", to={"type": "set", "values": {"amount": "1"}, "goto": "s"})], ("loop", "s")),
        ([change("nodes", "bal", "on_error", to="bal")], ("loop", "bal")),
        ([change("nodes", "amount", "validate", to=[{"rule": "regex", "pattern": "("}])], ("regex", "amount")),
        ([change("nodes", "amount", "validate", to=[{"rule": "regex", "pattern": "(a+)+"}])], ("regex", "amount")),
        ([change("nodes", "amount", "var", to="nothing")], ("variable", "amount")),
        ([change("nodes", "show", "text", "en", to="{{vars.nothing}}")], ("variable", "show")),
        ([change("nodes", "show", "text", "en", to="{{session.pin}}")], ("variable", "show")),
        ([change("nodes", "show", "text", "en", to="{{item.x}}")], ("variable", "show")),
        ([change("nodes", "bal", "var", to="to")], ("variable", "bal")),
        ([change("nodes", "pay", "amount", to="vars.amount ** 2")], ("expression", "pay")),
        ([change("nodes", "pay", "amount", to="__import__('os')")], ("expression", "pay")),
        ([change("nodes", "show", "text", "en", to="{{vars.balance|shout}}")], ("expression", "show")),
        ([change("nodes", "show", "text", "en", to="{{vars.balance")], ("expression", "show")),
        ([change("nodes", "h", to={"type": "handover", "url": "ftp://b.example/"})], ("address", "h")),
        ([change("nodes", "h", to={**HTTP, "url": "http://a.example/"})], ("address", "h")),
        ([change("nodes", "h", to={**HTTP, "url": "https://a.example@b.example/"})], ("address", "h")),
        ([change("nodes", "h", to={**HTTP, "url": "https://{{vars.name}}/"})], ("address", "h")),
        ([change("nodes", "h", to={**HTTP, "url": "https://a.example{{vars.name}}/"})], ("address", "h")),
        ([change("nodes", "h", to={**HTTP, "url": "https://a.example:bad/"})], ("address", "h")),
        ([change("nodes", "h", to={**HTTP, "headers": {"Host": "b"}})], ("address", "h")),
        ([change("nodes", "h", to={**HTTP, "timeout_ms": 2501})], ("document", "h")),
        ([change("nodes", "bye", "colour", to="red")], ("document", "bye")),
        ([change("colour", to="red")], ("document", None)),
        ([change("nodes", "bye", "text", "fr", to="Adieu")], ("document", "bye")),
        ([change("nodes", "bye", "type", to="exit")], ("document", "bye")),
        ([change("nodes", "pay", "kind", to="transfer")], ("document", "pay")),
        (
            [
                change(
                    "scripts", to=[{"dial": {"phone": "+256772123456", "code": "*1#"}, "steps": [{"expect": "Hello"}]}]
                )
            ],
            ("script", "root"),
        ),
        ([change("scripts", to=[{"steps": []}])], ("script", None)),
    ],
)
def test_an_error_blocks_publishing_and_names_its_node(
    shop: Menu, changes: list[Callable[[Menu], None]], expected: tuple[str, str | None]
) -> None:
    for changed in changes:
        changed(shop)
    assert expected in errors(shop)


@pytest.mark.parametrize(
    ("about", "rule"),
    [
        ({"description": "{{vars.nothing}}"}, "variable"),
        ({"description": {"en": "Fees"}}, "document"),
        ({"metadata": {"a b": "x"}}, "document"),
        ({"metadata": {"a": 5}}, "document"),
        ({"metadata": {f"n{number}": "x" for number in range(11)}}, "document"),
        ({"metadata": ["x"]}, "document"),
    ],
)
def test_what_a_payment_is_for_is_one_text_and_up_to_ten_names_with_texts(shop: Menu, about: Menu, rule: str) -> None:
    shop["nodes"]["pay"] |= {"description": "Bill of {{vars.to}}", "metadata": {"to": "{{vars.to}}"}}
    assert check(shop).passes
    shop["nodes"]["pay"] |= about
    assert (rule, "pay") in errors(shop)


def test_all_problems_are_reported_and_say_what_to_do(shop: Menu) -> None:
    shop["nodes"]["bye"]["text"] = {"lg": "Weeraba"}
    shop["nodes"]["amount"]["validate"][0]["mim"] = 5
    shop["nodes"]["root"]["options"][0]["goto"] = "nowhere"
    shop["vars"]["amount"]["max_len"] = 99
    shop["surprise"] = 1
    messages = {finding.message for finding in check(shop).errors}
    assert messages == {
        "`vars.amount.max_len` has to be a whole number from 1 to 15",
        "unknown field `validate.1.mim`; the fields here are `error`, `max`, `min`, `rule`; did you mean `min`?",
        "unknown field `surprise`; the fields here are `$schema`, `default_language`, `fallback`, `id`, `languages`, "
        "`limits`, `nav`, `nodes`, `resume`, `scripts`, `start`, `title`, `vars`",
        "`1` leads to `nowhere`, and there is no such node",
        "a text is missing in the default language `en`",
    }
    with pytest.raises(DocumentError) as caught:
        parse(shop)
    assert len(caught.value.problems) == 3


def test_warnings_do_not_block_publishing(menu: Make) -> None:
    row = {
        f"n{number}": {"type": "text", "text": {"en": "word " * 300}, "goto": f"n{number + 1}"} for number in range(11)
    }
    nodes = {
        "root": {"type": "input", "text": {"en": "Your MTN PIN please"}, "var": "t", "goto": "n0"},
        **row,
        "n11": {"type": "end", "text": {"en": "At last"}},
        "lonely": {"type": "end", "text": {"en": "Nobody comes here"}},
    }
    report = check(menu({**nodes, "bye": nodes["lonely"]}, vars={"t": {"type": "text"}}))
    assert report.passes
    assert {(finding.rule, finding.node) for finding in report.warnings} == {
        ("pin", "root"),
        ("unreachable", "lonely"),
        ("unreachable", "bye"),
        ("screens", "n11"),
        ("duration", "n11"),
    }


def test_a_node_that_chooses_a_pin_may_name_every_field_of_pins(menu: Make) -> None:
    ways = {"goto": "bye", "locked": "bye", "missing": "bye"}
    report = check(menu({"root": {"type": "pin", "mode": "choose", "text": {"en": "New PIN"}, **ways}}))
    assert [(each.severity, each.rule, each.node) for each in report.findings] == [("warning", "pin", "root")]


def test_two_lengths_of_pins_are_a_warning(menu: Make) -> None:
    pin = {"type": "pin", "mode": "choose", "text": {"en": "New PIN"}, "goto": "more"}
    report = check(menu({"root": pin, "more": {**pin, "length": 5, "goto": "bye"}}))
    assert [(each.severity, each.message) for each in report.findings] == [
        ("warning", "the PIN has 5 digits here and 4 in `root`")
    ]


def test_too_many_nodes_without_a_screen_are_refused(menu: Make) -> None:
    def row(length: int) -> Menu:
        nodes = {
            f"s{number}": {"type": "set", "values": {"n": "1"}, "goto": f"s{number + 1}"} for number in range(length)
        }
        nodes[f"s{length - 1}"]["goto"] = "bye"
        return menu(nodes, start="s0", vars={"n": {"type": "integer"}})

    assert check(row(23)).passes
    assert errors(row(24)) == [("loop", "s0")]


def test_keys_that_yaml_turned_into_other_things_are_understood(shop: Menu) -> None:
    shop["nodes"]["ok"][True] = shop["nodes"]["ok"].pop("yes")
    shop["nodes"]["ok"][False] = shop["nodes"]["ok"].pop("no")
    shop["limits"]["networks"] = {64110: {"septets": 150}}
    assert check(shop).passes
    assert parse(shop).budget_for("64110").septets == 150


JUNK: list[Any] = [
    None,
    True,
    3,
    1.5,
    "",
    [],
    {},
    "x" * 5000,
    [1, [2]],
    {"a": {"b": 1}},
    float("nan"),
    float("inf"),
    10**50,
    "\x00",
    "\ud800",
    "ŋ" * 50,
    {"en": None},
    {"en": 3},
    ["en"],
    {1: 2},
    {"goto": "root"},
    {"end": {"en": "x"}},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the path to every value inside a document."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def test_junk_at_any_place_is_reported_and_never_raises(shop: Menu) -> None:
    shop["nodes"] |= {
        "l": {"type": "list", "text": "x", "items": [{"a": 1}], "label": "{{item.a}}", "goto": "root"},
        "h": {**HTTP, "headers": {"X": "1"}, "body": {"a": ["{{vars.to}}"]}, "map": {"to": "a.b"}},
        "o": {"type": "handover", "url": "https://a.example/b"},
        "r": {"type": "router", "cases": [{"when": "True", "goto": "root"}], "else": "root"},
        "s": {"type": "set", "values": {"amount": "1"}, "goto": "root"},
    }
    shop["vars"]["li"] = {"type": "list", "fields": {"a": {"type": "text"}}}
    shop["scripts"] = [
        {
            "name": "s",
            "dial": {"phone": "+256772123456", "code": "*1#"},
            "world": {"balances": {"+256772123456": 3}, "answers": {}, "given": {}},
            "steps": [{"send": "1", "expect": "Enter"}, {"send": "500"}, {"send": "1"}, {"wait": 3}],
            "after": {"transaction": {"amount": 500}, "vars": {"amount": 500}, "node": "pay.accepted"},
        }
    ]
    assert check(shop).passes
    pick = random.Random(7)
    for path in list(places(shop))[1:]:
        for junk in pick.sample(JUNK, 5):
            raw = copy.deepcopy(shop)
            change(*path, to=junk)(raw)
            check(raw)
    for junk in JUNK:
        assert not check(junk).passes


@pytest.mark.parametrize(
    ("node", "field", "written", "said"),
    [
        (
            "pay",
            "amount",
            "vars.owner",
            "`amount` needs a number, and `vars.owner` never is one; `vars.owner` is of type text",
        ),
        ("pay", "amount", "vars.amount + vars.owner", "`vars.amount` is of type amount; `vars.owner` is of type text"),
        ("pay", "amount", "session.phone_number", "needs a number"),
        ("pay", "amount", 0, "needs a number"),
        ("pay", "phone_number", "vars.amount", "needs a phone number"),
        ("pay", "phone_number", "'0772123456'", "needs a phone number"),
        ("pay", "account", "len(vars.owner)", "needs `main` or a phone number"),
        ("balance", "of", "vars.amount", "needs `main` or a phone number"),
        ("case", "when", "vars.owner > 5", "`cases.1.when` needs true or false"),
        ("set", "amount", "vars.owner + ' x'", "`values.amount` needs a value of type amount"),
        ("set", "owner", "vars.amount > 5", "`values.owner` needs a value of type text"),
    ],
)
def test_an_expression_that_never_has_the_type_of_its_place_is_an_error(
    node: str, field: str, written: Any, said: str
) -> None:
    shop = shop_document()
    shop["vars"]["owner"] = {}
    shop["nodes"]["case"] = {"type": "router", "cases": [{"when": "True", "goto": "root"}], "else": "root"}
    shop["nodes"]["set"] = {"type": "set", "values": {"amount": 1}, "goto": "root"}
    places = {"case": shop["nodes"]["case"]["cases"][0], "set": shop["nodes"]["set"]["values"]}
    places.get(node, shop["nodes"][node])[field] = written
    (found,) = check(shop).errors
    assert (found.rule, found.node) == ("type", node)
    assert said in found.message


@pytest.mark.parametrize(
    "written",
    ["int(vars.owner)", "vars.amount * 2 - 100", "vars.amount / 3", "500", "vars.amount % 7 + len(vars.owner)"],
)
def test_an_expression_that_may_have_the_type_of_its_place_passes(written: str) -> None:
    shop = shop_document()
    shop["vars"]["owner"] = {}
    shop["nodes"]["pay"]["amount"] = written
    assert not check(shop).errors


@pytest.mark.parametrize("name", ["of", "to", "when", "amount", "account"])
def test_a_variable_may_be_named_as_a_field_and_takes_values_of_its_own_type(shop: Menu, name: str) -> None:
    shop["vars"][name] = {"type": "date"}
    option = shop["nodes"]["root"]["options"][2]
    option["set"] = {name: "'2026-12-31'"}
    assert [finding for finding in check(shop).errors if finding.rule == "type" and finding.node == "root"] == []
    option["set"] = {name: "5"}
    assert f"`options.3.set.{name}` needs a value of type date" in str(check(shop).errors)
