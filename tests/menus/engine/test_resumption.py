"""Entries dialled along with the code, and calls that follow a dropped one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ussd_server.menus.document.document import parse
from ussd_server.menus.engine.actions import Answered, BalanceAction, BalanceFound, HttpAction
from ussd_server.menus.engine.engine import enter, resume, start
from ussd_server.menus.engine.navigator import SessionFacts
from ussd_server.menus.engine.resumption import announce, reopen, resumption_node

Menu = dict[str, Any]
Dial = Callable[..., Any]
Make = Callable[..., Menu]

FACTS = SessionFacts("+256772123456", "*384*123#", "64110", "first")
AGAIN = replace(FACTS, session_id="second")
ROOT = ("Welcome to ACME", "1. Pay", "2. Balance", "3. Language")


def test_dialled_entries_pass_menus_and_inputs_and_stop_at_the_confirmation(shop: Menu, dial: Dial) -> None:
    question = ("Pay UGX 5,000 to ACME?", "1. Yes", "2. No", "0 Back")
    dial(shop, "1").shows("Enter amount (UGX)", "0 Back")
    dial(shop, "1", "5000").shows(*question)
    phone = dial(shop, "1", "5000", "1", "1").shows(*question)
    assert phone.simulator.payments == {}
    phone.types("1").ends("Approve the prompt on your phone with your PIN.")


def test_dialled_entries_pass_a_language_and_remember_it(shop: Menu, dial: Dial) -> None:
    phone = dial(shop, "3", "2", "1").shows("Enter amount (UGX)", "0 Ddayo")
    assert phone.simulator.language == "lg"


def test_dialled_entries_stop_at_the_first_that_does_not_fit(shop: Menu, dial: Dial) -> None:
    dial(shop, "9", "1").shows("Invalid choice", *ROOT)
    dial(shop, "1", "5", "5000").shows("Enter whole shillings, 500 to 999,999.", "Enter amount (UGX)", "0 Back")


def test_dialled_entries_pass_a_balance_on_the_way(shop: Menu) -> None:
    shop["nodes"]["bal"]["goto"] = "root"
    document = parse(shop)
    turn = start(document, FACTS, entries=("2", "1", "5000"))
    assert turn.action == BalanceAction("bal", "+256772123456")
    turn = resume(document, turn.state, BalanceFound(100))
    assert turn.screen is not None
    assert turn.screen.text.startswith("Pay UGX 5,000 to ACME?")


def secret_menu(menu: Make, method: str) -> Menu:
    return menu(
        {
            "root": {
                "type": "menu",
                "text": {"en": "Hi"},
                "options": [
                    {"label": {"en": "Code"}, "goto": "code"},
                    {"label": {"en": "Ask"}, "goto": "ask"},
                    {"label": {"en": "Read"}, "goto": "read"},
                ],
            },
            "code": {"type": "input", "text": {"en": "Your code"}, "var": "code", "secret": True, "goto": "bye"},
            "ask": {"type": "http", "method": "GET", "url": "https://a.example/", "goto": "act", "on_error": "bye"},
            "act": {"type": "http", "method": method, "url": "https://a.example/", "goto": "bye", "on_error": "bye"},
            "read": {"type": "text", "text": {"en": "Long"}, "goto": "bye"},
        },
        vars={"code": {"type": "text"}},
    )


def test_dialled_entries_never_fill_a_secret(menu: Make, dial: Dial) -> None:
    dial(secret_menu(menu, "GET"), "1", "1234").shows("Your code", "0 Back")


def test_dialled_entries_stop_at_a_long_text(menu: Make, dial: Dial) -> None:
    dial(secret_menu(menu, "GET"), "3", "1").shows("Long", "1. Continue", "0 Back")


def test_dialled_entries_call_the_clients_server_only_by_get(menu: Make) -> None:
    document = parse(secret_menu(menu, "GET"))
    turn = start(document, FACTS, entries=("2",))
    assert isinstance(turn.action, HttpAction)
    turn = resume(document, turn.state, Answered({}))
    assert isinstance(turn.action, HttpAction)
    document = parse(secret_menu(menu, "POST"))
    turn = resume(document, start(document, FACTS, entries=("2", "x")).state, Answered({}))
    assert turn.action is None
    assert turn.screen is not None
    assert turn.screen.text == "Hi\n1. Code\n2. Ask\n3. Read"


def test_a_post_right_behind_an_option_is_not_made_by_dialled_entries(menu: Make, dial: Dial) -> None:
    raw = secret_menu(menu, "POST")
    raw["nodes"]["root"]["options"][1]["goto"] = "act"
    dial(raw, "2").shows("Hi", "1. Code", "2. Ask", "3. Read")
    dial(raw, answers={"act": {}}).types("2").ends("Goodbye")


def test_a_dropped_call_is_offered_to_be_continued_before_the_confirmation(shop: Menu, dial: Dial) -> None:
    phone = dial(shop).types("1", "5000")
    phone.simulator.wait(300)
    phone.simulator.redial()
    phone.shows("Continue where you stopped?", "1. Yes", "2. Start again")
    phone.types("7").shows("Continue where you stopped?", "1. Yes", "2. Start again")
    phone.types("1").shows("Enter amount (UGX)", "0 Back").types("700").shows(
        "Pay UGX 700 to ACME?", "1. Yes", "2. No", "0 Back"
    )


def test_a_person_may_start_again_instead(shop: Menu, dial: Dial) -> None:
    phone = dial(shop).types("1", "5000")
    phone.simulator.redial()
    phone.types("2").shows(*ROOT)
    assert phone.simulator.state.variables == {}


def test_given_variables_are_set_again_after_starting_again(shop: Menu, dial: Dial) -> None:
    shop["vars"]["points"] = {"type": "integer", "given": True}
    shop["nodes"]["root"]["text"] = {"en": "{{vars.points}} points"}
    phone = dial(shop, given={"points": 7}).types("1", "5000")
    phone.simulator.redial()
    phone.types("2").shows("7 points", *ROOT[1:])


def test_a_menu_may_resume_at_once_or_never(shop: Menu, dial: Dial) -> None:
    shop["resume"] = "auto"
    phone = dial(shop).types("1", "5000")
    phone.simulator.redial()
    phone.shows("Enter amount (UGX)", "0 Back")
    shop["resume"] = "off"
    phone = dial(shop).types("1", "5000")
    phone.simulator.redial()
    phone.shows(*ROOT)


@pytest.mark.parametrize(("entries", "waited"), [((), 0), (("1",), 0), (("1", "5000"), 601), (("1", "00"), 0)])
def test_a_short_old_or_returned_call_is_not_resumed(
    shop: Menu, dial: Dial, entries: tuple[str, ...], waited: int
) -> None:
    phone = dial(shop).types(*entries)
    phone.simulator.wait(waited)
    phone.simulator.redial()
    phone.shows(*ROOT)


def test_a_resumed_confirmation_gets_a_new_name(shop: Menu) -> None:
    document = parse(shop)
    state = start(document, FACTS).state
    for entry in ("1", "5000"):
        state = enter(document, state, entry).state
    assert state.confirmation == "ok#1"
    assert resumption_node(document, state) == ("amount", 0, (("root", 0),))
    turn = reopen(document, state, AGAIN)
    assert turn is not None
    assert turn.state.confirmation is None
    assert turn.state.facts == AGAIN
    for entry in ("1", "5000"):
        turn = enter(document, turn.state, entry)
    assert turn.state.confirmation == "ok#2"


@pytest.mark.parametrize(
    ("outcome", "cents", "sentence"),
    [
        ("succeeded", 500_000, "Your payment of UGX 5,000 to ACME succeeded.\n0 Menu"),
        ("failed", 500_050, "Your payment of UGX 5,000.50 to ACME failed.\n0 Menu"),
        ("processing", 0, "Your payment is being processed.\n1. Continue"),
        ("pending", 500_000, "Your payment of UGX 5,000 to ACME is being processed.\n1. Continue"),
    ],
)
def test_the_outcome_of_a_payment_is_the_first_screen(shop: Menu, outcome: str, cents: int, sentence: str) -> None:
    document = parse(shop)
    turn = announce(document, AGAIN, "en", outcome, cents)
    assert turn.screen is not None
    assert turn.screen.text == sentence
    turn = enter(document, turn.state, sentence.split("\n")[1][0])
    assert turn.screen is not None
    assert turn.screen.text == "\n".join(ROOT)


def test_the_outcome_is_shown_in_the_language_of_the_subscriber(shop: Menu) -> None:
    turn = announce(parse(shop), AGAIN, "lg", "processing", 100)
    assert turn.screen is not None
    assert turn.screen.text == "Okusasula kwo kukolebwako.\n1. Genda mu maaso"


@pytest.mark.parametrize("kind", ["collection", "disbursement", "transfer"])
@pytest.mark.parametrize("language", ["en", "lg", "sw"])
def test_an_outcome_names_the_title_as_far_as_it_fits(shop: Menu, kind: str, language: str) -> None:
    shop["title"] = "ŋ" + "The Extraordinarily Long Name Of A Cooperative Society In Kampala And Its Branches"
    shop["limits"] = {"septets": 80, "ucs2": 40}
    document = parse(shop)
    turn = announce(document, AGAIN, language, "succeeded", 99_999_900, kind=kind)
    assert turn.screen is not None
    assert document.budgets.common.fits(turn.screen.text)
    assert "999,999" in turn.screen.text
    assert turn.screen.text.endswith(("\n0 Menu", "\n0 Menyu"))
    assert ("ng'The Ex" in turn.screen.text) == (kind != "transfer")
