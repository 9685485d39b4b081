"""A client's program: it holds a key and calls the data API as programs do."""

from __future__ import annotations

import itertools
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.support.money import deposit
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.clients.messages import CreateClient

_numbers = itertools.count(1)


class Program:
    """Calls the data API with a key of its own client, or of the client of another program."""

    def __init__(
        self, services: Services, web: FlaskClient, *scopes: str, client_id: str | None = None, shillings: int = 0
    ) -> None:
        """Without `scopes` the key may do everything; `shillings` are what the client has to spend."""
        operator = RequestContext(Caller(CallerKind.OPERATOR, grants=None))
        name = f"client {next(_numbers)}"
        self.client_id = client_id or services.clients.create(CreateClient(name), operator).client_id
        self.call = RequestContext(Caller(CallerKind.KEY, client_id=self.client_id, grants=None))
        key = services.api_keys.create(CreateApiKey(scopes or None), self.call)
        self.key_id = key.id
        self.headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
        self.web = web
        if shillings:
            deposit(services, self.call, shillings, f"deposit of {name}")

    def get(self, path: str, **query: Any) -> TestResponse:
        """Ask for something."""
        return self.web.get(path, headers=self.headers, query_string=query or None)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None, **query: Any) -> TestResponse:
        """Send a JSON body."""
        return self.web.post(path, json=body, headers=self.headers | (headers or {}), query_string=query or None)

    def collect(
        self, reference: str = "r1", number: str = "+256770000000", amount: Any = 5000, **more: Any
    ) -> TestResponse:
        """Ask for a collection."""
        return self.move("collection", reference, number, amount, **more)

    def disburse(
        self, reference: str = "d1", number: str = "+256770000000", amount: Any = 5000, **more: Any
    ) -> TestResponse:
        """Ask for a disbursement."""
        return self.move("disbursement", reference, number, amount, **more)

    def move(self, kind: str, reference: str, number: str, amount: Any, **more: Any) -> TestResponse:
        """Ask for a transaction."""
        body = {"type": kind, "phone_number": number, "amount": amount, "reference": reference}
        return self.post("/api/transactions", body | more)

    def see(self, transaction_id: str) -> dict[str, Any]:
        """The record of one transaction, with its events."""
        data: dict[str, Any] = self.get(f"/api/transactions/{transaction_id}").json["data"]
        return data
