"""Today's date in a menu: kept, compared, and shown day first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.menus.conftest import FACTS
from ussd_server.menus.checks.check import check
from ussd_server.menus.document.document import parse
from ussd_server.menus.engine.engine import enter, start
from ussd_server.menus.engine.navigator import State


def loan() -> dict[str, Any]:
    return {
        "id": "loan",
        "title": "Loan",
        "start": "due",
        "default_language": "en",
        "languages": ["en"],
        "vars": {"due": {"type": "date"}, "first": {"type": "date"}},
        "nodes": {
            "due": {"type": "set", "values": {"due": "today() + 30"}, "goto": "ask"},
            "ask": {
                "type": "menu",
                "text": "Pay back by {{vars.due}}?",
                "options": [
                    {"label": "Yes", "goto": "last", "set": {"first": "today() + 1"}, "when": "vars.due > today()"}
                ],
            },
            "last": {"type": "end", "text": "First payment on {{vars.first}}."},
        },
    }


def test_a_date_is_that_of_the_day_on_which_the_session_began_and_is_shown_day_first() -> None:
    assert check(loan()).errors == ()
    document = parse(loan())
    turn = start(document, replace(FACTS, today="2027-02-10"))
    assert turn.screen is not None
    assert turn.screen.text == "Pay back by 12/03/2027?\n1. Yes"
    later = State.from_dict(turn.state.to_dict())
    assert later.variables["due"] == "2027-03-12"
    turn = enter(document, later, "1")
    assert turn.screen is not None
    assert turn.screen.text == "First payment on 11/02/2027."


def test_a_date_that_is_kept_as_a_text_is_named() -> None:
    document = loan()
    document["vars"]["due"] = {"type": "text"}
    assert [(each.rule, each.node) for each in check(document).warnings] == [("date", "due")]
