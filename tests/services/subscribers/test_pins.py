"""PINs of subscribers: chosen twice, locked after wrong tries wherever they come from, and never shown."""

from __future__ import annotations

import logging
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.conftest import MovableClock
from tests.support.shop import CODE, OPERATOR, Shop, client_call, shop_document
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database
from ussd_server.gateways.messages import GatewayRequest
from ussd_server.menus.engine.actions import PinAction, PinChecked, PinVerdict
from ussd_server.menus.engine.pins import is_simple
from ussd_server.menus.source.texts import read_menu_file
from ussd_server.models.clients import AuditEvent
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import SubscriberPin
from ussd_server.services.menus.messages import SaveDraft
from ussd_server.services.subscribers.messages import ErasePersonalData, ResetPin
from ussd_server.services.subscribers.pins import PinTry
from ussd_server.services.ussd.messages import BeginSession, EnterText
from ussd_server.status import ServiceError

NUMBER = "+256772123456"
PIN, NEW_PIN, WRONG = "739184", "608531", "915273"
_SAVINGS = Path(__file__).parents[3] / "ussd_server" / "menus" / "examples" / "savings_group.yaml"
_SESSIONS = count()


def savings_group() -> dict[str, Any]:
    """The shipped savings group with PINs of six digits, which no id or time holds by chance."""
    document: dict[str, Any] = read_menu_file(_SAVINGS)[0]
    for node in document["nodes"].values():
        if node["type"] == "pin":
            node["length"] = len(PIN)
    del document["scripts"]
    return document


@pytest.fixture
def shop(services: Services) -> Shop:
    return Shop(services, savings_group())


class GatewayPhone:
    """A phone whose gateway sends the whole history at every step."""

    def __init__(self, shop: Shop, number: str = NUMBER, path: str = "") -> None:
        self._services, self._number = shop.services, number
        self._path = path or shop.channel.gateway_path
        self._session, self._text = f"call-{next(_SESSIONS)}", ""
        self.screen = self._send()

    def enters(self, *entries: str) -> str:
        """The screen after entries."""
        for entry in entries:
            self._text = f"{self._text}*{entry}".lstrip("*")
            self.screen = self._send()
        return self.screen

    def _send(self) -> str:
        _, _, adapter, secret = self._path.split("/")
        fields = {"sessionId": self._session, "phoneNumber": self._number, "serviceCode": CODE, "text": self._text}
        body = "&".join(f"{name}={quote(value)}" for name, value in fields.items()).encode()
        return self._services.gateways.answer(adapter, secret, GatewayRequest("POST", body=body), "r").body.decode()


def judge(services: Services, shop: Shop, act: str, pin: str, number: str = NUMBER, mode: str = "") -> PinChecked:
    """What becomes of a PIN in a step of its own."""
    mode = mode or ("ask" if act == "old" else "choose")
    tried = PinTry(shop.client_id, number, f"step-{next(_SESSIONS)}")
    judged = services.subscriber_pins.answer(PinAction("pin", act, mode, 3, pin), tried)
    assert isinstance(judged, PinChecked)
    return judged


def test_a_member_chooses_a_pin_pays_in_asks_the_balance_and_withdraws(services: Services, shop: Shop) -> None:
    phone = GatewayPhone(shop)
    assert "7. Choose a PIN" in phone.screen
    assert phone.enters("3").startswith("CON Choose a PIN")
    assert "A PIN has 6 digits." in phone.enters("1234")
    assert "too easy" in phone.enters("123456")
    assert "The two PINs differ." in phone.enters(PIN, WRONG)
    assert "Your PIN is kept." in phone.enters(PIN, PIN)
    assert "8. Change the PIN" in phone.enters("1")
    assert "Approve the prompt" in phone.enters("1", "5000", "1")
    assert Transaction.get().amount_cents == 500_000
    phone = GatewayPhone(shop, path=shop.channel_of("africastalking"))
    assert "Tries left: 2." in phone.enters("3", WRONG)
    assert "Your balance is UGX 0." in phone.enters(PIN)
    assert "Choose a new PIN" in phone.enters("1", "8", PIN)
    assert "Your PIN is kept." in phone.enters(NEW_PIN, NEW_PIN)
    assert "There is not enough" in phone.enters("1", "2", NEW_PIN)


