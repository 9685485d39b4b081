"""Menus: drafts are kept as they are, published versions never change, and no client sees another's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from peewee import DatabaseError

from tests.support.shop import CODE, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.database.tables import JsonField
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.clients import AuditEvent
from ussd_server.models.ussd import MenuVersion
from ussd_server.services.menus import documents
from ussd_server.services.menus.messages import CompareVersions, RollBack, SaveDraft
from ussd_server.status import Code, ServiceError

_BYE = {"type": "end", "text": {"en": "See you"}}


def test_a_draft_with_errors_is_kept_and_reported_but_not_published(services: Services) -> None:
    shop = Shop(services)
    broken = shop_document(start="nowhere")
    report = services.menus.save_draft(SaveDraft("shop", broken), shop.call)
    assert not report.passes
    assert services.menus.get("shop", shop.call).draft == broken
    with pytest.raises(ServiceError, match="nowhere") as refused:
        services.menus.publish("shop", shop.call)
    assert refused.value.code is Code.MENU_INVALID
    assert services.menus.get("shop", shop.call).published_version == 1


def test_a_failing_script_blocks_publishing(services: Services) -> None:
    shop = Shop(services)
    dial = {"phone": "+256772123456", "code": CODE}
    script = {"name": "greeting", "dial": dial, "steps": [{"expect": "Good evening"}]}
    services.menus.save_draft(SaveDraft("shop", shop_document(scripts=[script])), shop.call)
    with pytest.raises(ServiceError, match="Good evening") as refused:
        services.menus.publish("shop", shop.call)
    assert refused.value.code is Code.MENU_INVALID


def test_versions_count_up_stay_as_they_were_and_can_be_put_in_force_again(services: Services) -> None:
    shop = Shop(services)
    services.menus.save_draft(SaveDraft("shop", shop_document(nodes={"bye": _BYE})), shop.call)
    assert services.menus.publish("shop", shop.call).version == 2
    assert services.menus.publish("shop", shop.call).version == 2
    with pytest.raises(ServiceError, match="A reason is needed"):
        services.menus.roll_back(RollBack("shop", 1, " "), shop.call)
    assert services.menus.roll_back(RollBack("shop", 1, "It asks twice"), shop.call).in_force
    (event,) = AuditEvent.select().where(AuditEvent.action == "menu.rolled_back")
    assert event.reason == "It asks twice"
    assert services.menus.get("shop", shop.call).published == shop_document()
    versions = services.menus.versions("shop", shop.call)
    assert [(each.version, each.in_force) for each in versions] == [(2, False), (1, True)]
    assert services.menus.publish("shop", shop.call).version == 3
    with pytest.raises(ServiceError) as refused:
        services.menus.roll_back(RollBack("shop", 9), shop.call)
    assert refused.value.code is Code.NOT_FOUND


def test_the_database_refuses_to_edit_or_remove_a_version(services: Services) -> None:
    Shop(services)
    with pytest.raises(DatabaseError):
        MenuVersion.update(document={}).execute()
    with pytest.raises(DatabaseError):
        MenuVersion.delete().execute()


@pytest.mark.both_databases
def test_the_same_draft_published_by_many_at_once_is_one_version(services: Services) -> None:
    shop = Shop(services)
    services.menus.save_draft(SaveDraft("shop", shop_document(nodes={"bye": _BYE})), shop.call)

    def publish(_: int) -> int:
        try:
            return services.menus.publish("shop", shop.call).version
        finally:
            release_connection()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(publish, range(16))) == {2}


def test_a_document_that_names_another_menu_is_refused(services: Services) -> None:
    shop = Shop(services)
    with pytest.raises(ServiceError, match="Must be the menu id of the path"):
        services.menus.save_draft(SaveDraft("kiosk", shop_document()), shop.call)
    unnamed = shop_document()
    del unnamed["id"]
    assert services.menus.save_draft(SaveDraft("kiosk", unnamed), shop.call).passes


@pytest.mark.parametrize("url", ["https://169.254.169.254/", "https://mail.example.com:25/"])
def test_a_menu_that_calls_a_forbidden_address_cannot_be_published(services: Services, url: str) -> None:
    shop = Shop(services)
    document = shop_document(nodes={"used": {"type": "handover", "url": url, "on_error": {"goto": "bye"}}})
    report = services.menus.save_draft(SaveDraft("shop", document), shop.call)
    assert [(error.rule, error.node) for error in report.errors] == [("address", "used")], report.errors


def test_a_menu_over_a_bound_is_not_published_and_the_bound_is_named(services: Services) -> None:
    shop = Shop(services)
    spare = {f"spare{number}": _BYE for number in range(500)}
    services.menus.save_draft(SaveDraft("shop", shop_document(nodes=spare)), shop.call)
    with pytest.raises(ServiceError, match=r"`nodes` has 51\d nodes; at most 500") as refused:
        services.menus.publish("shop", shop.call)
    assert refused.value.code is Code.MENU_INVALID


def test_a_list_of_menus_reads_no_documents(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(services)
    large = shop_document(id="village", title="Village shop", notes="x" * 60_000)
    services.menus.save_draft(SaveDraft("village", large), shop.call)
    services.menus.save_draft(SaveDraft("untitled", {"nodes": {}}), shop.call)
    monkeypatch.setattr(JsonField, "python_value", lambda *_: pytest.fail("a document was read"))
    titles = {menu.menu_id: menu.title for menu in services.menus.list(shop.call)}
    assert titles == {"shop": "ACME", "untitled": "", "village": "Village shop"}


def test_documents_that_are_too_long_to_compare_differ_in_every_line(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(services)
    services.menus.save_draft(SaveDraft("shop", shop_document(title="Another")), shop.call)
    compared = CompareVersions("shop", 1, None)
    assert [line for line in services.menus.difference(compared, shop.call) if line[:1] in "+-"] == [
        "-title: ACME",
        "+title: Another",
    ]
    monkeypatch.setattr(documents, "_MOST_COMPARED", 100)
    difference = services.menus.difference(compared, shop.call)
    assert {"-title: ACME", "+title: Another", "-start: root", "+start: root"} < set(difference)
