"""A menu is tried out without money or network, and a walk becomes a script that passes."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop, client_call, shop_document
from ussd_server.bootstrap import Services
from ussd_server.menus.checks.check import check
from ussd_server.menus.source.yaml_text import read_yaml
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.messages import ActKind, MakeScript, SaveDraft, WalkAct, WalkMenu
from ussd_server.status import Code, ServiceError


def sends(*entries: str) -> tuple[WalkAct, ...]:
    return tuple(WalkAct(ActKind.SEND, entry) for entry in entries)


def test_a_walk_shows_each_screen_with_its_keys_and_moves_no_money(services: Services) -> None:
    shop = Shop(services)
    seen = services.menus.walk(WalkMenu("shop", acts=sends("1", "5000", "1", "1")), shop.call)
    assert [screen.node for screen in seen.screens] == ["root", "amount", "sure", "pay.accepted"]
    assert [screen.act.text for screen in seen.screens] == ["", "1", "5000", "1"]
    root, amount, sure, last = seen.screens
    assert (root.text.split("\n")[0], root.used, root.limit, root.unit) == ("Welcome to ACME", 56, 160, "septets")
    assert [(key.key, key.label, key.goto) for key in root.keys] == [
        ("1", "Pay", "amount"),
        ("2", "Balance", "balance"),
        ("3", "Language", "language"),
        ("4", "Voucher", "voucher"),
    ]
    assert [(key.key, key.goto) for key in amount.keys] == [("", "sure"), ("0", "root"), ("00", "root")]
    assert [(key.key, key.goto) for key in sure.keys] == [("1", "pay"), ("2", "root"), ("0", "amount"), ("00", "root")]
    assert (sure.variables, last.ends, last.keys, seen.is_over) == ({"amount": 5000}, True, (), True)
    assert [payment["amount"] for payment in seen.payments] == [5000]
    assert not Transaction.select().exists()
    assert not UssdSession.select().exists()


def test_a_draft_is_walked_with_errors_that_the_engine_can_bear_and_others_are_named(services: Services) -> None:
    shop = Shop(services)
    long = {"type": "end", "text": {"en": "Bye " * 60}}
    services.menus.save_draft(SaveDraft("shop", shop_document(nodes={"root": long})), shop.call)
    (screen,) = services.menus.walk(WalkMenu("shop"), shop.call).screens
    assert screen.used <= screen.limit
    assert services.menus.walk(WalkMenu("shop", version=1), shop.call).screens[0].text.startswith("Welcome to ACME")
    unknown = {"type": "input", "text": {"en": "Name"}, "var": "nmae", "goto": "bye"}
    for broken, said in (
        (shop_document(start="rot"), "`rot`"),
        (shop_document(nodes={"root": unknown}), "`vars.nmae` is not declared"),
        (shop_document(nodes={"root": {"type": "mneu"}}), "did you mean `menu`"),
        ({}, "`start`|`nodes`"),
    ):
        services.menus.save_draft(SaveDraft("shop", broken), shop.call)
        with pytest.raises(ServiceError, match=said) as refused:
            services.menus.walk(WalkMenu("shop", acts=sends("x")), shop.call)
        assert refused.value.code is Code.MENU_INVALID
    stranger = Shop(services, shop_document(id="other"), code="*200#")
    for request in (WalkMenu("shop"), WalkMenu("never-saved"), WalkMenu("other", version=9)):
        with pytest.raises(ServiceError) as refused:
            services.menus.walk(request, stranger.call)
        assert refused.value.code is Code.NOT_FOUND


def test_redials_language_and_network_can_be_tried(services: Services) -> None:
    shop = Shop(services)
    acts = (*sends("1", "5000"), WalkAct(ActKind.REDIAL), *sends("1"))
    seen = services.menus.walk(WalkMenu("shop", acts=acts, language="lg", network="64101"), shop.call)
    assert [screen.language for screen in seen.screens] == ["lg"] * 5
    assert [(key.key, key.goto) for key in seen.screens[3].keys] == [("1", "amount"), ("2", "root")]
    assert seen.screens[4].node == "amount"


def test_a_walk_becomes_a_script_that_passes_and_is_added_to_the_draft(services: Services) -> None:
    shop = Shop(services)
    acts = (
        *sends("3", "2", "1", "5000"),
        WalkAct(ActKind.REDIAL),
        *sends("1", "700", "1"),
        WalkAct(ActKind.RETRY),
    )
    for walk in (
        WalkMenu("shop", acts=acts),
        WalkMenu("shop", entries="1*5000"),
        WalkMenu("shop", acts=sends("1", "5000", "1"), language="lg"),
    ):
        made = services.menus.make_script(MakeScript(walk, "walked", save=True), shop.call)
        assert read_yaml(made.text)[0] == {"scripts": [made.script]}
    draft = services.menus.get("shop", shop.call).draft
    assert len(draft["scripts"]) == 3
    assert check(draft).errors == ()
    reader = client_call(shop.client_id, frozenset({"menus:read"}))
    assert services.menus.make_script(MakeScript(WalkMenu("shop"), "one"), reader).script["steps"]
    with pytest.raises(ServiceError):
        services.menus.make_script(MakeScript(WalkMenu("shop"), "one", save=True), reader)
