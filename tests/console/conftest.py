"""A person in front of the console, without a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from html import unescape

import pyotp
import pytest
from flask import Flask
from flask.testing import EnvironBuilder, FlaskClient
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.support.example_client import PASSWORD, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.operators.messages import CreateOperator

_TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')


class ConsoleVisitor:
    """One browser's worth of cookies. Forms are sent with the token of the page that was seen last."""

    def __init__(self, web: FlaskClient) -> None:
        self.web = web
        self.token = ""

    def get(self, path: str, **options: object) -> TestResponse:
        """Look at a page below `/console`."""
        return self.seen(self.web.get(f"/console{path}", **options))

    def post(self, path: str, **fields: object) -> TestResponse:
        """Send a form."""
        data = {"csrf_token": self.token} | fields
        with closing(EnvironBuilder(self.web.application, f"/console{path}", method="POST", data=data)) as form:
            request = form.get_request()
        # A large form is a temporary file, which the test client leaves open.
        with closing(request.environ["wsgi.input"]):
            return self.seen(self.web.open(request))

    def sign_in(self, email: str, password: str = PASSWORD, next: str = "") -> TestResponse:  # noqa: A002
        """Fill in the sign-in form."""
        self.get("/sign-in")
        reply = self.post("/sign-in", email=email, password=password, next=next)
        if reply.status_code == 303:
            self.get("")
        return reply

    def seen(self, reply: TestResponse) -> TestResponse:
        """Note the token of a page."""
        if found := _TOKEN.search(reply.text if reply.mimetype == "text/html" else ""):
            self.token = unescape(found[1])
        return reply


Visit = Callable[..., ConsoleVisitor]


@pytest.fixture
def example_client(services: Services) -> ExampleClient:
    return ExampleClient(services)


@pytest.fixture
def visit(app: Flask, example_client: ExampleClient) -> Visit:
    """A visitor who signed in with the given role."""

    def signed_in(role: str = "owner", client: ExampleClient = example_client) -> ConsoleVisitor:
        visitor = ConsoleVisitor(app.test_client())
        assert visitor.sign_in(client.email(role)).status_code == 303
        return visitor

    return signed_in


def confirmation(page: str) -> tuple[str, str]:
    """The path and the digest of the first proposal that a page lets its visitor confirm."""
    path = re.search(r'action="/console(/operator/proposals/[^"]+/confirm)"', page)
    digest = re.search(r'name="digest" value="([0-9a-f]{64})"', page)
    assert path
    assert digest
    return path[1], digest[1]


Operators = Callable[[str], ConsoleVisitor]


@pytest.fixture
def operator(app: Flask, services: Services, clock: MovableClock) -> Operators:
    """Gives a visitor who signed in as the operator with this name."""

    def signed_in(name: str) -> ConsoleVisitor:
        factor = services.operators.create(CreateOperator(f"{name}@ops.example", PASSWORD), operator_context())
        visitor = ConsoleVisitor(app.test_client())
        visitor.get("/operator/sign-in")
        code = pyotp.TOTP(factor.secret).at(clock.now())
        reply = visitor.post("/operator/sign-in", email=f"{name}@ops.example", password=PASSWORD, code=code)
        assert (reply.status_code, reply.location) == (303, "/console/operator")
        visitor.get("/operator")
        return visitor

    return signed_in
