"""The phone of the console, without a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Visit
from tests.support.example_client import ExampleClient
from tests.support.shop import CODE, OPERATOR, PHONE, VOUCHER, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import HandsetCall
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.messages import NameVersion, SaveDraft
from ussd_server.services.ussd.messages import CreateChannel
from ussd_server.status import ServiceError

_CALL = re.compile(r'name="call" value="([^"]+)"')
_LCD = re.compile(r'id="lcd"[^>]*>(.*?)</div>', re.DOTALL)


class _Phone:
    """Presses the buttons of the phone page, as a browser without scripts does."""

    def __init__(self, visitor: ConsoleVisitor, target: str, **choices: str) -> None:
        self.visitor, self.fields = visitor, {"target": target} | choices
        self.page = visitor.get(f"/phone?target={target.replace('#', '%23')}").text

    def press(self, act: str, entry: str = "", **more: str) -> str:
        """Press a button; what the display shows."""
        found = _CALL.search(self.page)
        assert found
        form = self.fields | {"call": unescape(found[1]), "do": act, "entry": entry} | more
        self.page = self.visitor.post("/phone", **form).text
        return self.display

    @property
    def display(self) -> str:
        """The text on the display."""
        found = _LCD.search(self.page)
        assert found
        return unescape(re.sub(r"<[^>]+>", "", found[1])).strip()

    @property
    def lit(self) -> list[str]:
        """The lit nodes of the diagram."""
        return re.findall(r'class="node lit" id="node-([^"]+)"', self.page)


def test_a_code_is_dialled_dropped_redialled_and_paid_through_the_gateway(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    shop = Shop(services, client_id=example_client.id)
    phone = _Phone(visit(), f"code:{CODE}", phone_number="0770000000", network="64101")
    assert "Press Call to dial" in phone.display
    assert phone.lit == []
    assert "Welcome to ACME" in phone.press("call", CODE)
    assert phone.press("send", "1") == "Enter amount (UGX)\n0 Back"
    assert phone.lit == ["amount"]
    assert 'class="node seen" id="node-root"' in phone.page
    assert "Pay UGX 5,000?" in phone.press("send", press="5000")
    assert "<code>amount</code>" in phone.page
    again = phone.page
    assert phone.press("retry") in unescape(again)
    assert "The server was told nothing" in phone.press("drop")
    assert phone.press("redial").startswith("Continue where you stopped?")
    assert "Enter amount" in phone.press("send", "1")
    assert "Pay UGX 700?" in phone.press("send", "700")
    assert phone.press("send", "1") == "Approve the prompt on your phone."
    assert f"/console/transactions/{Transaction.get().id}" in phone.page
    assert phone.press("send", "1") == "Approve the prompt on your phone."
    assert (Transaction.select().count(), UssdSession.select().count()) == (1, 2)
    assert {row.network for row in UssdSession.select()} == {"64101"}
    assert "invalid MMI code" in phone.visitor.post("/phone", target=f"code:{CODE}", do="call", entry="*999#").text
    assert phone.visitor.post("/phone/script", **phone.fields, call="", name="x").status_code == 400
    shop_script = phone.visitor.post(
        "/phone/script", **phone.fields, call=unescape(_CALL.findall(phone.page)[0]), name="a payment"
    )
    assert shop_script.status_code == 303
    scripts = services.menus.get("shop", shop.call).draft["scripts"]
    assert [script["name"] for script in scripts] == ["a payment"]
    assert services.menus.publish("shop", shop.call).version == 2


def test_hanging_up_ends_the_session_and_keys_type(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    Shop(services, client_id=example_client.id)
    phone = _Phone(visit("developer"), f"code:{CODE}")
    phone.press("call", f"{CODE[:-1]}*1#")
    assert phone.display.startswith("Enter amount")
    phone.press("", "50", key="0")
    assert 'value="500"' in phone.page
    assert "You hung up" in phone.press("hang_up")
    assert [row.status for row in UssdSession.select()] == ["ended_by_user"]
    assert "You hung up" in phone.press("send", "1")
    assert [row.turn for row in UssdSession.select()] == [0]
    assert visit("viewer").get("/phone").status_code == 403


def test_a_draft_is_walked_without_money_and_its_errors_are_named(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    shop = Shop(services, client_id=example_client.id)
    changed = {"type": "input", "text": {"en": "How much <b>now</b>?"}, "var": "amount", "goto": "sure"}
    services.menus.save_draft(SaveDraft("shop", shop_document(nodes={"amount": changed})), shop.call)
    phone = _Phone(visit(), "draft:shop", language="lg")
    assert "Tukusanyukidde" in phone.press("call")
    assert "How much <b>now</b>?" in phone.press("send", "1")
    assert "<b>now" not in phone.page
    phone.press("send", "900")
    assert "Kakasa ku ssimu yo." in phone.press("send", "1")
    assert phone.press("redial").startswith("Tukusanyukidde")
    assert not Transaction.select().exists()
    assert not UssdSession.select().exists()
    services.menus.save_draft(SaveDraft("shop", {"start": "x"}), shop.call)
    refused = phone.visitor.post("/phone", target="draft:shop", do="call")
    assert refused.status_code == 400
    assert "Document:" in refused.text


def test_foreign_menus_and_forged_calls_count_as_not_given(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    assert "No menu to dial yet" in visit().get("/phone").text
    Shop(services, code="*285#")
    Shop(services, client_id=example_client.id)
    phone = _Phone(visit(), "code:*285#")
    assert "*285#" not in phone.page
    assert CODE in phone.page
    for forged in ("{", "[]", '["a","",[["send",1]],"open"]', '["a","",[["fly",""]],"open"]', "x" * 9000):
        assert "Press Call" in phone.visitor.post("/phone", target="code:*285#", call=forged, do="key").text
    wrong = phone.visitor.post("/phone", target=f"code:{CODE}", do="call", entry=CODE, phone_number="12")
    assert (wrong.status_code, "Enter a Ugandan phone number" in wrong.text) == (400, True)
    part = phone.visitor.web.get("/console/phone", headers={"HX-Request": "true"}).text
    assert part.lstrip().startswith('<div id="phone">')


def test_a_secret_is_neither_in_the_page_nor_in_the_script_of_the_walk(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    shop = Shop(services, client_id=example_client.id)
    for target in ("draft:shop", f"code:{CODE}"):
        phone = _Phone(visit(), target)
        phone.press("call", CODE)
        assert "Enter your voucher code" in phone.press("send", "4")
        assert 'type="password"' in phone.page
        for part in VOUCHER[:2]:
            phone.press("", key=part)
        assert "2 typed" in phone.page
        screens = [phone.press("send", secret_entry=VOUCHER[2:]), phone.press("retry")]
        assert all("Your voucher was noted." in screen for screen in screens)
        assert VOUCHER[:3] not in phone.page
        assert not any(VOUCHER[:3] in unescape(found) for found in _CALL.findall(phone.page))
        call = unescape(_CALL.findall(phone.page)[0])
        saved = phone.visitor.post("/phone/script", **phone.fields, call=call, name=f"from {target[:5]}")
        assert saved.location == "/console/menus/shop/edit"
        page = phone.visitor.get("/menus/shop/edit").text
        assert VOUCHER not in page
        assert "&lt;fill in code&gt;" in page
        assert "write a made-up entry in the place of" in page
        stranger = visit("developer").post("/phone", **phone.fields, call=call, do="redial")
        assert "Press Call" in stranger.text
    text = services.menus.text(NameVersion("shop"), shop.call).replace("<fill in code>", "made-up")
    assert "The check passes" in visit().post("/menus/shop/edit", text=text, do="check").text


def test_in_production_codes_are_dialled_only_where_a_setting_allows_it_by_people_who_may_move_money(
    visit: Visit, services: Services, example_client: ExampleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    Shop(services, client_id=example_client.id)
    handsets, owner, developer = services.handsets, visit(), visit("developer")
    monkeypatch.setattr(handsets, "_is_sandbox", False)
    assert CODE in owner.get("/phone").text
    assert CODE not in developer.get("/phone").text
    monkeypatch.setattr(handsets, "_may_dial", False)
    page = owner.post("/phone", target=f"code:{CODE}", do="call", entry=CODE).text
    assert CODE not in page
    assert 'value="draft:shop"' in page
    with pytest.raises(ServiceError):
        handsets.step(HandsetCall("0123456789abcdef-0", "+256770000000", CODE), example_client.at_console())
    assert not UssdSession.select().exists()


@pytest.mark.parametrize("codes", [(), ("*777#", "*777*5#")], ids=["every-code", "listed-codes"])
@pytest.mark.parametrize("gateway", sorted({adapter.name for adapter in ADAPTERS.values()} - {"smpp"}))
def test_a_phone_never_leaves_its_client_through_a_channel_that_all_clients_share(
    visit: Visit,
    services: Services,
    example_client: ExampleClient,
    clock: MovableClock,
    gateway: str,
    codes: tuple[str, ...],
) -> None:
    ours, theirs = Shop(services, client_id=example_client.id, code="*777#"), Shop(services, code="*777*5#")
    for shop in (ours, theirs):
        services.channels.set_active(shop.channel.channel_id, False, OPERATOR)
    services.channels.create(CreateChannel(gateway, codes=codes), OPERATOR)
    paying = HandsetCall("0123456789abcdef-0", PHONE, "*777*5#", "64110")
    for entries in ((), ("1",), ("1", "91357"), ("1", "91357", "1")):
        services.handsets.step(replace(paying, entries=entries), theirs.call)
    for claimed in services.processing.claim(10):
        services.processing.advance(claimed)
    assert Transaction.get().status == "succeeded"
    clock.advance(60)
    phone = _Phone(visit(), "code:*777#", phone_number=PHONE)
    phone.press("call", "*777*5#")
    assert "91,357" not in phone.page
    assert "91357" not in phone.page
    assert {row.client_id for row in UssdSession.select()} - {theirs.client_id} <= {ours.client_id}
    assert UssdSession.select().where(UssdSession.client_id == theirs.client_id).count() == 1
    assert "Welcome to ACME" in _Phone(visit(), "code:*777#", phone_number=PHONE).press("call", "*777#")
