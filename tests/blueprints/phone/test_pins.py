"""The reset of a subscriber's PIN, as programs call it."""

from __future__ import annotations

from flask.testing import FlaskClient

from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.menus.engine.actions import PinAction
from ussd_server.models.keys import ApiRequest
from ussd_server.services.subscribers.pins import PinTry

NUMBER = "+256772123456"


def test_a_key_resets_a_pin(services: Services, example_client: ExampleClient, web: FlaskClient) -> None:
    tried = PinTry(example_client.id, NUMBER, "step")
    services.subscriber_pins.judge(PinAction("pin", "new", "choose", 3, "2580"), tried)
    key = example_client.key()
    for had_pin in (True, False):
        reply = key.request(web, "DELETE", f"/api/subscribers/{NUMBER}/pin")
        assert (reply.status_code, reply.json["data"]) == (200, {"phone_number": NUMBER, "had_pin": had_pin})
    wrong = key.request(web, "DELETE", "/api/subscribers/0772123456/pin")
    assert (wrong.status_code, wrong.json["error"]["code"]) == (400, "INVALID_PHONE_NUMBER")
    assert ApiRequest.select().count() == 3
