"""A secret entry is printed and kept nowhere: it goes to the next call, or into a payment, or is compared."""

from __future__ import annotations

import pytest

from tests.menus.checks.reports import HTTP, SECRET, Make, Menu, errors
from ussd_server.menus.checks.check import check


@pytest.mark.parametrize(
    ("nodes", "node"),
    [
        ({"bye": {"type": "end", "text": {"en": "{{vars.code}}"}}}, "bye"),
        ({"root": {**SECRET, "validate": [{"rule": "length", "max": 4, "error": {"en": "{{vars.code}}?"}}]}}, "root"),
        ({"root": {**SECRET, "goto": "s"}, "s": {"type": "set", "values": {"t": "vars.code"}, "goto": "bye"}}, "s"),
        ({"root": {**SECRET, "goto": "h"}, "h": {**HTTP, "url": "https://a.example/{{vars.code}}"}}, "h"),
        ({"root": {**SECRET, "goto": "h"}, "h": {**HTTP, "map": {"code": "code"}}}, "h"),
        ({"root": {**SECRET, "goto": "again"}, "again": {**SECRET, "secret": False}}, "again"),
        (
            {
                "root": {**SECRET, "goto": "t"},
                "t": {"type": "text", "text": {"en": "x"}, "goto": "h"},
                "h": {**HTTP, "method": "POST", "body": {"code": "{{vars.code}}"}},
            },
            "h",
        ),
        (
            {
                "root": {**SECRET, "goto": "g"},
                "g": {**HTTP, "goto": "h"},
                "h": {**HTTP, "method": "POST", "body": {"code": "{{vars.code}}"}},
            },
            "h",
        ),
    ],
)
def test_a_secret_that_is_printed_kept_or_forgotten_too_early_is_refused(menu: Make, nodes: Menu, node: str) -> None:
    raw = menu({"root": SECRET, **nodes}, vars={"code": {"type": "text", "max_len": 4}, "t": {"type": "text"}})
    assert ("secret", node) in errors(raw)


def test_a_secret_may_stand_in_the_body_of_the_next_call(menu: Make) -> None:
    nodes = {"root": {**SECRET, "goto": "h"}, "h": {**HTTP, "method": "POST", "body": {"code": "{{vars.code}}"}}}
    assert check(menu(nodes, vars={"code": {"type": "text", "max_len": 4}})).passes


def test_a_secret_may_stand_between_a_yes_and_its_payment(shop: Menu) -> None:
    shop["nodes"]["ok"]["yes"] = "code"
    shop["nodes"]["code"] = {**SECRET, "goto": "pay", "text": {"en": "Your shop code"}}
    shop["vars"]["code"] = {"type": "text", "max_len": 4}
    assert check(shop).findings == ()
    shop["nodes"]["code"]["secret"] = False
    assert errors(shop) == [("payment", "pay")]


def chosen_twice(menu: Make, **nodes: Menu) -> Menu:
    """A menu that asks for two secret entries, and then goes on as the nodes say."""
    asked = {
        "root": {**SECRET, "goto": "second"},
        "second": {**SECRET, "text": {"en": "Again"}, "var": "again", "goto": "next"},
        "next": {"type": "text", "text": {"en": "Kept"}, "goto": "bye"},
    }
    code = {"type": "text", "max_len": 4}
    return menu({**asked, **nodes}, vars={"code": code, "again": code})


SAME = "vars.code == vars.again"


RULED = {
    **SECRET,
    "text": {"en": "Again"},
    "var": "again",
    "goto": "next",
    "validate": [{"rule": "expr", "expr": SAME}],
}


ROUTED = {"type": "router", "cases": [{"when": SAME, "goto": "offer"}], "else": "bye"}


OFFERED = {"label": {"en": "Keep"}, "goto": "bye", "when": "not vars.again != vars.code"}


MENU = {"type": "menu", "text": {"en": "Keep?"}, "options": [OFFERED, {"label": {"en": "No"}, "goto": "bye"}]}


def test_two_secrets_may_be_compared_in_the_second_ones_rule_the_next_router_and_the_next_menu(menu: Make) -> None:
    assert check(chosen_twice(menu, second=RULED)).passes
    assert check(chosen_twice(menu, next=ROUTED, offer=MENU)).passes


@pytest.mark.parametrize(
    ("nodes", "node"),
    [
        ({"next": {"type": "text", "text": {"en": "x"}, "goto": "later"}, "later": ROUTED, "offer": MENU}, "later"),
        ({"next": {**MENU, "options": [{**OFFERED, "goto": "later"}]}, "later": ROUTED, "offer": MENU}, "later"),
        ({"second": {**RULED, "validate": [{"rule": "expr", "expr": "len(vars.code) == 4"}]}}, "second"),
        ({"second": {**RULED, "validate": [{"rule": "expr", "expr": "vars.code == '1234'"}]}}, "second"),
        ({"second": {**RULED, "validate": [{"rule": "expr", "expr": f"{SAME} and len(vars.code) == 4"}]}}, "second"),
        ({"next": {**MENU, "options": [{**OFFERED, "when": "vars.again == '1234'"}]}}, "next"),
        ({"second": {**RULED, "secret": False}}, "second"),
    ],
)
def test_two_secrets_are_compared_nowhere_else_and_nothing_else_is_done_with_them(
    menu: Make, nodes: Menu, node: str
) -> None:
    assert ("secret", node) in errors(chosen_twice(menu, **nodes))


@pytest.mark.parametrize("about", [{"description": "Code {{vars.code}}"}, {"metadata": {"code": "{{vars.code}}"}}])
def test_a_secret_in_the_description_or_the_metadata_of_a_payment_is_refused(shop: Menu, about: Menu) -> None:
    shop["nodes"]["ok"]["yes"] = "code"
    shop["nodes"]["code"] = {**SECRET, "goto": "pay", "text": {"en": "Your shop code"}}
    shop["vars"]["code"] = {"type": "text", "max_len": 4}
    shop["nodes"]["pay"] |= about
    assert errors(shop) == [("secret", "pay")]
