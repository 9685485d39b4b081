"""Expressions: what they evaluate to, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ussd_server.menus.document.expressions import CalendarDay, ExpressionError, Name, compile_expression

SCOPE: dict[str, Any] = {
    "vars": {"amount": 5000, "name": "Achen", "items": [1, 2], "class": "P7", "from": "item.class"},
    "session": {"network": "64110"},
    "item": {"id": 7, "huge": 10**400, "endless": float("inf"), "odd": float("nan"), "digits": "9" * 5000},
}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("vars.amount >= 500 and vars.amount <= 5000", True),
        ("vars.amount % 100 == 0", True),
        ("1000 < vars.amount < 4000", False),
        ("vars.amount / 2", 2500),
        ("vars.amount / 3 > 1666", True),
        ("int(vars.amount * 0.015)", 75),
        ("-vars.amount + 1", -4999),
        ("len(vars.name) + len(vars.items)", 7),
        ("lower(vars.name) == 'achen'", True),
        ("'UGX ' + str(vars.amount)", "UGX 5000"),
        ("int('42') + 1", 43),
        ("session.network in ('64110', '64101')", True),
        ("vars.amount not in [1, 2]", True),
        ("not vars.missing", True),
        ("vars.missing == None", True),
        ("item.id == 7", True),
        ("vars.name == 'x' or True", True),
        ("vars.class == 'P7' and vars.from in ['item.class']", True),
    ],
)
def test_an_expression_has_its_value(source: str, value: Any) -> None:
    assert compile_expression(source).value(SCOPE) == value


@pytest.mark.parametrize(
    "source",
    [
        "vars.amount / 0",
        "vars.amount % 0",
        "vars.missing + 1",
        "vars.missing > 3",
        "vars.name > 3",
        "vars.name * 3",
        "True + 1",
        "int('1_000')",
        "int('٣')",
        "int(vars.items)",
        "len(3)",
        "str(vars.items)",
        "1e15 * 10",
        "999999999999999 * 999999999999999",
        "3 in vars.amount",
        "item.huge + 1",
        "item.huge / 2",
        "item.huge % 1.5",
        "-item.huge",
        "int(item.huge)",
        "int(item.endless)",
        "int(item.odd)",
        "item.odd + 1",
        "str(item.digits)",
        "int(item.digits)",
    ],
)
def test_an_expression_that_cannot_be_evaluated_has_no_value_and_is_not_true(source: str) -> None:
    expression = compile_expression(source)
    assert expression.value(SCOPE) is None
    assert not expression.is_true(SCOPE)


@pytest.mark.parametrize(
    "source",
    [
        "__import__('os')",
        "vars.__class__",
        "vars.name.upper()",
        "vars.a.b",
        "session",
        "open('x')",
        "[x for x in vars.items]",
        "lambda: 1",
        "vars['amount']",
        "2 ** 9",
        "1 << 9",
        "1 if vars.a else 2",
        "f'{vars.a}'",
        "b'x'",
        "1j",
        "len(vars.a, vars.b)",
        "len(*vars.a)",
        "vars.a := 1",
        "",
        "1 +",
        "9" * 100,
        "1e999",
        "(" * 150,
        "-" * 199 + "1",
        "vars.a" + " + 1" * 50,
        "not not not not not not not not True",
    ],
)
def test_what_is_not_on_the_list_is_refused(source: str) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(source)


def test_an_expression_lists_the_names_it_reads() -> None:
    names = compile_expression("vars.a + len(session.network) > item.x").names
    assert names == {Name("vars", "a"), Name("session", "network"), Name("item", "x")}


def test_a_text_cannot_grow_without_bound() -> None:
    doubled = compile_expression("vars.t + vars.t")
    assert doubled.value({"vars": {"t": "a" * 200}}) == "a" * 400
    assert doubled.value({"vars": {"t": "a" * 300}}) is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("vars.amount =< 5", "write `<=`, not `=<`"),
        ("vars.amount => 5", "write `>=`, not `=>`"),
        ("vars.amount = 5", "write `==`, not `=`"),
        ("vars.a && vars.b", "write `and`, not `&&`"),
        ("vars.a == 1 or", "write for example `vars.amount >= 500`"),
    ],
)
def test_a_miswritten_operator_is_named_with_the_right_one(written: str, meant: str) -> None:
    with pytest.raises(ExpressionError, match=meant):
        compile_expression(written)


def test_today_is_a_date_to_which_days_are_added() -> None:
    scope = {"today": CalendarDay("2026-12-31"), "vars": {"due": "2027-01-07", "days": 7}}

    def value(source: str) -> Any:
        return compile_expression(source).value(scope)

    assert value("today()") == "2026-12-31"
    assert value("today() + 7") == "2027-01-07"
    assert value("today() + vars.days == vars.due")
    assert value("today() - 366") == "2025-12-30"
    assert value("vars.due > today()") is True
    assert value("'Due ' + str(today() + 1)") == "Due 2027-01-01"
    for wrong in ("today() + 0.5", "today() + 10000000", "today() * 2", "today() + None"):
        assert value(wrong) is None, wrong
    for wrong in ("today(1)", "today", "today().year", "today() + today"):
        with pytest.raises(ExpressionError):
            compile_expression(wrong)
