"""A number is a number: no expression leads on with a hole where an amount belongs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.menus.conftest import FACTS
from ussd_server.menus.checks.check import check
from ussd_server.menus.document.document import Document, parse
from ussd_server.menus.document.expressions import compile_expression, may_be_fraction
from ussd_server.menus.engine.actions import PayAction
from ussd_server.menus.engine.engine import enter, start
from ussd_server.menus.engine.navigator import Turn

TROUBLE = "Sorry"
LEFT = {"end": "Please enter another amount."}
QUESTION = re.compile(r"Borrow UGX [\d,]+, pay back UGX [\d,]+ \(fee [\d,]+\)\?")


def loan(
    total: str = "vars.amount + vars.fee", fee: str = "vars.amount * 3 * vars.weeks / 100", **nodes: Any
) -> dict[str, Any]:
    """A loan: its fee and what is paid back are computed, confirmed and paid."""
    return {
        "id": "loan",
        "title": "Loan",
        "start": "amount",
        "default_language": "en",
        "languages": ["en"],
        "vars": {
            "amount": {"type": "amount"},
            "weeks": {"type": "integer", "max_len": 2},
            "fee": {"type": "amount"},
            "total": {"type": "amount"},
        },
        "nodes": {
            "amount": {"type": "input", "text": "Amount", "var": "amount", "goto": "weeks"},
            "weeks": {"type": "input", "text": "Weeks", "var": "weeks", "goto": "fee"},
            "fee": {"type": "set", "values": {"fee": fee, "total": total}, "goto": "sure"},
            "sure": {
                "type": "confirm",
                "text": "Borrow UGX {{vars.amount|ugx}}, pay back UGX {{vars.total|ugx}} (fee {{vars.fee|ugx}})?",
                "yes": "pay",
                "no": "bye",
            },
            "pay": {
                "type": "pay",
                "kind": "disbursement",
                "amount": "vars.total",
                "phone_number": "session.phone_number",
                "accepted": {"end": "Sent."},
                "rejected": {"end": "Not sent."},
            },
            "bye": {"type": "end", "text": "Goodbye"},
            **nodes,
        },
    }


def walked(document: Document, *entries: str) -> Turn:
    """The turn after these entries; the first action ends them."""
    turn = start(document, FACTS)
    for entry in entries:
        if turn.action is None and turn.screen is not None and not turn.screen.ends:
            turn = enter(document, turn.state, entry)
    return turn


def screen(raw: dict[str, Any], *entries: str) -> str:
    turn = walked(parse(raw), *entries)
    assert turn.screen is not None
    return turn.screen.text


def with_set(**fields: Any) -> dict[str, Any]:
    raw = loan()
    raw["nodes"]["fee"] |= fields
    return raw


@pytest.mark.parametrize(
    "fee",
    [
        "vars.amount * 3 * vars.weeks / 100",
        "vars.amount * 10000",
        "0 - vars.amount",
        "vars.amount / 0",
        "vars.total",
        "'none'",
    ],
    ids=["fraction", "too large", "negative", "by zero", "never set", "no number"],
)
def test_what_is_no_number_never_leads_on(fee: str) -> None:
    raw = loan(fee=fee)
    assert TROUBLE in screen(raw, "7333", "3")
    raw["nodes"]["fee"]["on_error"] = LEFT
    assert screen(raw, "7333", "3") == LEFT["end"]


def test_a_whole_quotient_leads_on() -> None:
    assert screen(loan(), "7000", "3").startswith("Borrow UGX 7,000, pay back UGX 7,630 (fee 630)?")


def test_the_constant_none_clears_a_number_and_a_question_with_a_hole_is_not_asked() -> None:
    raw = loan()
    raw["nodes"]["fee"]["values"]["fee"] = "None"
    raw["nodes"]["fee"]["values"]["total"] = "vars.amount"
    assert TROUBLE in screen(raw, "7000", "3")
    raw["nodes"]["sure"]["text"] = "Pay back UGX {{vars.total|ugx}} (fee {{vars.fee|default:none}})?"
    assert screen(raw, "7000", "3").startswith("Pay back UGX 7,000 (fee none)?")


def test_an_option_a_list_a_router_and_a_payment_lead_to_their_own_on_error() -> None:
    option = {"label": "Half", "goto": "sure", "set": {"fee": "vars.amount / 2", "total": "vars.amount"}}
    menu = {"type": "menu", "text": "How?", "options": [option]}
    assert TROUBLE in screen(loan(fee="0", weeks=menu), "7001", "1")
    assert screen(loan(weeks=menu | {"on_error": LEFT}), "7001", "1") == LEFT["end"]
    chosen = {
        "type": "list",
        "text": "Which?",
        "items": [1, 2],
        "label": "{{item}}",
        "value": "item / 2",
        "var": "fee",
        "goto": "bye",
    }
    assert TROUBLE in screen(loan(weeks=chosen), "7001", "1")
    assert screen(loan(weeks=chosen | {"on_error": LEFT}), "7001", "1") == LEFT["end"]
    assert screen(loan(weeks=chosen | {"on_error": LEFT}), "7001", "2") == "Goodbye"
    router = {"type": "router", "cases": [{"when": "vars.fee > 100", "goto": "sure"}], "else": "bye"}
    assert TROUBLE in screen(loan(weeks=router), "7001")
    assert screen(loan(weeks=router | {"on_error": LEFT}), "7001") == LEFT["end"]
    raw = loan(fee="0", total="vars.amount")
    raw["nodes"]["pay"]["amount"] = "vars.amount / 2"
    assert screen(raw, "7001", "1", "1") == "Not sent."
    raw["nodes"]["pay"]["on_error"] = LEFT
    assert screen(raw, "7001", "1", "1") == LEFT["end"]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("round(2.5)", 3),
        ("round(0 - 2.5)", -3),
        ("round(7333 * 9 / 100)", 660),
        ("ceil(7333 * 9 / 100)", 660),
        ("ceil(2.01)", 3),
        ("ceil(1.1 * 10)", 11),
        ("int(0.29 * 100)", 29),
        ("int(2.99)", 2),
        ("round('x')", None),
        ("ceil(None)", None),
        ("round(10 / 0)", None),
    ],
)
def test_numbers_are_rounded_as_cashiers_round(source: str, value: int | None) -> None:
    assert compile_expression(source).value({}) == value


def test_the_check_warns_of_what_may_be_a_fraction() -> None:
    report = check(loan())
    assert [(each.rule, each.node) for each in report.warnings if each.rule == "fraction"] == [("fraction", "fee")]
    assert "`round()`" in next(each.message for each in report.warnings if each.rule == "fraction")
    assert not [each for each in check(loan(fee="round(vars.amount * 3 / 100)")).findings if each.rule == "fraction"]
    assert may_be_fraction("vars.amount * 0.03")
    assert not may_be_fraction("int(vars.amount * 0.03) + ceil(vars.amount / 3)")


def _expression(pick: random.Random, depth: int = 0) -> str:
    if depth > 3 or pick.random() < 0.3:
        leaves = (
            "vars.amount",
            "vars.weeks",
            "vars.fee",
            "vars.total",
            "0",
            "1",
            "3",
            "100",
            "0.5",
            "1e14",
            "'7'",
            "None",
        )
        return pick.choice(leaves)
    if pick.random() < 0.2:
        return f"{pick.choice(('int', 'round', 'ceil', 'len', 'str'))}({_expression(pick, depth + 1)})"
    sides = _expression(pick, depth + 1), _expression(pick, depth + 1)
    return f"({sides[0]} {pick.choice('+-*/%')} {sides[1]})"


def test_random_expressions_never_confirm_or_pay_with_a_hole(tries: Callable[[int], int]) -> None:
    pick = random.Random(56)
    asked = paid = 0
    for _ in range(tries(10_000)):
        fee, total, amount = (_expression(pick) for _ in range(3))
        if max(map(len, (fee, total, amount))) > 200:
            continue
        raw = loan(total=total, fee=fee)
        raw["nodes"]["pay"]["amount"] = amount
        document = parse(raw)
        turn = walked(document, str(pick.randint(500, 999_999)), str(pick.randint(1, 52)))
        assert turn.screen is not None
        if turn.screen.ends:
            assert TROUBLE in turn.screen.text, (fee, total)
            continue
        assert QUESTION.match(turn.screen.text), (fee, total, turn.screen.text)
        asked += 1
        turn = enter(document, turn.state, "1")
        if turn.action is None:
            assert turn.screen is not None
            assert turn.screen.text == "Not sent."
            continue
        assert isinstance(turn.action, PayAction)
        assert turn.action.amount_cents % 100 == 0
        assert 0 < turn.action.amount_cents <= 999_999_00
        paid += 1
    assert asked > 20
    assert paid > 5
