"""A client with its people, made through the real services, for tests that need a caller."""

from __future__ import annotations

import json
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.services.clients.keys.messages import ApiKeyView, CreateApiKey
from ussd_server.services.clients.messages import CreateClient, CreateUser, LogIn

PASSWORD = "correct horse battery"
OPERATOR = RequestContext(Caller(CallerKind.OPERATOR, grants=None))


class ExampleClient:
    """A client with a person for each role that is asked for: `owner@NAME.example` and so on, with one password."""

    def __init__(self, services: Services, name: str = "acme") -> None:
        self.services = services
        self.name = name
        self.id = services.clients.create(CreateClient(name), OPERATOR).client_id
        self._people: set[str] = set()

    def email(self, role: str = "owner") -> str:
        """The e-mail address of the person with this role."""
        email = f"{role}@{self.name}.example"
        if role not in self._people:
            self._people.add(role)
            self.services.clients.create_user(CreateUser(self.id, email, role, PASSWORD), OPERATOR)
        return email

    def log_in(self, role: str = "owner") -> str:
        """A fresh access token of the person with this role."""
        return self.services.logins.begin(
            LogIn(self.email(role), PASSWORD), RequestContext(Caller(CallerKind.NOBODY))
        ).access_token

    def call(self, role: str = "owner") -> RequestContext:
        """The context of a call by the person with this role, as authentication makes it."""
        return RequestContext(self.services.auth.authenticate_token(self.log_in(role)), address="192.0.2.1")

    def at_console(self, role: str = "owner") -> RequestContext:
        """A request by the person with this role, who signed in to the console."""
        login = self.services.logins.begin_for_console(
            LogIn(self.email(role), PASSWORD), RequestContext(Caller(CallerKind.NOBODY))
        )
        person = self.services.auth.authenticate_login(login)
        return RequestContext(person.caller, address="192.0.2.1")

    def create_key(self, *scopes: str) -> ApiKeyView:
        """A fresh key; without `scopes` it may do everything but approve payouts."""
        return self.services.api_keys.create(CreateApiKey(scopes or None), self.call())

    def browser(self, web: FlaskClient, role: str = "owner") -> Browser:
        """A caller of the management paths, signed in as the person with this role."""
        return Browser(web, self.log_in(role))


class Browser:
    """Calls management paths with one access token."""

    def __init__(self, web: FlaskClient, token: str) -> None:
        self._web = web
        self.headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> TestResponse:
        """Send one request below `/api/clients/`; `body` is sent as JSON."""
        if body is not None:
            options |= {"data": json.dumps(body), "content_type": "application/json"}
        return self._web.open(f"/api/clients/{path}", method=method, headers=self.headers, **options)


def answer(reply: TestResponse) -> tuple[int, str]:
    """Status and message of a management answer, after checking that it is one."""
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["Cache-Control"] == "no-store"
    assert list(reply.json) == ["status", "message", "data"]
    assert reply.json["status"] == reply.status_code
    if reply.status_code >= 400:
        assert reply.json["data"] is None
    return reply.status_code, reply.json["message"]
