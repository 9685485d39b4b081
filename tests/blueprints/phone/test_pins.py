"""The reset of a subscriber's PIN, as programs call it."""

from __future__ import annotations

from flask.testing import FlaskClient

from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.menus.engine.actions import PinAction
from ussd_server.services.subscribers.pins import PinTry

NUMBER = "+256772123456"


def test_a_key_resets_a_pin(services: Services, web: FlaskClient) -> None:
    client = ExampleClient(services)
    tried = PinTry(client.id, NUMBER, "step")
    services.subscriber_pins.answer(PinAction("pin", "new", "choose", 3, "2580"), tried)
    for scope, status in (("ussd:*", 403), ("transactions:write", 403), ("transactions:send", 200)):
        key = client.create_key(scope)
        headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
        reply = web.delete(f"/api/subscribers/{NUMBER}/pin", headers=headers)
        assert reply.status_code == status
    assert '"had_pin":true' in reply.text.replace(" ", "")
    assert '"had_pin":false' in web.delete(f"/api/subscribers/{NUMBER}/pin", headers=headers).text.replace(" ", "")
    refused = web.delete("/api/subscribers/0772123456/pin", headers=headers)
    assert (refused.status_code, "INVALID_PHONE_NUMBER" in refused.text) == (400, True)
