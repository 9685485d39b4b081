"""Sessions through every kind of node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ussd_server.menus.document.document import parse
from ussd_server.menus.engine.actions import Failed
from ussd_server.menus.engine.engine import enter, resume, start
from ussd_server.menus.engine.navigator import DisplayOptions, SessionFacts, State
from ussd_server.menus.tools.walk import next_keys

Menu = dict[str, Any]
Dial = Callable[..., Any]
Make = Callable[..., Menu]

FACTS = SessionFacts("+256772123456", "*384*123#", "64110", "s1")


def test_a_person_pays_after_a_confirmation(shop: Menu, dial: Dial) -> None:
    phone = dial(shop)
    phone.shows("Welcome to ACME", "1. Pay", "2. Balance", "3. Language")
    phone.types("1").shows("Enter amount (UGX)", "0 Back")
    phone.types("5000").shows("Pay UGX 5,000 to ACME?", "1. Yes", "2. No", "0 Back")
    phone.types("1").ends("Approve the prompt on your phone with your PIN.")
    assert [(each["status"], each["amount"]) for each in phone.simulator.payments.values()] == [("pending", 5000)]


def test_a_person_who_says_no_pays_nothing(shop: Menu, dial: Dial) -> None:
    phone = dial(shop).types("1", "5000", "2")
    phone.shows("Welcome to ACME", "1. Pay", "2. Balance", "3. Language")
    assert phone.simulator.payments == {}


def test_a_refused_payment_goes_where_the_menu_says(shop: Menu, dial: Dial) -> None:
    dial(shop, payments="rejected").types("1", "5000", "1").ends("Goodbye")


def test_a_balance_is_shown_in_whole_shillings(shop: Menu, dial: Dial) -> None:
    dial(shop, balances={"+256772123456": 12345.5}).types("2").ends("Your balance is UGX 12,345")


def test_a_balance_that_is_not_available_ends_politely(shop: Menu) -> None:
    document = parse(shop)
    turn = enter(document, start(document, FACTS).state, "2")
    ended = resume(document, turn.state, Failed())
    assert ended.screen is not None
    assert ended.screen.text == "Sorry, this did not work. Please try again later."
    assert ended.screen.ends


def test_one_document_serves_many_sessions_with_their_own_values(menu: Make) -> None:
    option = {"label": {"en": "Gold"}, "goto": "end", "when": "session.network == '64110'"}
    document = parse(
        menu(
            {
                "root": {"type": "menu", "text": {"en": "Hello", "lg": "Gyebale"}, "options": [option]},
                "end": {"type": "end", "text": {"en": "You are {{session.phone_number}}"}},
            },
            languages=["en", "lg"],
        )
    )
    shown = []
    for number, network, language in (("1", "64110", "en"), ("2", "64101", "en"), ("3", "64110", "lg")):
        facts = SessionFacts(f"+25677000000{number}", "*384*123#", network, f"s{number}")
        first = start(document, facts, language)
        last = enter(document, first.state, "1")
        shown += [turn.screen.text for turn in (first, last) if turn.screen is not None]
    assert shown == [
        "Hello\n1. Gold", "You are +256770000001",
        "Hello", "Invalid choice.\nHello",
        "Gyebale\n1. Gold", "You are +256770000003",
    ]  # fmt: skip


def test_a_language_is_chosen_and_remembered(shop: Menu, dial: Dial) -> None:
    phone = dial(shop).types("3").shows("Choose a language", "1. English", "2. Luganda", "3. Kiswahili", "0 Back")
    phone.types("2").shows("Tukusanyukidde", "1. Pay", "2. Balance", "3. Language")
    phone.types("1").shows("Enter amount (UGX)", "0 Ddayo")
    assert phone.simulator.language == "lg"


def test_a_session_begins_in_the_remembered_language(shop: Menu, dial: Dial) -> None:
    dial(shop, language="lg").shows("Tukusanyukidde", "1. Pay", "2. Balance", "3. Language")
    dial(shop, language="fr").shows("Welcome to ACME", "1. Pay", "2. Balance", "3. Language")


def test_three_wrong_choices_lead_where_the_menu_says(shop: Menu, dial: Dial) -> None:
    phone = dial(shop).types("7").shows("Invalid choice", "Welcome to ACME", "1. Pay", "2. Balance", "3. Language")
    phone.types("x").types("").ends("Goodbye")


def test_a_right_choice_resets_the_count_of_wrong_ones(shop: Menu, dial: Dial) -> None:
    dial(shop).types("7", "7", "1", "0", "7", "7").shows(
        "Invalid choice", "Welcome to ACME", "1. Pay", "2. Balance", "3. Language"
    )


@pytest.mark.parametrize(
    ("typed", "notice"),
    [
        ("499", "Enter whole shillings, 500 to 999,999."),
        ("1000000", "Enter whole shillings, 500 to 999,999."),
        ("5000.5", "Enter whole shillings, 500 to 999,999."),
        ("-5000", "Enter whole shillings, 500 to 999,999."),
        ("٥٠٠٠", "Enter whole shillings, 500 to 999,999."),
        ("", "Invalid entry."),
        ("5" * 200, "Invalid entry."),
        ("5050", "Use multiples of 100"),
    ],
)
def test_an_amount_that_does_not_pass_is_asked_for_again(shop: Menu, dial: Dial, typed: str, notice: str) -> None:
    dial(shop).types("1", typed).shows(notice, "Enter amount (UGX)", "0 Back")


def test_an_amount_may_have_thousands_separators(shop: Menu, dial: Dial) -> None:
    dial(shop).types("1", " 5,000 ").shows("Pay UGX 5,000 to ACME?", "1. Yes", "2. No", "0 Back")


@pytest.mark.parametrize(
    ("declared", "rules", "typed", "kept"),
    [
        ({"type": "phone"}, [], "0772123456", "+256772123456"),
        ({"type": "phone"}, [], "256772123456", "+256772123456"),
        ({"type": "phone"}, [], "+256 772 123456", "+256772123456"),
        ({"type": "phone"}, [], "0312123456", None),
        ({"type": "phone"}, [], "07721234567", None),
        ({"type": "date"}, [], "31/12/2026", "2026-12-31"),
        ({"type": "date"}, [], "31122026", "2026-12-31"),
        ({"type": "date"}, [], "2026-12-31", "2026-12-31"),
        ({"type": "date"}, [], "31/02/2026", None),
        ({"type": "integer", "max_len": 3}, [{"rule": "integer", "min": -5, "max": 50}], "-5", -5),
        ({"type": "integer", "max_len": 3}, [{"rule": "integer", "min": -5, "max": 50}], "51", None),
        ({"type": "integer", "max_len": 3}, [], "1000", None),
        ({"type": "text", "max_len": 8}, [{"rule": "length", "min": 3, "max": 5}], "abcd", "abcd"),
        ({"type": "text", "max_len": 8}, [{"rule": "length", "min": 3, "max": 5}], "ab", None),
        ({"type": "text", "max_len": 8}, [{"rule": "regex", "pattern": "[A-Z]{2}\\d{4}"}], "AB1234", "AB1234"),
        ({"type": "text", "max_len": 8}, [{"rule": "regex", "pattern": "[A-Z]{2}\\d{4}"}], "AB12345", None),
        ({"type": "text", "max_len": 8}, [{"rule": "regex", "pattern": "\\d+"}], "١٢٣", None),
        ({"type": "text", "max_len": 8}, [{"rule": "one_of", "values": ["P7", "S1"]}], "S1", "S1"),
        ({"type": "text", "max_len": 8}, [{"rule": "one_of", "values": ["P7", "S1"]}], "S2", None),
        ({"type": "text", "max_len": 4}, [], "abcde", None),
        ({"type": "text", "max_len": 4, "overflow": "truncate"}, [], "abcde", "abcd"),
        ({"type": "text"}, [], "a\x07b", None),
    ],
)
def test_an_input_keeps_what_its_rules_let_pass(
    menu: Make, dial: Dial, declared: Menu, rules: list[Menu], typed: str, kept: Any
) -> None:
    raw = menu(
        {"root": {"type": "input", "text": {"en": "Say"}, "var": "v", "validate": rules, "goto": "bye"}},
        vars={"v": declared},
    )
    phone = dial(raw).types(typed)
    assert phone.simulator.state.variables.get("v") == kept
    assert phone.simulator.screen.ends == (kept is not None)


def test_an_option_can_be_hidden_and_can_set_a_variable(menu: Make, dial: Dial) -> None:
    raw = menu(
        {
            "root": {
                "type": "menu",
                "text": {"en": "Class"},
                "options": [
                    {"label": {"en": "One"}, "goto": "root", "set": {"level": "vars.level + 1"}, "when": "vars.level"},
                    {"label": {"en": "Begin"}, "goto": "root", "set": {"level": "1"}, "when": "not vars.level"},
                    {"label": {"en": "Level {{vars.level|default:none}}"}, "goto": "bye"},
                ],
            }
        },
        vars={"level": {"type": "integer", "max_len": 2}},
    )
    phone = dial(raw).shows("Class", "2. Begin", "3. Level none")
    phone.types("1").shows("Invalid choice.", "Class", "2. Begin", "3. Level none")
    phone.types("2").shows("Class", "1. One", "3. Level 1")
    phone.types("1").shows("Class", "1. One", "3. Level 2")


def test_a_long_menu_is_paged_without_splitting_an_option(menu: Make, dial: Dial) -> None:
    options = [{"label": {"en": f"District number {number} of all"}, "goto": "bye"} for number in range(1, 12)]
    raw = menu({"root": {"type": "menu", "text": {"en": "Where?"}, "options": options}})
    phone = dial(raw)
    first = [f"{number}. District number {number} of all" for number in range(1, 6)]
    phone.shows("Where?", *first, "98 More")
    phone.types("98").shows(
        *[f"{number}. District number {number} of all" for number in range(6, 11)], "98 More", "99 Prev"
    )
    phone.types("98").shows("11. District number 11 of all", "99 Prev")
    phone.types("98").shows("Invalid choice.", "Where?", *first[:4], "98 More")
    phone.types("98", "99", "11").ends("Goodbye")


def test_every_option_is_on_a_page_below_a_notice(menu: Make, dial: Dial) -> None:
    options = [{"label": {"en": f"District number {number} of all"}, "goto": "bye"} for number in range(1, 12)]
    phone = dial(menu({"root": {"type": "menu", "text": {"en": "Where?"}, "options": options}}))
    lines = [f"{number}. District number {number} of all" for number in range(1, 12)]
    phone.types("x").shows("Invalid choice.", "Where?", *lines[:4], "98 More")
    phone.types("98").shows(*lines[4:9], "98 More", "99 Prev")
    phone.types("98").shows(*lines[9:], "99 Prev")
    phone.types("99", "99").shows("Where?", *lines[:5], "98 More")


def test_a_menu_of_one_page_has_a_second_below_a_notice(menu: Make, dial: Dial) -> None:
    options = [{"label": {"en": f"District number {number} of all"}, "goto": "bye"} for number in range(1, 6)]
    phone = dial(menu({"root": {"type": "menu", "text": {"en": "Where?"}, "options": options}}))
    lines = [f"{number}. District number {number} of all" for number in range(1, 6)]
    phone.shows("Where?", *lines).types("x").shows("Invalid choice.", "Where?", *lines[:4], "98 More")
    simulator = phone.simulator
    keys = [each.key for each in next_keys(simulator.document, simulator.state, simulator.channel)]
    assert keys == ["1", "2", "3", "4", "5", "98"]
    phone.types("98").shows(*lines[4:], "99 Prev")


def test_a_list_shows_what_a_variable_holds_and_keeps_what_is_chosen(menu: Make, dial: Dial) -> None:
    raw = menu(
        {
            "root": {
                "type": "list",
                "text": {"en": "Members"},
                "items": "vars.members",
                "label": {"en": "{{item.name}} {{item.phone|local}}"},
                "value": "item.phone",
                "var": "to",
                "goto": "show",
                "empty": {"end": {"en": "No members."}},
            },
            "show": {"type": "text", "text": {"en": "Chosen {{vars.to|mask}}"}, "goto": "bye"},
        },
        vars={
            "to": {"type": "phone"},
            "members": {
                "type": "list",
                "given": True,
                "max_items": 3,
                "fields": {"name": {"type": "text", "max_len": 10}, "phone": {"type": "phone"}},
            },
        },
    )
    members = [{"name": "Achen", "phone": "+256772000001"}, {"name": "Okot", "phone": "+256772000002"}]
    phone = dial(raw, given={"members": members}).shows("Members", "1. Achen 0772000001", "2. Okot 0772000002")
    phone.types("3").shows("Invalid choice.", "Members", "1. Achen 0772000001", "2. Okot 0772000002")
    phone.types("2").shows("Chosen **********002", "1. Continue", "0 Back")
    dial(raw).ends("No members.")


def test_a_list_longer_than_a_page_is_paged(menu: Make, dial: Dial) -> None:
    raw = menu(
        {
            "root": {
                "type": "list",
                "text": "Loans",
                "items": "vars.loans",
                "label": "{{item}}",
                "var": "loan",
                "goto": "show",
            },
            "show": {"type": "end", "text": "{{vars.loan}}"},
        },
        vars={"loan": {"type": "text"}, "loans": {"type": "list", "given": True, "max_items": 4}},
    )  # fmt: skip
    loans = [f"L{number}" for number in range(1, 61)]
    phone = dial(raw, given={"loans": loans}).shows("Loans", "1. L1", "2. L2", "3. L3", "4. L4", "98 More")
    phone.types("98").shows("5. L5", "6. L6", "7. L7", "8. L8", "98 More", "99 Prev")
    phone.types(*["98"] * 11).shows("49. L49", "50. L50", "99 Prev")
    phone.types("51").shows("Invalid choice.", "Loans", "1. L1", "2. L2", "3. L3", "4. L4", "98 More")
    phone.types("7").ends("L7")
    assert dial(raw, given={"loans": loans[:4]}).shows("Loans", "1. L1", "2. L2", "3. L3", "4. L4")


def test_a_list_may_stand_in_the_document(menu: Make, dial: Dial) -> None:
    raw = menu(
        {
            "root": {
                "type": "list",
                "text": {"en": "Town"},
                "items": ["Gulu", "Lira"],
                "label": {"en": "{{item}}"},
                "var": "town",
                "goto": "show",
            },
            "show": {"type": "end", "text": {"en": "{{vars.town|upper}}"}},
        },
        vars={"town": {"type": "text", "max_len": 10}},
    )
    dial(raw).shows("Town", "1. Gulu", "2. Lira").types("2").ends("LIRA")


def test_a_long_text_is_paged_at_word_boundaries(menu: Make, dial: Dial) -> None:
    words = " ".join(f"word{number}" for number in range(1, 46))
    phone = dial(menu({"root": {"type": "text", "text": {"en": words}, "goto": "bye"}}))
    read = []
    for _ in range(9):
        lines = phone.simulator.screen.text.split("\n")
        assert phone.simulator.screen.size.units <= 160
        read += lines[0].split()
        if "98 More" not in lines:
            break
        phone.types("98")
    assert " ".join(read) == words
    phone.types("1").ends("Goodbye")


def test_a_router_and_a_set_show_nothing_themselves(menu: Make, dial: Dial) -> None:
    raw = menu(
        {
            "root": {"type": "input", "text": {"en": "Amount"}, "var": "amount", "goto": "fee"},
            "fee": {"type": "set", "values": {"fee": "int(vars.amount / 100)", "lost": "None"}, "goto": "size"},
            "size": {
                "type": "router",
                "cases": [{"when": "vars.lost", "goto": "bye"}, {"when": "vars.fee >= 10", "goto": "large"}],
                "else": {"end": {"en": "Fee {{vars.fee|ugx}}{{vars.lost}}"}},
            },
            "large": {"type": "end", "text": {"en": "Large fee {{vars.fee}}"}},
        },
        vars={"amount": {"type": "amount"}, "fee": {"type": "amount"}, "lost": {"type": "integer"}},
    )
    dial(raw).types("900").ends("Fee 9")
    dial(raw).types("1000").ends("Large fee 10")


def test_back_goes_back_through_places_and_pages(menu: Make, dial: Dial) -> None:
    options = [{"label": {"en": f"District number {number} of all"}, "goto": "ask"} for number in range(1, 12)]
    raw = menu(
        {
            "root": {"type": "menu", "text": {"en": "Where?"}, "options": options},
            "ask": {"type": "input", "text": {"en": "Who?"}, "var": "who", "goto": "more"},
            "more": {"type": "text", "text": {"en": "Thanks {{vars.who}}"}, "goto": "bye"},
        },
        vars={"who": {"type": "text"}},
    )
    phone = dial(raw).types("98", "98")
    last = phone.simulator.screen.text
    phone.types("11", "Okot").shows("Thanks Okot", "1. Continue", "0 Back")
    phone.types("0").shows("Who?", "0 Back").types("0")
    assert phone.simulator.screen.text == last
    phone.types("0")
    assert phone.simulator.screen.text == last


def test_home_goes_to_the_first_screen_and_clears_the_stack(shop: Menu, dial: Dial) -> None:
    phone = dial(shop).types("1", "5000", "00")
    phone.shows("Welcome to ACME", "1. Pay", "2. Balance", "3. Language")
    assert phone.simulator.state.back == ()
    phone.types("0").shows("Welcome to ACME", "1. Pay", "2. Balance", "3. Language")


def test_a_loop_without_a_screen_ends_politely(menu: Make, dial: Dial) -> None:
    nodes = {"root": {"type": "set", "values": {"n": "1"}, "goto": "root"}}
    dial(menu(nodes, vars={"n": {"type": "integer"}})).ends("Sorry, this did not work. Please try again later.")


def test_a_stored_state_is_read_back_as_it_was(shop: Menu) -> None:
    document = parse(shop)
    state = start(document, FACTS).state
    for entry in ("1", "5000", "0", "x", "5000"):
        state = enter(document, state, entry).state
        assert State.from_dict(json.loads(json.dumps(state.to_dict()))) == state


def test_a_channel_transliterates_or_leaves_the_letters(menu: Make, dial: Dial) -> None:
    raw = menu({"root": {"type": "end", "text": {"en": "Ŋamba “yee” – {{session.network}}"}}})
    dial(raw).ends('Ng\'amba "yee" - 64110')
    dial(raw, channel=DisplayOptions(transliterates=False)).ends("Ŋamba “yee” – 64110")
