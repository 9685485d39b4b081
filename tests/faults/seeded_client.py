"""A client with one object of each kind, which calls every path with credentials that never reach a limit."""

from __future__ import annotations

import copy
from typing import Any

from flask.testing import FlaskClient
from werkzeug.routing import Rule
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.support.example_client import PASSWORD
from tests.support.money import deposit, work
from tests.support.shop import OPERATOR, PHONE, Shop, shop_document
from ussd_server.api.document_examples import request_example
from ussd_server.api.requests import is_management
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.services.clients.keys.messages import SCOPES, CreateApiKey
from ussd_server.services.clients.messages import CreateUser, LogIn
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix
from ussd_server.services.sms.outbox import queue_sms

_CALLS_OF_A_CREDENTIAL = 95


class SeededClient:
    """A client with money, a menu on a code, a session, a succeeded payment, a message, a webhook and its events.

    `ids` has a name of the client's own for every variable that a path can hold; `key` and `token` are the headers that
    are sent at present, `secrets` what must never come back.
    """

    def __init__(self, services: Services, web: FlaskClient, clock: MovableClock, name: str, code: str) -> None:
        self._services, self._web, self._name = services, web, name
        self.shop = Shop(services, shop_document(id=f"menu-of-{name}"), code)
        self.client_id = self.shop.client_id
        deposit(services, self.shop.call, 100_000, name)
        services.clients.create_user(CreateUser(self.client_id, f"owner@{name}.example", "owner", PASSWORD), OPERATOR)
        self._calls, self._key_id = 0, ""
        self.secrets: list[str] = []
        self.ids = {"menu_id": self.shop.menu_id, "service_code": code.rstrip("#"), "phone_number": "+256770000000"}
        payment = {"type": "collection", "phone_number": PHONE, "amount": 5000, "reference": f"paid-{name}"}
        self.ids["transaction_id"] = self._make("/api/transactions", payment)["transaction_id"]
        work(services, clock)
        session = {"phone_number": PHONE, "service_code": code}
        self.ids["session_id"] = self._make("/api/ussd/sessions", session)["session_id"]
        row = {"phone_number": PHONE, "amount": 500, "reference": "row"}
        payout = {"reference": f"payout-{name}", "items": [row]}
        self.ids["payout_id"] = self._make("/api/payouts", payout)["payout_id"]
        webhook = {"url": "http://127.0.0.1:9999/events"}
        self.ids["webhook_id"] = self._make("/api/webhooks", webhook)["id"]
        self.ids["event_id"] = self.ask("GET", "/api/events").json["data"]["items"][0]["id"]
        services.payment_codes.set_prefix(SetPrefix(self.client_id, name[:6]), OPERATOR)
        code = f"{name[:6].upper()}1"
        self.ids["code"] = services.payment_codes.put(PutPaymentCode(code, "Fees"), self.shop.call).code
        self.ids["message_id"] = queue_sms(self.client_id, PHONE, "Ready", f"message-{name}", clock.now())
        self.ids["api_key_id"] = self._make("/api/clients/api-keys", {})["id"]
        self.ids["request_id"] = f"request-of-{name}"
        self.ask("POST", "/api/clients/api-keys", json={}, headers={"X-Request-Id": self.ids["request_id"]})
        services.runtime.request_recorder.write()

    def ask(self, method: str, path: str, **options: Any) -> TestResponse:
        """Send one request, with a key or an access token, whichever the path asks for."""
        if self._calls % _CALLS_OF_A_CREDENTIAL == 0:
            self._renew()
        self._calls += 1
        headers = self.token if is_management(path) else self.key
        return self._web.open(path, method=method, headers=headers | options.pop("headers", {}), **options)

    def _make(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        reply = self.ask("POST", path, json=body)
        assert reply.status_code == 201, reply.text
        data: dict[str, Any] = reply.json["data"]
        return data

    def _renew(self) -> None:
        """Take a fresh key and a fresh login, so that no limit is reached."""
        key = self._services.api_keys.create(CreateApiKey(tuple(sorted(SCOPES))), self.shop.call)
        if self._key_id:
            # A client may have 50 keys.
            self._services.api_keys.delete(self._key_id, self.shop.call)
        self._key_id = key.id
        nobody = RequestContext(Caller(CallerKind.NOBODY), address=f"192.0.2.{self._calls % 250}")
        login = self._services.logins.begin(LogIn(f"owner@{self._name}.example", PASSWORD), nobody)
        self.key = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
        self.token = {"Authorization": f"Bearer {login.access_token}"}
        self.secrets = [key.apisecret, login.access_token, login.refresh_token]


def example_of(rule: Rule) -> dict[str, Any]:
    """A copy of the example of a route's body; empty where every field may be left out."""
    return copy.deepcopy(request_example(rule.endpoint.rpartition(".")[2]).get("example", {}))
