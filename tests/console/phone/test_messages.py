"""Messages in the console: listed, shown, and on the phone of their number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.console.conftest import Visit
from tests.support.example_client import ExampleClient
from tests.support.shop import CODE, Shop
from ussd_server.bootstrap import Services
from ussd_server.senders.messages import SmsAccess
from ussd_server.services.sms.outbox import queue_sms
from ussd_server.settings import Settings

NUMBER = "+256770000091"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, sms=SmsAccess("sandbox"))


def queue(services: Services, client: ExampleClient, text: str = "<b>Ready</b>", number: str = NUMBER) -> str:
    return queue_sms(client.id, number, text, f"{number} {text}", services.clock.now())


def test_a_person_finds_a_message_and_why_it_failed(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    message_id = queue(services, example_client)
    queue(services, example_client, "Other", "+256770000000")
    foreign = queue(services, ExampleClient(services, "other"), "Foreign")
    for claimed in services.sms_sending.claim(4):
        services.sms_sending.send(claimed)
    viewer = visit("viewer")
    page = viewer.get("/messages?phone_number=0770000091").text
    assert "&lt;b&gt;Ready&lt;/b&gt;" in page
    assert "Other" not in page
    assert "Foreign" not in viewer.get("/messages").text
    assert "The phone number cannot receive messages" in viewer.get(f"/messages/{message_id}").text
    assert viewer.get(f"/messages/{foreign}").status_code == 404
    assert "matches these filters" in viewer.get("/messages?phone_number=nobody").text


def test_the_phone_shows_the_messages_of_its_number(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    Shop(services, client_id=example_client.id)
    queue(services, example_client)
    visitor = visit()
    target = CODE.replace("#", "%23")
    assert "&lt;b&gt;Ready" in visitor.get(f"/phone?target=code:{target}&phone_number=0770000091").text
    assert "None yet." in visitor.get(f"/phone?target=code:{target}&phone_number=0770000000").text
    part = visitor.get("/phone/messages?phone_number=0770000091").text
    assert "&lt;b&gt;Ready" in part
    assert "<html" not in part


def test_a_message_is_in_the_history_of_its_number(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    message_id = queue(services, example_client, "Ready")
    page = visit("viewer").get(f"/subscribers/{NUMBER}").text
    assert f'href="/console/messages/{message_id}"' in page
    assert "The message waits to be sent: Ready" in page


def test_an_owner_writes_receipts_and_a_mistake_keeps_what_was_typed(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    owner = visit()
    owner.get("/messages/receipts")
    form = {"collection.language": ["en", "lg", ""], "collection.text": ["Got {{amount|ugx}}", "<Tufunye>", ""]}
    assert owner.post("/messages/receipts", **form).status_code == 303
    assert services.receipts.get(example_client.call()) == {
        "collection": {"en": "Got {{amount|ugx}}", "lg": "<Tufunye>"}
    }
    page = owner.get("/messages/receipts").text
    assert "&lt;Tufunye&gt;" in page
    for wrong in (
        {"refund.language": "English", "refund.text": "Hi"},
        {"refund.language": "en", "refund.text": "{{x}}"},
    ):
        refused = owner.post("/messages/receipts", **(form | wrong))
        assert refused.status_code == 400
        assert wrong["refund.text"] in refused.text
    viewer = visit("viewer")
    assert "Owners and admins change receipts." in viewer.get("/messages/receipts").text
    assert viewer.post("/messages/receipts", **form).status_code == 403
