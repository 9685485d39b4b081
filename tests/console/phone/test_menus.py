"""The pages of menus and sessions, without a browser."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from tests.console.clients.test_api_keys import assert_same
from tests.console.conftest import ConsoleVisitor, Visit
from tests.support.example_client import ExampleClient
from tests.support.shop import CODE, OPERATOR, VOUCHER, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.gateways.messages import HandsetCall
from ussd_server.menus.source.yaml_text import write_yaml
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.messages import AssignCode, SaveDraft
from ussd_server.services.ussd.messages import ListSessions
from ussd_server.values import iso_milliseconds


def saved_at(visitor: ConsoleVisitor) -> str:
    """Read what publishing the draft changes; returns which draft that is."""
    page = visitor.get("/menus/shop/versions/draft").text
    return re.search(r'name="draft_saved_at" value="([^"]+)"', page)[1]  # type: ignore[index]


def publish(visitor: ConsoleVisitor) -> None:
    """Publish the draft that was read."""
    visitor.post("/menus/shop/publish", draft_saved_at=saved_at(visitor))


def test_a_menu_is_uploaded_checked_bound_published_changed_and_rolled_back(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    visitor = visit("developer")
    assert "No menu yet" in visitor.get("/menus").text
    assert "No session yet" in visitor.get("/sessions").text
    services.channels.assign_code(AssignCode(CODE, example_client.id), OPERATOR)
    broken = visitor.post("/menus/new", menu_id="shop", text="start: [")
    assert (broken.status_code, "line" in broken.text, "start: [" in broken.text) == (400, True, True)
    large = visitor.post("/menus/new", menu_id="shop", text="start: " + "x" * 65_536)
    assert (large.status_code, "The document is larger than 64 KiB" in large.text) == (400, True)
    document = shop_document(title="<b>ACME</b> שלום")
    assert visitor.post("/menus/new", menu_id="shop", text=json.dumps(document)).status_code == 303
    page = visitor.get("/menus/shop").text
    assert "The check passes" in page
    assert "<b>ACME" not in page
    assert re.search(r"Luganda · all networks · <code>\w+</code>", page)
    assert "It was never published" in page
    assert "Bind a code" not in page
    assert visitor.post("/menus/shop/codes", service_code=CODE).status_code == 400
    publish(visitor)
    page = visitor.get("/menus/shop").text
    assert "Version 1 is published" in page
    assert visitor.post("/menus/shop/codes", service_code=CODE).location == "/console/menus/shop"
    page = visitor.get("/menus/shop").text
    assert "leads to this menu now" in page
    assert CODE in page
    text = visitor.get("/menus/shop/edit").text
    assert "default_language: en" in text
    changed = json.dumps(document).replace("Goodbye", "Farewell")
    assert "The check passes" in visitor.post("/menus/shop/edit", text=changed, do="check").text
    wrong = changed.replace('"goto": "sure"', '"goto": "sore"')
    part = visitor.web.post(
        "/console/menus/shop/edit", data={"csrf_token": visitor.token, "text": wrong}, headers={"HX-Request": "true"}
    ).text
    assert "did you mean `sure`" in part
    assert part.lstrip().startswith('<section id="report"')
    assert visitor.post("/menus/shop/edit", text=changed, do="save").status_code == 303
    draft = visitor.get("/menus/shop/versions/draft").text
    assert re.search(r'class="added">\+\s+en: Farewell<', draft)
    assert re.search(r'class="removed">-\s+en: Goodbye<', draft)
    assert "instead of version 1 at once, with the changes below" in draft
    shown_before = saved_at(visitor)
    visitor.post("/menus/shop/edit", text=wrong, do="save")
    visitor.post("/menus/shop/publish", draft_saved_at=shown_before)
    assert "it was saved anew" in visitor.get("/menus/shop/versions/draft").text
    assert "Show them in the editor" in visitor.get("/menus/shop").text
    assert re.search(r'/menus/shop/edit#line-\d+"', visitor.get("/menus/shop/edit").text)
    assert "The check found errors" in visitor.get("/menus/shop/versions/draft").text
    assert "Publish it" not in visitor.get("/menus/shop/versions/draft").text
    saved = services.menus.get("shop", operator_context(example_client.id)).draft_saved_at
    visitor.post("/menus/shop/publish", draft_saved_at=iso_milliseconds(saved))
    assert "was not published" in visitor.get("/menus/shop").text
    visitor.post("/menus/shop/edit", text=changed, do="save")
    publish(visitor)
    assert "Publish it" not in visitor.get("/menus/shop/versions/draft").text
    page = visitor.get("/menus/shop").text
    assert "/menus/shop/rollback/1" in page
    page = visitor.get("/menus/shop/rollback/1").text
    assert re.search(r'class="removed">-\s+en: Farewell<', page)
    assert visitor.post("/menus/shop/rollback", version="1", reason=" ").status_code == 400
    visitor.post("/menus/shop/rollback", version="1", reason="Farewell is too cold")
    assert "Farewell is too cold" in visit("owner").get("/audit").text
    assert [item["published_version"] for item in visitor.get("/menus?format=json").json["items"]] == [1]
    viewer = visit("viewer")
    assert "Publish the draft" not in viewer.get("/menus/shop").text
    for path in ("/menus/shop/edit", "/menus/shop/publish", "/menus/shop/rollback", "/menus/new"):
        assert viewer.post(path).status_code == 403


@pytest.mark.parametrize("name", ["savings_group", "school_fees", "shop_bill", "loan", "airtime", "clinic"])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_new_menu_begins_with_a_shipped_example(visit: Visit, name: str) -> None:
    visitor = visit("developer")
    assert f'href="/console/menus/new?example={name}"' in visitor.get("/menus/new").text
    page = visitor.get(f"/menus/new?example={name}").text
    (menu_id,) = re.findall(r'name="menu_id" value="([^"]+)"', page)
    text = unescape(page.partition('<textarea name="text" spellcheck="false">')[2].partition("</textarea>")[0])
    assert visitor.post("/menus/new", menu_id=menu_id, text=text).location == f"/console/menus/{menu_id}"
    page = visitor.get(f"/menus/{menu_id}/edit").text
    assert "The check passes" in page
    assert 'class="diagram"' in page
    assert visitor.get("/menus/new?example=../shop_bill").status_code == 200


def test_a_draft_that_is_too_large_as_yaml_is_still_edited(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    node = {"type": "menu", "text": {"en": "a"}, "options": [{"label": {"en": "b"}, "goto": "root"}] * 3}
    document = shop_document(nodes={f"n{place}": node for place in range(350)})
    services.menus.save_draft(SaveDraft("shop", document), operator_context(example_client.id))
    assert len(json.dumps(document)) < 65_536 < len(write_yaml(document))
    page = visit("developer").get("/menus/shop/edit")
    assert page.status_code == 200
    assert "The check" in page.text


def test_a_session_is_a_conversation_with_its_secret_masked_and_is_replayed_against_the_draft(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    shop = Shop(services, client_id=example_client.id)
    call = HandsetCall("0123456789abcdef-0", "+256770000000", CODE)
    for entries in ((), ("4",), ("4", VOUCHER)):
        services.handsets.step(HandsetCall(call.session_id, call.phone_number, CODE, entries=entries), shop.call)
    services.handsets.hang_up(HandsetCall(call.session_id, call.phone_number, CODE, entries=("4",)), shop.call)
    (session,) = services.api_sessions.list(ListSessions(), shop.call).items
    visitor = visit("viewer")
    page = visitor.get(f"/sessions/{session.session_id}").text
    assert "Enter your voucher code" in page
    assert "****" in page
    assert VOUCHER not in page
    assert "the subscriber left without an answer" in page.replace("that the", "the")
    assert "Every screen would be the same" in visitor.get(f"/sessions/{session.session_id}?replay=draft").text
    bye = {"type": "text", "text": {"en": "<i>Noted</i>"}, "goto": "bye"}
    visit("owner").post("/menus/new", menu_id="shop", text=json.dumps(shop_document(nodes={"used": bye})))
    replayed = visitor.get(f"/sessions/{session.session_id}?replay=draft").text
    assert "another screen comes after entry 2" in replayed
    assert "&lt;i&gt;Noted" in replayed
    together = visitor.get("/menus/shop/replay?from=2020-01-01T00:00").text
    assert "1 session: another screen after entry 2" in together
    assert "&lt;i&gt;Noted" in together
    assert VOUCHER not in together
    whole = visitor.get("/menus/shop/replay?from=2020-01-01T00:00&format=json").json["items"]
    assert [(item["session_id"], item["result"], item["turn"]) for item in whole] == [
        (session.session_id, "other_screen", 2)
    ]
    early = visitor.get("/menus/shop/replay?from=2020-01-01T00:00&to=2020-01-02T00:00").text
    assert "No session of this menu began" in early
    assert "Began from" in visitor.get("/menus/shop/replay").text
    assert visitor.get("/menus/shop/replay?from=yesterday").status_code == 400
    for query, count in (
        ("", 1), ("phone_number=0770000000", 1), ("phone_number=0770000009", 0), ("service_code=*9%23", 0),
        ("status=ended_by_user", 1), ("status=active", 0), ("from=2020-01-01&to=2020-01-02", 0), ("from=2020-01-01", 1),
    ):  # fmt: skip
        assert len(visitor.get(f"/sessions?format=json&{query}").json["items"]) == count, query
    assert "No session in the last 7 days." in visitor.get("/menus/shop").text, "dials of the console do not count"
    assert services.runtime.drop_offs.counts() == []
    UssdSession.update(provider_session_id="ATUid_1").execute()
    page = visitor.get("/menus/shop").text
    assert "left here (1 of" in page
    assert "Where subscribers left" in page


def test_another_clients_menu_and_session_answer_as_missing_ones(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    shop = Shop(services)
    services.handsets.step(HandsetCall("0123456789abcdef-0", "+256770000000", CODE), shop.call)
    (session,) = services.api_sessions.list(ListSessions(), shop.call).items
    visitor = visit()
    assert_same(
        visitor.get(f"/sessions/{session.session_id}"), visitor.get("/sessions/019e0000-0000-7000-8000-000000000000")
    )
    for path in ("", "/edit", "/versions/1", "/versions/draft", "/replay?from=2020-01-01T00:00"):
        assert_same(visitor.get(f"/menus/shop{path}"), visitor.get(f"/menus/none{path}"))
    for path, fields in (("edit", {"text": "{}"}), ("publish", {}), ("rollback", {"version": "1"}), ("codes", {})):
        assert_same(visitor.post(f"/menus/shop/{path}", **fields), visitor.post(f"/menus/none/{path}", **fields))