def test_no_digit_of_a_pin_stands_in_the_database_the_log_or_what_clients_read(
    services: Services, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    GatewayPhone(shop).enters("3", PIN, WRONG, PIN, PIN, "1", "8", PIN, NEW_PIN, NEW_PIN)
    session = services.api_sessions.begin(BeginSession(NUMBER, CODE), shop.call)
    for entry in ("3", WRONG, NEW_PIN):
        session = services.api_sessions.enter(EnterText(session.session_id, entry), shop.call)
    GatewayPhone(shop).enters("3", WRONG, WRONG, WRONG)
    transcript = services.api_sessions.get(session.session_id, shop.call)
    assert "****" in repr(transcript)
    seen = [repr(transcript), caplog.text, repr(services.personal_data.export(NUMBER, OPERATOR))]
    for table in database.get_tables():
        seen += [repr(row) for row in database.execute_sql(f'SELECT * FROM "{table}"').fetchall()]
    assert any("subscriber.pin_locked" in text for text in seen)
    for pin in (PIN, NEW_PIN, WRONG):
        assert [text for text in seen if pin in text] == []


def test_a_number_is_locked_for_an_hour_and_the_next_time_for_a_day(
    services: Services, shop: Shop, clock: MovableClock
) -> None:
    assert judge(services, shop, "new", PIN).verdict is PinVerdict.RIGHT
    for hours in (1, 24, 24):
        tries = [judge(services, shop, "old", WRONG) for _ in range(3)]
        assert tries == [
            PinChecked(PinVerdict.WRONG, 2),
            PinChecked(PinVerdict.WRONG, 1),
            PinChecked(PinVerdict.LOCKED),
        ]
        assert judge(services, shop, "old", PIN).verdict is PinVerdict.LOCKED
        event = Event.select().where(Event.type == "subscriber.pin_locked").order_by(Event.id.desc()).get()
        assert event.payload["phone_number"] == NUMBER
        clock.advance(hours * 3600 - 1)
        assert judge(services, shop, "look", "", mode="ask").verdict is PinVerdict.LOCKED
        clock.advance(2)
        assert judge(services, shop, "old", PIN).verdict is PinVerdict.RIGHT
    clock.advance(timedelta(days=31).total_seconds())
    for _ in range(3):
        judge(services, shop, "old", WRONG)
    row = SubscriberPin.get()
    assert row.locked_until - row.locked_at == timedelta(hours=1)
    assert Event.select().where(Event.type == "subscriber.pin_locked").count() == 4


def test_wrong_pins_count_in_every_conversation_and_the_right_one_sets_the_count_to_nothing(
    services: Services, shop: Shop
) -> None:
    judge(services, shop, "new", PIN)
    other = shop.channel_of("africastalking")
    assert "Tries left: 2." in GatewayPhone(shop).enters("3", WRONG)
    assert "Tries left: 1." in GatewayPhone(shop, path=other).enters("8", WRONG)
    assert "Your balance" in GatewayPhone(shop).enters("3", PIN)
    assert "Tries left: 2." in GatewayPhone(shop, path=other).enters("3", WRONG)
    assert "locked" in GatewayPhone(shop).enters("8", WRONG, WRONG)
    assert "locked" in GatewayPhone(shop, path=other).enters("3")
    assert "Your balance" not in GatewayPhone(shop, "+256772000001").enters("3")


def test_a_step_that_is_done_again_after_a_crash_counts_once(services: Services, shop: Shop) -> None:
    chosen = PinTry(shop.client_id, NUMBER, "first")
    for _ in range(2):
        kept = services.subscriber_pins.answer(PinAction("pin", "new", "choose", 3, PIN), chosen)
        assert kept == PinChecked(PinVerdict.RIGHT)
    again = PinTry(shop.client_id, NUMBER, "again")
    for _ in range(5):
        assert services.subscriber_pins.answer(PinAction("pin", "old", "ask", 3, WRONG), again) == PinChecked(
            PinVerdict.WRONG, 2
        )
    assert judge(services, shop, "new", NEW_PIN).verdict is PinVerdict.LOCKED
    assert judge(services, shop, "old", PIN).verdict is PinVerdict.RIGHT


def test_a_reset_ends_the_lock_and_lets_the_subscriber_choose_again(services: Services, shop: Shop) -> None:
    judge(services, shop, "new", PIN)
    for _ in range(3):
        judge(services, shop, "old", WRONG)
    assert "locked" in GatewayPhone(shop).enters("8")
    assert services.subscriber_pins.state(NUMBER, shop.call).locked_until is not None
    with pytest.raises(ServiceError, match="does not have the scope transactions:send"):
        services.subscriber_pins.reset(ResetPin(NUMBER), client_call(shop.client_id, frozenset({"ussd:*"})))
    assert services.subscriber_pins.reset(ResetPin(NUMBER), shop.call).had_pin
    assert not services.subscriber_pins.reset(ResetPin(NUMBER), shop.call).had_pin
    assert AuditEvent.select().where(AuditEvent.action == "subscriber.pin_reset").count() == 1
    assert "Your PIN is kept." in GatewayPhone(shop).enters("7", NEW_PIN, NEW_PIN)


def test_an_erasure_removes_the_reports_of_locks_with_the_pin(services: Services, shop: Shop) -> None:
    for number in (NUMBER, "+256772000001"):
        judge(services, shop, "new", PIN, number)
        for _ in range(3):
            judge(services, shop, "old", WRONG, number)
    request = ErasePersonalData(NUMBER, by="Ann", second="Ben", reason="asked")
    assert services.personal_data.erase(request, OPERATOR).removed["subscriber_pins"] == 1
    reports = Event.select().where(Event.type == "subscriber.pin_locked")
    assert [report.payload["phone_number"] for report in reports] == ["+256772000001"]


def test_what_a_pin_opened_is_not_continued_after_a_dropped_call(services: Services, shop: Shop) -> None:
    judge(services, shop, "new", PIN)
    assert "Your balance" in GatewayPhone(shop).enters("3", PIN)
    assert GatewayPhone(shop).screen.startswith("CON Tukwatagane Savings Group")
    assert "Continue where you stopped?" not in GatewayPhone(shop).screen


def test_pins_outlast_a_rotation_of_the_master_keys(services: Services, shop: Shop) -> None:
    judge(services, shop, "new", PIN)
    services.master_keys.add(OPERATOR)
    services.master_keys.rekey(OPERATOR)
    services.master_keys.retire(OPERATOR)
    assert judge(services, shop, "old", PIN).verdict is PinVerdict.RIGHT


def test_a_hundred_pins_at_once_hold_up_no_login_and_more_of_one_client_are_refused(
    services: Services, shop: Shop
) -> None:
    judge(services, shop, "new", PIN)
    places = [services.subscriber_pins._permits.permit(shop.client_id) for _ in range(64)]
    for place in places:
        place.__enter__()
    assert "did not work" in GatewayPhone(shop).enters("3", PIN)
    assert SubscriberPin.get().wrong_tries == 0
    for place in places:
        place.__exit__(None, None, None)
    assert "Your balance" in GatewayPhone(shop).enters("3", PIN)


def test_a_pin_that_is_easy_to_guess_is_refused() -> None:
    for pin in ("1111", "1234", "7890", "4321", "0987", "1212", "1122", "12345", "98765", "12121", "112233"):
        assert is_simple(pin), pin
    for pin in ("2580", "1231", "1123", "7391", "258025", "139713"):
        assert not is_simple(pin), pin


def test_the_check_warns_where_a_menu_asks_for_another_length_than_the_clients_other_menu(
    services: Services, shop: Shop
) -> None:
    pin = {"type": "pin", "mode": "choose", "text": "Choose", "goto": "root", "locked": "bye", "length": 4}
    report = services.menus.save_draft(SaveDraft("other", shop_document(id="other", nodes={"bye": pin})), shop.call)
    messages = [each.message for each in report.warnings if each.rule == "pin"]
    assert "the PIN has 4 digits here and 6 in the menu `savings-group`" in messages
    of_another = Shop(services, shop_document(), code="*777#")
    report = services.menus.save_draft(
        SaveDraft("other", shop_document(id="other", nodes={"bye": pin})), of_another.call
    )
    assert not [each for each in report.warnings if each.rule == "pin"]
