"""Every screen and every message fits what a network carries, in each language and with the widest values."""

from __future__ import annotations

from typing import Any

from tests.menus.checks.reports import Make, Menu, errors, only
from ussd_server.menus.checks.check import check


def test_a_luganda_eng_too_many_is_refused_with_node_language_and_excess(shop: Menu) -> None:
    shop["nodes"]["bye"]["text"]["lg"] = "a" * 70 + "b"
    assert check(shop).passes
    shop["nodes"]["bye"]["text"]["lg"] = "ŋ" + "a" * 69
    assert check(shop).passes
    shop["nodes"]["bye"]["text"]["lg"] = "ŋ" + "a" * 70
    finding = only(shop)
    assert (finding.severity, finding.rule, finding.node, finding.language) == ("error", "budget", "bye", "lg")
    assert (finding.excess, finding.unit, finding.network) == (1, "characters", None)
    assert finding.screen == "ŋ" + "a" * 70
    assert "1 character too many in `lg` on every network: 71 of 70, because `ŋ` is outside GSM-7" in finding.message


def test_a_screen_is_measured_with_its_variables_at_their_widest(shop: Menu) -> None:
    shop["vars"]["balance"] = {"type": "amount", "max_len": 9}
    shop["nodes"]["show"]["text"]["en"] = "x" * 149 + "{{vars.balance|ugx}}"  # 999,999,999 takes eleven
    assert check(shop).passes
    shop["nodes"]["show"]["text"]["en"] = "x" * 150 + "{{vars.balance|ugx}}"
    finding = only(shop)
    assert (finding.node, finding.excess, finding.unit) == ("show", 1, "septets")
    assert finding.screen == "x" * 150 + "999,999,999"


def test_a_balance_needs_no_declaration_and_is_measured_as_an_amount_of_twelve_digits(shop: Menu) -> None:
    assert "balance" not in shop["vars"]
    shop["nodes"]["show"]["text"]["en"] = "x" * 145 + "{{vars.balance|ugx}}"
    assert check(shop).passes
    shop["nodes"]["show"]["text"]["en"] = "x" * 146 + "{{vars.balance|ugx}}"
    assert only(shop).screen == "x" * 146 + "999,999,999,999"


def test_a_default_longer_than_its_variable_counts(menu: Make) -> None:
    raw = menu({"root": {"type": "end", "text": {"en": "x" * 150 + "{{vars.t|default:nobody here}}"}}})
    raw["vars"] = {"t": {"type": "text", "max_len": 3}}
    del raw["nodes"]["bye"]
    assert only(raw).excess == 1


def test_every_network_has_its_own_budget(shop: Menu) -> None:
    shop["limits"]["networks"] = {"64101": {"septets": 100}, "64110": {"septets": 182}}
    shop["nodes"]["bye"]["text"]["en"] = "x" * 120
    assert [(finding.network, finding.excess) for finding in check(shop).errors] == [("64101", 20)] * 3


def test_a_notice_counts_as_part_of_its_screen(shop: Menu) -> None:
    shop["nodes"]["amount"]["text"] = {"en": "x" * 130}  # with the footer 137, without a notice
    finding = only(shop)
    assert finding.node == "amount"
    assert finding.screen is not None
    assert finding.screen.startswith("Enter whole shillings, 500 to 999,999.\nxxx")


def test_a_menu_pages_but_one_option_or_the_text_has_to_fit(menu: Make) -> None:
    options = [{"label": {"en": f"{number} " + "y" * 120}, "goto": "bye"} for number in range(5)]
    raw = menu({"root": {"type": "menu", "text": {"en": "x" * 120}, "options": options}})
    assert check(raw).passes
    raw["nodes"]["root"]["text"]["en"] = "x" * 160
    assert errors(raw) == [("budget", "root")]
    raw["nodes"]["root"]["text"]["en"] = "x"
    options[3]["label"]["en"] = "y" * 150
    assert errors(raw) == [("budget", "root")]


def test_a_budget_is_never_more_than_the_wire_carries(shop: Menu) -> None:
    shop["limits"] = {"septets": 183, "ucs2": 81}
    assert [finding.message for finding in check(shop).errors] == [
        "`limits.septets` has to be a whole number from 80 to 182",
        "`limits.ucs2` has to be a whole number from 40 to 80",
    ]


def with_message(shop: Menu, **fields: Any) -> Menu:
    """The shop with a message before its last screen."""
    message = {"type": "sms", "to": "session.phone_number", "text": {"en": "Paid", "lg": "Osasudde"}, "goto": "bye"}
    shop["nodes"]["tell"] = message | fields
    shop["nodes"]["root"]["options"].append({"label": {"en": "Tell", "lg": "Buulira"}, "goto": "tell"})
    return shop


def test_a_message_of_more_than_three_parts_in_any_language_is_refused(shop: Menu) -> None:
    with_message(shop, text={"en": "Paid", "lg": "a" * 459})
    assert check(shop).passes, "three parts to the last letter"
    shop["nodes"]["tell"]["text"]["lg"] = "a" * 460
    finding = only(shop)
    assert (finding.severity, finding.rule, finding.node) == ("error", "parts", "tell")
    assert "could take 4 parts in `lg`, and 3 are allowed" in finding.message


def test_a_message_without_text_is_refused(shop: Menu) -> None:
    finding = only(with_message(shop, text={"en": "Paid", "lg": " "}))
    assert (finding.rule, finding.node, finding.message) == ("text", "tell", "the message has no text in `lg`")


def test_a_message_counts_with_every_variable_at_its_maximum(shop: Menu) -> None:
    with_message(shop, text={"en": "a" * 450 + "{{vars.amount|ugx}}", "lg": "Osasudde"})
    assert only(shop).rule == "parts"


def test_a_message_goes_to_a_phone_number_and_holds_no_secret(shop: Menu) -> None:
    assert [finding.rule for finding in check(with_message(shop, to="vars.amount")).errors] == ["type"]
    code = {"type": "input", "text": {"en": "Code", "lg": "Koodi"}, "var": "code", "secret": True, "goto": "tell"}
    shop["vars"]["code"] = {"type": "text", "max_len": 4}
    shop["nodes"]["code"] = code
    shop["nodes"]["root"]["options"][-1]["goto"] = "code"
    shop["nodes"]["tell"] |= {"to": "session.phone_number", "text": {"en": "{{vars.code}}", "lg": "Koodi"}}
    assert ("secret", "tell") in errors(shop)
    shop["nodes"]["tell"] |= {"to": "vars.code", "text": {"en": "Code", "lg": "Koodi"}}
    assert ("secret", "tell") in errors(shop)
