"""Messages of menus: queued by a step, once however often it is repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.blueprints.conftest import Dial
from tests.support.runtimes import other_runtime
from tests.support.shop import CODE, PHONE, Shop, shop_document
from ussd_server.app import create_app
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Sms
from ussd_server.senders.messages import SmsAccess
from ussd_server.settings import Settings


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, sms=SmsAccess("sandbox"))


@pytest.fixture
def shop(services: Services) -> Shop:
    """A shop that sends the balance as a message."""
    tell = {"type": "sms", "to": "session.phone_number", "text": {"en": "UGX {{vars.balance|ugx}}"}, "goto": "bye"}
    balance = {"type": "balance", "of": "session.phone_number", "var": "balance", "goto": "tell"}
    return Shop(services, shop_document(nodes={"balance": balance, "tell": tell, "show": tell}))


def test_a_step_sends_its_message_once(at: Dial, shop: Shop) -> None:
    at("")
    for _ in range(2):
        assert at("2") == "END Goodbye"
    (message,) = Sms.select()
    assert (message.client_id, message.phone_number, message.text) == (shop.client_id, PHONE, "UGX 0")
    at("", session="ATUid_2")
    at("2", session="ATUid_2")
    assert Sms.select().count() == 2


def test_an_application_without_a_sender_beside_one_with_it_sends_no_message(
    at: Dial, services: Services, shop: Shop
) -> None:
    silent = create_app(Services(other_runtime(services, sms_sender=None))).test_client()
    form = {"sessionId": "ATUid_1", "phoneNumber": PHONE, "networkCode": "64110", "serviceCode": CODE}
    for text in ("", "2"):
        reply = silent.post(shop.channel.gateway_path, data=form | {"text": text})
    assert reply.text == "END Goodbye"
    assert not Sms.select().exists()
    at("", session="ATUid_2")
    at("2", session="ATUid_2")
    assert Sms.select().count() == 1
