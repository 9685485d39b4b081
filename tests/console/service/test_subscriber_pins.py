"""The page of a subscriber shows whether the number has a PIN, and removes it."""

from __future__ import annotations

from tests.console.conftest import Visit
from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.menus.engine.actions import PinAction
from ussd_server.models.ussd import SubscriberPin
from ussd_server.services.subscribers.pins import PinTry

NUMBER = "+256772123456"


def test_who_may_send_money_resets_a_pin_on_the_subscribers_page(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    path = f"/subscribers/{NUMBER}"
    assert "PIN" not in visit("developer").get(path).text
    tried = PinTry(example_client.id, NUMBER, "step")
    services.subscriber_pins.answer(PinAction("pin", "new", "choose", 3, "2580"), tried)
    for role in ("viewer", "developer"):
        visitor = visit(role)
        assert "This number has a PIN in your menus." in visitor.get(path).text
        assert "Reset the PIN" not in visitor.get(path).text
        assert visitor.post(f"{path}/pin").status_code == 403
    admin = visit("admin")
    assert "Reset the PIN" in admin.get(path).text
    assert admin.post(f"{path}/pin").status_code == 303
    assert "The PIN is removed." in admin.get(path).text
    assert SubscriberPin.get().pin_sealed is None
