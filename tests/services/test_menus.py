"""Menus: drafts are kept as they are, published versions never change, and nobody sees another client's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from peewee import DatabaseError

from tests.shop import CODE, Shop, client_call, shop_document
from ussd_server.house import Services
from ussd_server.messages.channels import BindCode
from ussd_server.messages.menus import CheckMenu, GetGraph, NameMenu, RollBack, SaveDraft
from ussd_server.models.base import release_connection
from ussd_server.models.ussd import MenuVersion
from ussd_server.rpc.status import Code, ServiceError

_BYE = {"type": "end", "text": {"en": "See you"}}


def test_a_draft_with_errors_is_kept_and_reported_but_not_published(house: Services) -> None:
    shop = Shop(house)
    broken = shop_document(start="nowhere")
    report = house.menus.save_draft(SaveDraft("shop", broken), shop.call)
    assert not report.passes
    assert house.menus.get(NameMenu("shop"), shop.call).draft == broken
    with pytest.raises(ServiceError, match="nowhere") as refused:
        house.menus.publish(NameMenu("shop"), shop.call)
    assert refused.value.code is Code.MENU_INVALID
    assert house.menus.get(NameMenu("shop"), shop.call).published_version == 1


def test_a_failing_script_blocks_publishing(house: Services) -> None:
    shop = Shop(house)
    dial = {"phone": "+256772123456", "code": CODE}
    script = {"name": "greeting", "dial": dial, "steps": [{"expect": "Good evening"}]}
    house.menus.save_draft(SaveDraft("shop", shop_document(scripts=[script])), shop.call)
    with pytest.raises(ServiceError, match="Good evening") as refused:
        house.menus.publish(NameMenu("shop"), shop.call)
    assert refused.value.code is Code.MENU_INVALID


def test_versions_count_up_stay_as_they_were_and_can_be_put_in_force_again(house: Services) -> None:
    shop = Shop(house)
    house.menus.save_draft(SaveDraft("shop", shop_document(nodes={"bye": _BYE})), shop.call)
    assert house.menus.publish(NameMenu("shop"), shop.call).version == 2
    assert house.menus.publish(NameMenu("shop"), shop.call).version == 2
    assert house.menus.roll_back(RollBack("shop", 1), shop.call).in_force
    assert house.menus.get(NameMenu("shop"), shop.call).published == shop_document()
    versions = house.menus.versions(NameMenu("shop"), shop.call)
    assert [(each.version, each.in_force) for each in versions] == [(2, False), (1, True)]
    assert house.menus.publish(NameMenu("shop"), shop.call).version == 3
    with pytest.raises(ServiceError) as refused:
        house.menus.roll_back(RollBack("shop", 9), shop.call)
    assert refused.value.code is Code.NOT_FOUND


def test_the_database_refuses_to_edit_or_remove_a_version(house: Services) -> None:
    Shop(house)
    with pytest.raises(DatabaseError):
        MenuVersion.update(document={}).execute()
    with pytest.raises(DatabaseError):
        MenuVersion.delete().execute()


def test_the_same_draft_published_by_many_at_once_is_one_version(house: Services) -> None:
    shop = Shop(house)
    house.menus.save_draft(SaveDraft("shop", shop_document(nodes={"bye": _BYE})), shop.call)

    def publish(_: int) -> int:
        try:
            return house.menus.publish(NameMenu("shop"), shop.call).version
        finally:
            release_connection()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(publish, range(16))) == {2}


def test_another_clients_menu_and_code_answer_like_ones_that_do_not_exist(house: Services) -> None:
    shop, stranger = Shop(house), Shop(house, shop_document(id="other"), code="*200#")
    for name in ("shop", "never-saved"):
        for attempt in (
            lambda name=name: house.menus.get(NameMenu(name), stranger.call),
            lambda name=name: house.menus.publish(NameMenu(name), stranger.call),
            lambda name=name: house.menus.versions(NameMenu(name), stranger.call),
            lambda name=name: house.menus.graph(GetGraph(name), stranger.call),
            lambda name=name: house.menus.check(CheckMenu(name), stranger.call),
            lambda name=name: house.menus.roll_back(RollBack(name, 1), stranger.call),
            lambda name=name: house.menus.bind_code(BindCode("*200#", name), stranger.call),
        ):
            with pytest.raises(ServiceError, match="Menu not found"):
                attempt()
    for code in (CODE, "*999#"):
        with pytest.raises(ServiceError, match="Service code not found"):
            house.menus.bind_code(BindCode(code, "other"), stranger.call)
    assert [menu.menu_id for menu in house.menus.list(stranger.call)] == ["other"]
    assert [code.service_code for code in house.menus.codes(shop.call)] == [CODE]


def test_a_document_is_checked_without_being_kept(house: Services) -> None:
    shop = Shop(house)
    assert not house.menus.check(CheckMenu("shop", {"nodes": {}}), shop.call).passes
    assert house.menus.check(CheckMenu("shop"), shop.call).passes


def test_a_document_that_names_another_menu_is_refused(house: Services) -> None:
    shop = Shop(house)
    with pytest.raises(ServiceError, match="Must be the menu id of the path"):
        house.menus.save_draft(SaveDraft("kiosk", shop_document()), shop.call)
    unnamed = shop_document()
    del unnamed["id"]
    assert house.menus.save_draft(SaveDraft("kiosk", unnamed), shop.call).passes


@pytest.mark.parametrize("url", ["https://169.254.169.254/", "https://mail.example.com:25/"])
def test_a_menu_that_calls_a_forbidden_address_cannot_be_published(house: Services, url: str) -> None:
    shop = Shop(house)
    document = shop_document(nodes={"used": {"type": "handover", "url": url, "on_error": {"goto": "bye"}}})
    report = house.menus.save_draft(SaveDraft("shop", document), shop.call)
    assert [(error["rule"], error["node"]) for error in report.errors] == [("address", "used")], report.errors


def test_the_graph_shows_every_node_way_and_a_picture(house: Services) -> None:
    shop = Shop(house)
    graph = house.menus.graph(GetGraph("shop"), shop.call)
    assert {"root", "amount", "sure", "pay"} <= {node["id"] for node in graph.nodes}
    assert {"from": "sure", "to": "pay", "label": "yes"} in graph.edges
    assert graph.svg.lstrip().startswith("<svg")


def test_menus_need_their_scopes(house: Services) -> None:
    shop = Shop(house)
    reader, writer = client_call(shop.client_id, frozenset({"menus:read"})), client_call(shop.client_id, frozenset())
    assert house.menus.get(NameMenu("shop"), reader).menu_id == "shop"
    for attempt in (
        lambda: house.menus.publish(NameMenu("shop"), reader),
        lambda: house.menus.save_draft(SaveDraft("shop", {}), reader),
        lambda: house.menus.list(writer),
    ):
        with pytest.raises(ServiceError) as refused:
            attempt()
        assert refused.value.code is Code.INSUFFICIENT_SCOPE


def test_a_menu_over_a_bound_is_not_published_and_the_bound_is_named(house: Services) -> None:
    shop = Shop(house)
    spare = {f"spare{number}": _BYE for number in range(500)}
    house.menus.save_draft(SaveDraft("shop", shop_document(nodes=spare)), shop.call)
    with pytest.raises(ServiceError, match=r"`nodes` has 51\d nodes; at most 500") as refused:
        house.menus.publish(NameMenu("shop"), shop.call)
    assert refused.value.code is Code.MENU_INVALID
