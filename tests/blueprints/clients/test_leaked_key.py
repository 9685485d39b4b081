"""A leaked key, played: its client is warned, and each answer to the leak is effective at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.example_client import Browser, ExampleClient
from tests.support.mail_server import mailing
from tests.support.money import deposit
from tests.support.shop import PHONE
from ussd_server.bootstrap import Services
from ussd_server.cli import main
from ussd_server.context import operator_context
from ussd_server.models.sending import Event, Mail
from ussd_server.settings import Settings
from ussd_server.values import iso_milliseconds

SHOP, OFFICE, THIEF = "198.51.100.9", "198.51.100.10", "203.0.113.66"
FORBIDDEN = (403, "ADDRESS_NOT_ALLOWED")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return mailing(settings, "smtp://127.0.0.1:9")


class Till:
    """The shop's key, its owner in the office, and the calls of both sides."""

    def __init__(self, services: Services, web: FlaskClient, client: ExampleClient) -> None:
        self._services, self._web = services, web
        self.owner: Browser = client.browser(web)
        key = self.owner.ask("POST", "api-keys", {"name": "Till 4"}).json["data"]
        self.id, self._apikey, self.secret = key["id"], key["apikey"], key["apisecret"]

    def call(self, address: str, path: str = "balance", body: Any = None, secret: str = "") -> tuple[int, str]:
        reply = self._web.open(
            f"/api/{path}",
            method="POST" if body else "GET",
            json=body,
            headers={"x-api-key": self._apikey, "x-api-secret": secret or self.secret},
            environ_base={"REMOTE_ADDR": address},
        )
        return reply.status_code, reply.json.get("error", "")

    def pay(self, shillings: int, reference: str, address: str = SHOP) -> tuple[int, str]:
        payment = {"type": "disbursement", "phone_number": PHONE, "amount": shillings, "reference": reference}
        return self.call(address, "transactions", payment)

    def change(self, **fields: Any) -> None:
        assert self.owner.ask("PATCH", f"api-keys/{self.id}", fields).status_code == 200

    def look(self, path: str) -> Any:
        """What the owner sees a second later: the writer of the log works every second."""
        self._services.runtime.request_recorder.write()
        return self.owner.ask("GET", path).json["data"]

    def keys_refused_by_address(self) -> float:
        """What the alert `KeyUsedElsewhere` reads."""
        return next(each.value for each in self._services.gauges.read() if each.name == "ussd_keys_refused_by_address")


def test_a_leaked_key_is_noticed_and_bound_narrowed_limited_and_rotated_with_effect_at_once(
    services: Services,
    web: FlaskClient,
    example_client: ExampleClient,
    clock: MovableClock,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    till = Till(services, web, example_client)
    deposit(services, operator_context(example_client.id), 100_000)
    assert (till.call(SHOP), till.call(THIEF)) == ((200, ""), (200, ""))
    assert till.look(f"api-keys/{till.id}")["last_used_address"] == THIEF
    clock.advance(1)
    assert till.call(SHOP) == (200, "")
    assert till.look(f"api-keys/{till.id}")["last_used_address"] == SHOP

    # Bound to the shop's network.
    began_at = clock.now()
    till.change(allowed_addresses=["198.51.100.0/24"])
    assert (till.call(THIEF), till.call(SHOP)) == (FORBIDDEN, (200, ""))
    assert till.pay(500, "stolen", THIEF) == FORBIDDEN
    assert [(each["code"], each["address"]) for each in till.look(f"requests?key_id={till.id}")["items"]] == [
        ("ADDRESS_NOT_ALLOWED", THIEF)
    ] * 2
    assert till.look(f"api-keys/{till.id}")["last_used_address"] == SHOP
    assert till.keys_refused_by_address() == 1
    for _ in range(2):
        services.key_notices.write_refused()
    (event,) = Event.select().where(Event.type == "api_key.address_refused")
    assert (event.object_id, event.payload["name"], event.payload["address"]) == (till.id, "Till 4", THIEF)
    (mail,) = Mail.select().where(Mail.kind == "api_key.address_refused")
    assert (mail.recipient, mail.parameters["address"]) == (example_client.email(), THIEF)

    # Narrowed, limited, rotated.
    till.change(scopes="transactions:send")
    assert till.call(OFFICE) == (403, "INSUFFICIENT_SCOPE")
    assert till.pay(600, "wages") == (201, "")
    till.change(daily_limit=1000)
    assert (till.pay(600, "more wages"), till.pay(300, "less")) == ((400, "DAILY_LIMIT_REACHED"), (201, ""))
    stolen = till.secret
    rotated = till.owner.ask("POST", f"api-keys/{till.id}/rotate", {"grace_period_seconds": 0})
    till.secret = rotated.json["data"]["apisecret"]
    assert till.call(SHOP, secret=stolen) == (401, "INVALID_CREDENTIALS")
    assert till.pay(50, "after the rotation") == (201, "")

    # On the next day the thief tries again from the shop's network, and then from his own.
    clock.advance(86_400)
    till.look("requests")
    services.key_notices.write_refused()
    assert Mail.select().where(Mail.kind == "api_key.address_refused").count() == 1
    assert till.keys_refused_by_address() == 0
    assert (till.call(OFFICE, secret=stolen)[0], till.call(THIEF)) == (401, FORBIDDEN)
    services.runtime.request_recorder.write()
    services.key_notices.write_refused()
    assert Mail.select().where(Mail.kind == "api_key.address_refused").count() == 2

    # The operator's question.
    monkeypatch.setenv("USSD_DATA_DIR", str(settings.secrets_file.parent))
    monkeypatch.setenv("USSD_DATABASE_URL", settings.database_url)
    monkeypatch.setenv("USSD_REDIS_URL", settings.redis_url)
    words = ("keys", "requests", till.id, "--since", iso_milliseconds(began_at), "--json")
    shown = json.loads(CliRunner().invoke(main, words, catch_exceptions=False).stdout)["items"]
    assert [each["code"] for each in reversed(shown)] == [
        "ADDRESS_NOT_ALLOWED", "ADDRESS_NOT_ALLOWED", "INSUFFICIENT_SCOPE", "OK", "DAILY_LIMIT_REACHED", "OK",
        "INVALID_CREDENTIALS", "OK", "INVALID_CREDENTIALS", "ADDRESS_NOT_ALLOWED",
    ]  # fmt: skip
