"""The actions of a menu: payments, look-ups, calls to the client's server, and the secrets that they use."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ussd_server.menus.document.document import parse
from ussd_server.menus.engine.actions import (
    Failed,
    HandedOver,
    HandoverAction,
    HttpAction,
    LookupNameAction,
    PayAction,
    SmsAction,
    SmsQueued,
)
from ussd_server.menus.engine.engine import enter, resume, start
from ussd_server.menus.engine.navigator import MASK, SessionFacts, State

Menu = dict[str, Any]
Dial = Callable[..., Any]
Make = Callable[..., Menu]

FACTS = SessionFacts("+256772123456", "*384*123#", "64110", "s1")


def test_a_name_is_looked_up_and_cut_to_its_declared_length(menu: Make, dial: Dial) -> None:
    raw = menu(
        {
            "root": {"type": "input", "text": {"en": "To"}, "var": "to", "goto": "who"},
            "who": {"type": "lookup_name", "of": "vars.to", "var": "name", "goto": "show", "on_error": "unknown"},
            "show": {"type": "end", "text": {"en": "To {{vars.name}}?"}},
            "unknown": {"type": "end", "text": {"en": "Nobody at {{vars.to|local}}."}},
        },
        vars={"to": {"type": "phone"}, "name": {"type": "text", "max_len": 10, "overflow": "truncate"}},
    )
    dial(raw, names={"+256772000001": "NAKATO\nMARY JANE"}).types("0772000001").ends("To NAKATO MAR?")
    dial(raw).types("0772000001").ends("Nobody at 0772000001.")


def test_what_a_payment_is_for_is_filled_in_on_one_line_and_cut_at_two_hundred_characters(shop: Menu) -> None:
    shop["nodes"]["pay"] |= {
        "description": "Bill\n of {{vars.amount|ugx}}, " + "x" * 300,
        "metadata": {"phone": "{{session.phone_number|local}}", "name": "{{vars.name}}"},
    }
    document = parse(shop)
    state = start(document, FACTS).state
    for entry in ("1", "5000"):
        state = enter(document, state, entry).state
    action = enter(document, state, "1").action
    assert isinstance(action, PayAction)
    assert action.description == ("Bill of 5,000, " + "x" * 300)[:200]
    assert action.metadata == {"phone": "0772123456", "name": ""}


HTTP_VARS = {"id": {"type": "text", "max_len": 10}, "due": {"type": "amount"}, "pin": {"type": "text", "max_len": 4}}


def http_menu(menu: Make) -> Menu:
    return menu(
        {
            "root": {"type": "input", "text": {"en": "Pupil"}, "var": "id", "goto": "pin"},
            "pin": {"type": "input", "text": {"en": "Code"}, "var": "pin", "secret": True, "goto": "ask"},
            "ask": {
                "type": "http",
                "method": "POST",
                "url": "https://school.example/pupils/{{vars.id}}",
                "headers": {"X-Network": "{{session.network}}"},
                "body": {"code": "{{vars.pin}}", "n": 1, "ids": ["{{vars.id}}"]},
                "timeout_ms": 1500,
                "map": {"due": "fees.0.due"},
                "goto": "show",
                "on_error": {"end": {"en": "Not found."}},
                "on_timeout": {"end": {"en": "Too slow."}},
            },
            "show": {"type": "end", "text": {"en": "Due UGX {{vars.due|ugx}}"}},
        },
        vars=HTTP_VARS,
    )


@pytest.mark.parametrize(
    ("answer", "screen"),
    [
        ({"fees": [{"due": 1200}]}, "Due UGX 1,200"),
        ({"fees": [{"due": "1200"}]}, "Due UGX 1,200"),
        ({"fees": [{"due": 12.5}]}, "Not found."),
        ({"fees": []}, "Not found."),
        ([1], "Not found."),
        ({"fees": [{"due": 10**400}]}, "Not found."),
        ("error", "Not found."),
        ("timeout", "Too slow."),
    ],
)
def test_the_clients_server_is_called_and_its_response_shown(menu: Make, dial: Dial, answer: Any, screen: str) -> None:
    dial(http_menu(menu), answers={"ask": answer}).types("S 1", "1234").ends(screen)


def test_a_secret_is_passed_to_the_next_action_and_then_dropped(menu: Make) -> None:
    document = parse(http_menu(menu))
    turn = enter(document, start(document, FACTS).state, "S/1")
    turn = enter(document, turn.state, "9876")
    assert turn.action == HttpAction(
        "ask",
        "POST",
        "https://school.example/pupils/S%2F1",
        (("X-Network", "64110"),),
        {"code": "9876", "n": 1, "ids": ["S/1"]},
        1500,
    )
    assert turn.entry_shown == MASK
    assert "9876" not in json.dumps(turn.state.to_dict())
    assert "9876" not in repr(turn)


def test_a_wrong_secret_is_masked_as_well(menu: Make) -> None:
    document = parse(http_menu(menu))
    turn = enter(document, start(document, FACTS).state, "S1")
    turn = enter(document, turn.state, "98765")
    assert turn.screen is not None
    assert turn.screen.text == "Invalid entry.\nCode\n0 Back"
    assert turn.entry_shown == MASK


def test_the_clients_own_server_drives_after_a_handover(menu: Make) -> None:
    nodes = {
        "root": {"type": "menu", "text": {"en": "Hi"}, "options": [{"label": {"en": "Shop"}, "goto": "over"}]},
        "over": {
            "type": "handover",
            "url": "https://shop.example/ussd",
            "protocol": "africastalking",
            "on_error": "bye",
        },
    }
    document = parse(menu(nodes))
    turn = enter(document, start(document, FACTS).state, "1")
    assert turn.action == HandoverAction("over", "https://shop.example/ussd", "africastalking", "", "")
    turn = resume(document, turn.state, HandedOver("CON Pick\r\n1. A\x07\n0. Back\n", ends=False))
    assert turn.screen is not None
    assert turn.screen.text == "CON Pick\n1. A\n0. Back"
    for entry, text in [("0", "0"), ("00", "0*00"), ("a*b", "0*00*a*b")]:
        turn = enter(document, turn.state, entry)
        assert turn.action == HandoverAction("over", "https://shop.example/ussd", "africastalking", entry, text)
        assert turn.entry_shown == MASK
        turn = resume(
            document, State.from_dict(json.loads(json.dumps(turn.state.to_dict()))), HandedOver("Next", ends=False)
        )
    ended = resume(document, turn.state, HandedOver("x" * 300, ends=True))
    assert ended.screen is not None
    assert (ended.screen.text, ended.screen.ends) == ("x" * 160, True)
    failed = resume(document, turn.state, Failed(timed_out=True))
    assert failed.screen is not None
    assert failed.screen.text == "Goodbye"


def confirmations(document: Any, *entries: str) -> list[str]:
    """Return the name of the payment that each Yes among the entries leads to."""
    state, names = start(document, FACTS).state, []
    for entry in entries:
        turn = enter(document, state, entry)
        if isinstance(turn.action, PayAction):
            names.append(turn.action.confirmation)
            assert enter(document, state, entry).action == turn.action, "a repeated press names the same payment"
        else:
            state = turn.state
    return names


def test_a_repeated_yes_names_the_same_payment_and_a_new_visit_another(shop: Menu) -> None:
    document = parse(shop)
    assert confirmations(document, "1", "5000", "1") == ["ok#1"]
    assert confirmations(document, "1", "5000", "9", "9", "1", "1") == ["ok#1", "ok#1"]
    assert confirmations(document, "1", "5000", "0", "5000", "1") == ["ok#2"]
    assert confirmations(document, "1", "5000", "2", "1", "5000", "1") == ["ok#2"]
    assert confirmations(document, "1", "5000", "00", "1", "5000", "1") == ["ok#2"]


def test_a_payment_without_a_confirmation_is_rejected_even_when_the_menu_asks_for_it(shop: Menu, dial: Dial) -> None:
    shop["nodes"]["amount"]["goto"] = "pay"
    dial(shop).types("1", "5000").ends("Goodbye")
    shop["nodes"]["amount"]["goto"] = "ok"
    shop["nodes"]["ok"]["no"] = "pay"
    dial(shop).types("1", "5000", "2").ends("Goodbye")


def test_a_confirmation_is_good_for_one_payment(shop: Menu, dial: Dial) -> None:
    shop["nodes"]["again"] = {**shop["nodes"]["pay"], "accepted": "show"}
    shop["nodes"]["pay"]["accepted"] = "again"
    phone = dial(shop).types("1", "5000", "1").ends("Goodbye")
    assert len(phone.simulator.payments) == 1


def test_back_never_leads_behind_a_payment(shop: Menu, dial: Dial) -> None:
    shop["nodes"]["pay"]["accepted"] = "thanks"
    shop["nodes"]["thanks"] = {"type": "text", "text": {"en": "Thank you"}, "goto": "root"}
    dial(shop).types("1", "5000", "1").shows("Thank you", "1. Continue").types("0").shows("Thank you", "1. Continue")


@pytest.mark.parametrize("amount", ["0", "1000000", "2.5", "'5000'", "True", "vars.missing"])
def test_a_payment_with_an_invalid_amount_is_rejected(shop: Menu, dial: Dial, amount: str) -> None:
    shop["nodes"]["pay"]["amount"] = amount
    phone = dial(shop).types("1", "5000", "1").ends("Goodbye")
    assert phone.simulator.payments == {}


def test_a_payment_with_an_unknown_outcome_is_never_reported_as_failed(shop: Menu) -> None:
    document = parse(shop)
    state = start(document, FACTS).state
    for entry in ("1", "5000", "1"):
        turn = enter(document, state, entry)
        state = turn.state
    ended = resume(document, state, Failed(timed_out=True))
    assert ended.screen is not None
    assert ended.screen.text == "Your payment is being processed."


def test_an_invalid_number_is_not_looked_up(menu: Make) -> None:
    nodes = {
        "root": {"type": "lookup_name", "of": "session.phone_number", "var": "n", "goto": "bye"},
    }
    document = parse(menu(nodes, vars={"n": {"type": "text"}}))
    assert start(document, FACTS).action == LookupNameAction("root", "+256772123456")
    strange = SessionFacts("unknown", "*1#")
    assert start(document, strange).action is None


def sms_menu(menu: Make) -> Menu:
    return menu(
        {
            "root": {"type": "input", "text": {"en": "Name"}, "var": "name", "goto": "tell"},
            "tell": {
                "type": "sms",
                "to": "session.phone_number",
                "text": {"en": "Dear {{vars.name}}…"},
                "goto": "done",
            },
            "done": {"type": "end", "text": {"en": "Goodbye"}},
        },
        vars={"name": {"type": "text", "max_len": 10}},
    )


def test_a_message_is_written_for_phones_and_the_session_goes_on(menu: Make, dial: Dial) -> None:
    document = parse(sms_menu(menu))
    asked = enter(document, start(document, FACTS).state, "Ŋalo")
    assert asked.action == SmsAction("tell", "+256772123456", "Dear Ng'alo...")
    assert enter(document, start(document, FACTS).state, "Ŋalo") == asked
    for outcome in (SmsQueued(), Failed()):
        screen = resume(document, asked.state, outcome).screen
        assert screen is not None
        assert screen.text == "Goodbye"
    dial(sms_menu(menu)).types("Ann").ends("Goodbye")


def test_dialled_entries_send_no_message(menu: Make) -> None:
    document = parse(sms_menu(menu))
    turn = start(document, FACTS, entries=("Ann",))
    assert turn.action is None
    assert turn.screen is not None
    assert turn.screen.text == "Name"
