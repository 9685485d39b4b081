"""Scripts: their steps, and how a difference is reported."""

from __future__ import annotations

from typing import Any

import pytest

from ussd_server.menus.checks.check import check

Menu = dict[str, Any]
DIAL = {"phone": "+256772123456", "code": "*384*123#", "network": "64110"}


def findings(shop: Menu, **script: Any) -> list[str]:
    """Return what the check says of the shop with one script."""
    return [finding.message for finding in check({**shop, "scripts": [{"name": "s", "dial": DIAL, **script}]}).findings]


def test_a_script_plays_a_whole_payment(shop: Menu) -> None:
    steps = [
        {"expect": "Welcome to ACME"},
        {"send": "1", "expect": "Enter amount"},
        {"send": "5000"},
        {"expect": "Pay UGX 5,000"},
        {"send": "1", "end": True},
        {"retry": True, "end": True},
    ]
    assert findings(shop, steps=steps, after={"transaction": {"status": "pending", "amount": 5000}}) == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            {"steps": [{"expect": "Hello"}]},
            "script `s`, step 1: expected `Hello`, and the screen is:\n"
            "Welcome to ACME\n1. Pay\n2. Balance\n3. Language",
        ),
        ({"steps": [{"send": "1", "end": True}]}, "script `s`, step 1: the session should have ended here"),
        ({"steps": [{"send": "2", "end": False}]}, "script `s`, step 1: the session should not have ended here"),
        ({"steps": [{"send": "2"}, {"send": "1"}]}, "script `s`, step 2: the session has already ended"),
        ({"steps": [{"wait": 181}, {"send": "1"}]}, "script `s`, step 2: the session has already ended"),
        (
            {"steps": [{"send": "1"}], "after": {"transaction": {"amount": 5}}},
            "script `s`, after the last step: expected the transaction {'amount': 5}, and it is None",
        ),
        (
            {"steps": [{"send": "1"}], "after": {"node": "ok"}},
            "script `s`, after the last step: expected to be at `ok`, and the session is at `amount`",
        ),
        (
            {"steps": [{"send": "1"}], "after": {"language": "lg"}},
            "script `s`, after the last step: expected the language `lg`, and it is `en`",
        ),
        (
            {"steps": [{"send": "1"}, {"send": "700"}], "after": {"vars": {"amount": 500}}},
            "script `s`, after the last step: expected `vars.amount` to be 500, and it is 700",
        ),
        (
            {"steps": [{"send": "1", "retry": True}]},
            "`scripts.1.steps.1` has more than one of send, retry, wait and redial; write one step for each",
        ),
        ({"steps": [{"send": 1}]}, "`scripts.1.steps.1.send` has to be a text; write it in quotes"),
        (
            {"steps": [{"sned": "1"}]},
            "unknown field `scripts.1.steps.1.sned`; "
            "the fields here are `end`, `expect`, `redial`, `retry`, `send`, `wait`; did you mean `send`?",
        ),
        ({"steps": []}, "a script has 1 to 100 steps"),
        (
            {"steps": [{"send": "1"}], "dial": {"phone": "0772", "code": "*1#"}},
            "`dial.phone` has to be a number such as `+256772123456`",
        ),
    ],
)
def test_a_failing_script_reports_the_step_and_the_difference(shop: Menu, script: Menu, message: str) -> None:
    assert findings(shop, **script) == [message]


def test_a_payment_of_a_dropped_session_is_shown_on_the_next_dial(shop: Menu) -> None:
    shop["nodes"]["pay"]["accepted"] = "thanks"
    shop["nodes"]["thanks"] = {"type": "text", "text": {"en": "Thank you"}, "goto": "root"}
    steps = [
        {"send": "1"},
        {"send": "5000"},
        {"send": "1", "expect": "Thank you"},
        {"redial": True, "expect": "Your payment of UGX 5,000 to ACME is being processed."},
        {"send": "1", "expect": "Welcome to ACME"},
    ]
    assert findings(shop, steps=steps) == []


def test_the_world_of_a_script_answers_balances_and_refuses_payments(shop: Menu) -> None:
    world = {"balances": {"+256772123456": 4200}, "payments": "rejected"}
    assert findings(shop, world=world, steps=[{"send": "2", "expect": "UGX 4,200", "end": True}]) == []
    paying = [{"send": "1"}, {"send": "5000"}, {"send": "1", "expect": "Goodbye", "end": True}]
    assert findings(shop, world=world, steps=paying, after={"transaction": "none"}) == []


def test_a_difference_is_at_its_step_and_one_after_the_script_at_its_end(shop: Menu) -> None:
    for script, path in (
        ({"steps": [{}, {"expect": "Hello"}]}, ("scripts", "2", "steps", "2")),
        ({"steps": [{}], "after": {"node": "bye"}}, ("scripts", "2", "after")),
    ):
        (found,) = check({**shop, "scripts": [{"dial": DIAL, "steps": [{}]}, {"dial": DIAL, **script}]}).errors
        assert (found.path, found.node) == (path, "root")
