"""A menu that waits for the outcome of its payment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.menus.conftest import Phone
from ussd_server.menus.checks.check import check

Dial = Callable[..., Phone]
PAID, FAILED, LATER = "Paid. Thank you.", "You did not pay.", "We will send you a message."
APPROVE = "Approve the prompt on your phone, then"


def waiting(shop: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The shop, which waits for its payment."""
    ways = {"succeeded": {"end": PAID}, "failed": {"end": FAILED}, "waiting": {"end": LATER}}
    shop["nodes"]["pay"]["accepted"] = "wait"
    shop["nodes"]["wait"] = {"type": "wait_for_payment", "seconds": 10, **ways, **fields}
    return shop


@pytest.mark.parametrize(("payments", "screen"), [("succeeded", PAID), ("failed", FAILED), ("accepted", LATER)])
def test_the_outcome_decides_the_next_screen(dial: Dial, shop: dict[str, Any], payments: str, screen: str) -> None:
    dial(waiting(shop), payments=payments).types("1", "5000", "1").ends(screen)


def test_with_a_text_the_wait_begins_when_the_subscriber_goes_on(dial: Dial, shop: dict[str, Any]) -> None:
    phone = dial(waiting(shop, text=APPROVE, waiting="wait"), payments="accepted").types("1", "5000", "1")
    phone.shows(APPROVE, "1. Continue").types("1").shows(APPROVE, "1. Continue")
    assert not check(waiting(shop, text=APPROVE, waiting="wait")).errors


def test_a_refused_payment_is_not_waited_for(dial: Dial, shop: dict[str, Any]) -> None:
    dial(waiting(shop), payments="rejected").types("1", "5000", "1").ends("Goodbye")


def test_a_screen_before_the_wait_is_measured(shop: dict[str, Any]) -> None:
    errors = check(waiting(shop, text="W" * 161)).errors
    assert {(finding.rule, finding.node, finding.language) for finding in errors} == {
        ("budget", "wait", language) for language in ("en", "lg", "sw")
    }


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"waiting": "wait"}, "loop"),
        ({"seconds": 21}, "document"),
        ({"seconds": 0}, "document"),
        ({"seconds": None}, "document"),
        ({"waiting": None}, "document"),
    ],
)
def test_a_wait_without_an_end_is_refused(shop: dict[str, Any], change: dict[str, Any], rule: str) -> None:
    menu = waiting(shop, **change)
    menu["nodes"]["wait"] = {name: value for name, value in menu["nodes"]["wait"].items() if value is not None}
    assert {finding.rule for finding in check(menu).errors} == {rule}


def test_a_wait_that_may_come_without_a_payment_is_refused(shop: dict[str, Any]) -> None:
    menu = waiting(shop)
    menu["nodes"]["root"]["options"].append({"key": "4", "label": {"en": "Check"}, "goto": "wait"})
    (finding,) = check(menu).errors
    assert (finding.rule, finding.node) == ("payment", "wait")
