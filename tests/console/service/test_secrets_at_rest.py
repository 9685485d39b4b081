"""Secrets that people, programs and the service use are in no backup, span, log or page of the console."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Operators
from tests.services.webhooks.receivers import Receiver, deliver
from tests.support.example_client import ExampleClient
from tests.support.mail_server import PUBLIC_URL, MailServer, mailing
from tests.support.money import work
from tests.support.program import Program
from tests.support.shop import CODE, PHONE, Shop, shop_document
from tests.support.span_collector import collecting_spans
from ussd_server.bootstrap import Services
from ussd_server.settings import Settings
from ussd_server.spans import end_export

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

_PIN = "830517"
_TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
# Part of everything that is planted: by callers, by servers that reply, and by subscribers.
_MARK = "Zq7x"
_PAGES = ("", "/people", "/notifications", "/requests", "/audit", "/sessions", "/events", "/transactions", "/api-keys")
_ASKS = {"type": "pin", "length": 6, "text": {"en": "PIN"}, "locked": "bye"}
_MENU = shop_document(
    nodes={
        "root": {
            "type": "menu",
            "text": {"en": "Welcome"},
            "options": [{"label": {"en": "PIN"}, "goto": "choose"}, {"label": {"en": "Code"}, "goto": "voucher"}],
        },
        "choose": _ASKS | {"mode": "choose", "goto": "ask"},
        "ask": _ASKS | {"mode": "ask", "goto": "bye", "missing": "bye"},
    }
)


@pytest.fixture
def settings(settings: Settings, mail_server: MailServer) -> Settings:
    return mailing(settings, mail_server.url)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with collecting_spans(monkeypatch, "web") as receiver:
        yield receiver


def test_no_secret_is_in_a_backup_a_span_a_log_or_the_console(
    services: Services,
    settings: Settings,
    app: Flask,
    web: FlaskClient,
    clock: MovableClock,
    mail_server: MailServer,
    collector: Receiver,
    operator: Operators,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "ussd_server")
    client = ExampleClient(services)
    owner = ConsoleVisitor(app.test_client())
    owner.sign_in(client.email())
    program = Program(services, web, client_id=client.id)
    secrets = [_MARK, _PIN, program.headers["x-api-secret"], *session_of(owner), *client.browser(web).headers.values()]
    secrets += pay(services, program, clock)
    secrets += dial(services, web, client.id)
    secrets += choose_passwords(services, app, owner, mail_server)
    call_in_error(web, program)
    end_export()
    services.runtime.request_recorder.write()
    first = operator("first")
    seen = [owner.get(page).text for page in _PAGES] + [first.get("/operator/mails").text]
    places = {
        "the backup": backup(settings, tmp_path / "backup.db"),
        "spans": "".join(call.body.decode("latin-1") for call in collector.calls),
        "the log": caplog.text,
        "the console": "".join(seen),
    }
    assert len(secrets) > 10
    assert all(len(text) > 1000 for text in places.values())
    assert [(place, secret) for place, text in places.items() for secret in secrets if secret in text] == []


def pay(services: Services, program: Program, clock: MovableClock) -> Iterator[str]:
    """A payment whose webhook is called; its receiver repeats the secret that signs and another one."""
    with Receiver(headers={f"X-{_MARK}": _MARK}) as receiver:
        signing = program.post("/api/webhooks", {"url": receiver.url}, _TRACE).json["data"]["secret"]
        receiver.body = f"{signing} {program.headers['x-api-secret']}".encode()
        headers = {"User-Agent": _MARK, "Cookie": f"{_MARK}={_MARK}", "Referer": _MARK, "tracestate": f"a={_MARK}"}
        assert program.post("/api/transactions", payment(), {**_TRACE, **headers}).status_code == 201
        work(services, clock, 5)
        deliver(services)
        assert receiver.calls
    yield signing


def payment() -> dict[str, object]:
    return {"type": "collection", "phone_number": PHONE, "amount": 700, "reference": "r"}


def dial(services: Services, web: FlaskClient, client_id: str) -> Iterator[str]:
    """Conversations over a gateway and the API, in which a PIN and a code are typed."""
    path = Shop(services, _MENU, client_id=client_id).channel.gateway_path
    yield path.rpartition("/")[2]
    for session, typed in (("s1", ("1", _PIN, _PIN, _PIN)), ("s2", ("2", f"{_MARK}code"))):
        for number in range(len(typed) + 1):
            form = {"sessionId": session, "phoneNumber": PHONE, "serviceCode": CODE, "text": "*".join(typed[:number])}
            reply = web.post(path, data=form, headers=_TRACE).text
        assert reply.startswith(("END Goodbye", "CON Your voucher was noted."))
        yield "*".join(typed)


def choose_passwords(services: Services, app: Flask, owner: ConsoleVisitor, mail_server: MailServer) -> Iterator[str]:
    """An invitation and a forgotten password: the links that are mailed, and the passwords that are chosen."""
    owner.get("/people/invite")
    assert owner.post("/people/invite", email="ann@acme.example", role="viewer").status_code == 303
    mail_server.refusals = {"ben@acme.example": f"550 {_MARK}"}
    owner.get("/people/invite")
    assert owner.post("/people/invite", email="ben@acme.example", role="viewer").status_code == 303
    for _ in range(2):
        for mail_id in services.mail_sender.claim(10):
            services.mail_sender.send(mail_id)
        ((_, message),) = mail_server.received
        (token,) = re.findall(rf"{re.escape(PUBLIC_URL)}/console/welcome/(\S+)", message.get_content())
        yield token
        visitor = ConsoleVisitor(app.test_client())
        visitor.get(f"/welcome/{token}", headers=_TRACE)
        password = f"{_MARK} is a good password"
        assert visitor.post(f"/welcome/{token}", password=password, password_again=password).status_code == 303
        mail_server.received.clear()
        visitor.get("/forgotten-password")
        visitor.post("/forgotten-password", email="ann@acme.example")


def session_of(visitor: ConsoleVisitor) -> Iterator[str]:
    cookie = visitor.web.get_cookie("console", path="/console")
    assert cookie
    yield cookie.value


def call_in_error(web: FlaskClient, program: Program) -> None:
    """Calls that are refused, with secrets in paths, queries, headers and bodies."""
    for headers in (program.headers, {"x-api-key": _MARK, "x-api-secret": _MARK, "Authorization": f"Bearer {_MARK}"}):
        for path in (
            f"/{_MARK}", f"/api/transactions/{_MARK}?wait={_MARK}", f"/api/webhooks/{_MARK}", "/api/clients/login",
            f"/callbacks/mtn/{_MARK}", f"/ussd/africastalking/{_MARK}", f"/console/welcome/{_MARK}",
            "/api/transactions",
        ):  # fmt: skip
            body = {"pin": _MARK, _MARK * 20: _MARK, "password": _MARK, "metadata": {"otp": _MARK}}
            web.get(path, headers=_TRACE | headers)
            web.post(path, data=json.dumps(body), content_type="application/json", headers=_TRACE | headers)


def backup(settings: Settings, file: Path) -> str:
    """What the command of `docs/OPERATIONS.md` copies, with what is left of removed rows."""
    database = settings.database_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(file)) as copy:
        source.backup(copy)
    return file.read_bytes().decode("latin-1")
