"""Texts with values in them."""

from __future__ import annotations

from typing import Any

import pytest

from ussd_server.menus.document.expressions import ExpressionError, Name
from ussd_server.menus.document.templates import compile_template

WIDEST = {
    Name("vars", "amount"): "9999999",
    Name("vars", "name"): "W" * 10,
    Name("session", "phone_number"): "+256777777777",
}
SCOPE: dict[str, Any] = {
    "vars": {"amount": 1234567, "name": "Achen", "list": [1]},
    "session": {"phone_number": "+256772123456"},
}


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("UGX {{vars.amount|ugx}}", "UGX 1,234,567"),
        ("{{ vars.amount }}", "1234567"),
        ("{{session.phone_number|local}}", "0772123456"),
        ("{{session.phone_number|mask}}", "**********456"),
        ("{{session.phone_number|local|mask}}", "*******456"),
        ("{{vars.name|trunc:3}}.", "Ach."),
        ("{{vars.name|upper}}", "ACHEN"),
        ("{{vars.name|ugx}}", "Achen"),
        ("{{vars.missing|default:friend}}", "friend"),
        ("{{vars.missing}}", ""),
        ("{{vars.list}}", ""),
        ("no slot", "no slot"),
    ],
)
def test_a_value_is_shown_through_its_filters(source: str, shown: str) -> None:
    assert compile_template(source, {**WIDEST, Name("vars", "missing"): "W"}).phone_text(SCOPE) == shown


@pytest.mark.parametrize(
    "source",
    [
        "{{vars.name|upper}}",
        "{{vars.name}}",
        "{{vars.name|trunc:4}}",
        "{{vars.name|mask}}",
        "{{vars.name|default:abcdefghijkl}}",
    ],
)
@pytest.mark.parametrize("value", ["ß" * 10, "ŋ" * 10, "[" * 99, "a\nb\x00c", "…" * 10, "", None, "😀" * 10])
def test_a_value_never_takes_more_septets_than_its_widest_value(source: str, value: Any) -> None:
    template = compile_template(source, WIDEST)
    shown = template.phone_text({"vars": {"name": value}})
    assert len(shown) <= len(template.widest)
    assert "\n" not in shown


def test_control_characters_are_removed_and_a_line_break_becomes_a_space() -> None:
    template = compile_template("{{vars.name}}", WIDEST)
    assert template.phone_text({"vars": {"name": "a\nb\x07\u200bc"}}) == "a bc"


def test_a_server_receives_the_letters_unchanged() -> None:
    template = compile_template("{{vars.name}}!", WIDEST)
    assert template.filled({"vars": {"name": "Ŋ[é]\n"}}) == "Ŋ[é] !"
    assert compile_template("{{vars.amount}}", WIDEST).raw(SCOPE) == 1234567


@pytest.mark.parametrize(
    "source",
    [
        "{{amount}}",
        "{{}}",
        "{{vars.amount",
        "vars}}",
        "{{vars.a|x}}",
        "{{vars.a|trunc}}",
        "{{vars.a|trunc:0}}",
        "{{vars.a|trunc:x}}",
        "{{vars.a|trunc:161}}",
        "{{vars.a|trunc:0016999}}",
        "{{vars.a|trunc:016" + "9" * 1500 + "}}",
        "{{vars.__a}}",
        "{{vars.a.b}}",
        "{{vars.a + 1}}",
        "bell \x07",
        "x" * 1601,
    ],
)
def test_a_text_that_cannot_be_read_is_refused(source: str) -> None:
    with pytest.raises(ExpressionError):
        compile_template(source, WIDEST)
