"""Two people decide: names that look the same are one person, and operators with accounts are known."""

from __future__ import annotations

import pytest

from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.operator_names import require_name, require_two_people
from ussd_server.services.operators.messages import CreateOperator
from ussd_server.status import Code, ServiceError

ALIKE = {
    "case": ("Jane Doe", "jane doe"),
    "spaces": ("Jane Doe", " Jane \u00a0Doe"),
    "zero-width space": ("Jane", "Ja\u200bne"),
    "joiner": ("Jane", "Jane\u200d"),
    "grapheme joiner": ("Jane", "Ja\u034fne"),
    "Hangul filler": ("Jane", "Jane\u3164"),
    "variation selector": ("Jane", "Jane\ufe0f"),
    "soft hyphen": ("Jane", "Ja\u00adne"),
    "direction": ("Jane", "\u202aJane\u202c"),
    "tag": ("Jane", "Jane\U000e0041"),
    "full width": ("Jane", "\uff2a\uff41\uff4e\uff45"),
    "ligature": ("Fiona", "\ufb01ona"),
    "composition": ("Zo\u00eb", "Zoe\u0308"),
    "sharp s": ("Strauss", "Strau\u00df"),
    "other script": ("Jane", "J\u0430ne"),
    "whole name in another script": ("Ace", "\u0410\u0441\u0435"),
}


def refusal(by: str, second: str, reason: str = "statement") -> str:
    with pytest.raises(ServiceError) as refused:
        require_two_people(by, second, reason)
    assert refused.value.code is Code.INVALID_REQUEST
    return refused.value.message


@pytest.mark.parametrize(("one", "other"), ALIKE.values(), ids=ALIKE)
def test_two_names_that_look_the_same_are_no_two_people(services: Services, one: str, other: str) -> None:
    assert refusal(one, other)
    assert refusal(other, one)


def test_names_are_of_letters_until_operators_have_accounts(services: Services) -> None:
    for wrong in ("", " ", "x" * 101, "\u200b", "Mary\u0332", "Mary!", "Mary\u202e", "M\u0430ry"):
        assert refusal("Jane", wrong)
    assert refusal("Jane", "Mary", reason=" ").startswith("A reason is needed")
    assert require_two_people("  Jane  O'Neill-Doe ", "j.doe@ops.example", "statement") == (
        "Jane O'Neill-Doe",
        "j.doe@ops.example",
    )
    assert require_two_people("\u0410\u043d\u043d\u0430", "\u041c\u0430\u0448\u0430", "statement")


def test_with_accounts_only_active_operators_decide(services: Services) -> None:
    accounts = services.operators
    for name in ("ann", "bob"):
        accounts.create(CreateOperator(f"{name}@ops.example", "correct horse battery"), operator_context())
    both = ("ann@ops.example", "bob@ops.example")
    assert require_two_people("ANN@ops.example", "bob@ops.example\u200b", "statement") == both
    for unknown in ("Jane", "\u0430nn@ops.example", "carol@ops.example", "ann"):
        assert "active operator" in refusal(unknown, "bob@ops.example")
        assert "active operator" in refusal("bob@ops.example", unknown)
    assert "Two different people" in refusal("ann@ops.example", "Ann@ops.example\u2060")
    accounts.set_active("bob@ops.example", False, operator_context())
    assert "active operator" in refusal(*both)


def test_an_operator_who_decides_alone_has_an_account_too(services: Services) -> None:
    assert require_name(" Jane  Doe ") == "Jane Doe"
    for wrong in ("", "\u200b", "x" * 101, "Mary!"):
        with pytest.raises(ServiceError):
            require_name(wrong)
    services.operators.create(CreateOperator("ann@ops.example", "correct horse battery"), operator_context())
    assert require_name("ANN@ops.example") == "ann@ops.example"
    with pytest.raises(ServiceError, match="active operator"):
        require_name("Jane Doe")
