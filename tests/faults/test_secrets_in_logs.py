"""Secrets planted wherever a stranger, a client or an operator can put one are in no log and in no error."""

from __future__ import annotations

import base64
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import psycopg
import pytest

from testbed.ports import free_port
from testbed.postgres import PostgresServer, temporary_server
from tests.support.eventually import eventually
from tests.support.real_service.deployment import Installed, install
from tests.support.real_service.edge import HOST
from tests.support.stand_ins import mtn_settings, start_mtn

pytestmark = [pytest.mark.needs_nginx, pytest.mark.slow, pytest.mark.timeout(300)]

_MARK = "Zq7x"


class Planter:
    """Makes secrets that can be recognised anywhere, and keeps the replies that might repeat them."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self.number = 0

    def secret(self) -> str:
        """A fresh secret."""
        return f"{_MARK}{next(self._numbers):04d}{os.urandom(6).hex()}"

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """Call with secrets in every header that people or programs put some into."""
        everywhere = {
            "Cookie": f"session={self.secret()}",
            "User-Agent": self.secret(),
            "Referer": f"https://{self.secret()}.example/{self.secret()}",
            "X-Request-Id": f"not an id {self.secret()}",
            "X-Forwarded-For": self.secret(),
            "Idempotency-Key": self.secret(),
            f"X-{self.secret()}": self.secret(),
            "Authorization": f"Bearer {self.secret()}",
            **(headers or {}),
        }
        status, _, answer = self._installed.call(method, path, body, everywhere)
        self.number += 1
        if status >= 500:
            self.errors.append(str(answer))
        return answer

    def send(self, raw: bytes) -> None:
        """Send what need not be HTTP, to nginx and to the service behind it."""
        with self._installed.deployment.connect() as connection:
            connection.sendall(raw)
            connection.recv(65536)


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    """A database of this file's own, to be stopped and broken."""
    with temporary_server() as server:
        yield server


@pytest.fixture(scope="module")
def providers() -> Iterator[dict[str, str]]:
    """An MTN that answers and an Airtel that does not, whose settings are secrets."""
    key = f"{_MARK}key"
    mtn = start_mtn("--api-key", key)
    known = mtn_settings(mtn.base_url)
    airtel = {"CLIENT_ID": f"{_MARK}client", "CLIENT_SECRET": f"{_MARK}secret", "PIN": f"{_MARK}pin"}
    yield {
        **{name: key if name.endswith("API_KEY") else value for name, value in known.items()},
        "USSD_AIRTEL_BASE_URL": f"http://127.0.0.1:{free_port()}/{_MARK}",
        **{f"USSD_AIRTEL_{name}": value for name, value in airtel.items()},
    }
    mtn.stop()


def test_no_planted_secret_is_in_any_log_or_error(
    tmp_path: Path, database: PostgresServer, providers: dict[str, str]
) -> None:
    password = f"{_MARK}password"
    url = database.url.replace("postgres@", f"postgres:{password}@")
    with install(tmp_path, url, USSD_LOG_LEVEL="DEBUG", USSD_ALLOW_PRIVATE_ADDRESSES="1", **providers) as installed:
        planter = Planter(installed)
        kept = own_secrets(installed, planter)
        plant_everywhere(planter, installed)
        eventually(lambda: {"mtn", "airtel"} <= providers_called(installed))
        with psycopg.connect(database.url, autocommit=True) as hand:
            hand.execute("ALTER TABLE transactions RENAME COLUMN description TO nobody")
            plant_everywhere(planter, installed)
            hand.execute("ALTER TABLE transactions RENAME COLUMN nobody TO description")
        database.stop()
        plant_everywhere(planter, installed)
        written = installed.deployment.written()
        lines = installed.deployment.lines()

    # The logs contain the expected lines, and the faults did happen.
    assert sum(line["event"] == "call" for line in lines) > planter.number // 2
    assert "by a mistake of ours" in written
    assert "the database is away" in written
    assert len(planter.errors) > 20
    for said in (written, unquote(written), *planter.errors):
        assert _MARK not in said
        assert _MARK.lower() not in said
        for secret in kept:
            assert secret not in said


def providers_called(installed: Installed) -> set[str]:
    """The providers that the worker has called, according to its log."""
    return {line["provider"] for line in installed.deployment.lines() if "provider" in line}


def own_secrets(installed: Installed, planter: Planter) -> list[str]:
    """Every secret that the service itself keeps or gave away."""
    login = installed.call("POST", "/api/clients/login", installed.login)[2]["data"]
    webhook = {"url": f"http://127.0.0.1:{free_port()}/{planter.secret()}?token={planter.secret()}"}
    signing = installed.call("POST", "/api/webhooks", webhook, installed.key)[2]["data"]["secret"]
    services = json.loads(Path(installed.deployment.environment["USSD_SECRETS_FILE"]).read_text())
    found = [
        installed.login["password"],
        *installed.key.values(),
        login["access_token"],
        login["refresh_token"],
        signing,
        signing.removeprefix("whsec_"),
        installed.gateway_path.rpartition("/")[2],
        *texts(services),
    ]
    return [secret for secret in found if len(secret) >= 12]


def texts(document: Any) -> Iterator[str]:
    """Every text in a JSON document."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        yield from (text for value in document.values() for text in texts(value))
    elif isinstance(document, list):
        yield from (text for value in document for text in texts(value))


def plant_everywhere(planter: Planter, installed: Installed) -> None:
    """Put a fresh secret into every place there is: paths, queries, bodies, headers, entries, what is not HTTP."""
    secret = planter.secret
    basic = base64.b64encode(f"{secret()}:{secret()}".encode()).decode()
    for method, path in (
        ("GET", f"/{secret()}"),
        ("GET", f"/api/clients/{secret()}?{secret()}={secret()}"),
        ("GET", f"/api/transactions/{secret()}?wait={secret()}"),
        ("GET", f"/api/transactions?phone_number={secret()}&{secret()}=1"),
        ("GET", f"/api/ussd/sessions/{secret()}"),
        ("DELETE", f"/api/webhooks/{secret()}"),
        ("PUT", f"/api/ussd/codes/{secret()}"),
        ("GET", f"/ussd/africastalking/{secret()}?text={secret()}"),
        ("POST", f"/ussd/{secret()}/{secret()}"),
        ("POST", f"/ussd/hubtel/{secret()}/events"),
        ("PUT", f"/callbacks/mtn/{secret()}"),
        ("POST", f"/callbacks/{secret()}/{secret()}"),
        ("GET", f"/metrics?{secret()}"),
        (secret().upper(), f"/{quote(secret())}"),
        ("TRACE", f"/{secret()}"),
    ):
        planter.call(method, path, {secret(): secret()} if method != "GET" else None)
        planter.call(method, path, headers=installed.key)
    for path, body in (
        ("/api/clients/login", {"email": f"{secret()}@x.example", "password": secret()}),
        ("/api/clients/login", {"email": installed.login["email"], "password": secret(), secret(): secret()}),
        ("/api/clients/token/refresh", {"refresh_token": secret()}),
        ("/api/transactions", payment(secret)),
        ("/api/transactions", payment(secret) | {"phone_number": "+256772123456"}),
        ("/api/transactions", payment(secret) | {"phone_number": "+256752123456"}),
        ("/api/transactions", payment(secret) | {"amount": secret()}),
        ("/api/transactions", payment(secret) | {secret(): 1}),
        ("/api/webhooks", {"url": f"https://{secret()}:{secret()}@x.example/{secret()}", "types": [secret()]}),
        ("/api/ussd/sessions", {"phone_number": "+256770000000", "service_code": secret(), "text": secret()}),
        ("/api/ussd/menus/shop/check", {secret(): secret()}),
    ):
        planter.call("POST", path, body, installed.key)
        planter.call("POST", path, json.dumps(body)[:-1].encode(), installed.key)
        planter.call("POST", path, body, {"x-api-key": secret(), "x-api-secret": secret()})
        planter.call("POST", path, body, {**installed.key, "x-api-secret": secret()})
        planter.call("POST", path, body, {"Authorization": f"Basic {basic}"})
        planter.call("POST", path, body, {"Content-Type": f"text/{secret()}", **installed.key})
    enter_pins(planter, installed)
    for raw in (
        f"{secret()} / {secret()}\r\n\r\n",
        f"GET /{secret()} HTTP/9.9\r\nHost: {secret()}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {HOST}\r\n{secret()}\r\n\r\n",
        f"GET /{secret()}{'x' * 9000} HTTP/1.1\r\nHost: {HOST}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {HOST}\r\nX-Secret: {secret()}{'x' * 9000}\r\n\r\n",
        f"POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: {secret()}\r\n\r\n",
    ):
        planter.send(raw.encode())


def payment(secret: Any) -> dict[str, Any]:
    """A collection with a secret in every free text."""
    return {
        "type": "collection",
        "phone_number": "+256770000000",
        "amount": 700,
        "reference": secret(),
        "description": secret(),
        "metadata": {secret(): secret()},
        "callback_url": f"http://127.0.0.1:{free_port()}/{secret()}?token={secret()}",
    }


def enter_pins(planter: Planter, installed: Installed) -> None:
    """Type secrets on a phone and over the API, into entries that are secret and into others."""
    session = planter.secret()
    for text in ("", "4", f"4*{_MARK}", f"4*{_MARK}*{planter.secret()}", planter.secret()):
        installed.dial(session, text)
    form = f"sessionId={planter.secret()}&phoneNumber={planter.secret()}&{planter.secret()}".encode()
    planter.call("POST", installed.gateway_path, form, {"Content-Type": "application/x-www-form-urlencoded"})
    begun = planter.call(
        "POST", "/api/ussd/sessions", {"phone_number": "+256770000001", "service_code": "*384*123#"}, installed.key
    )
    number = (begun.get("data") or {}).get("session_id", "none")
    for text in ("4", _MARK, planter.secret()):
        planter.call("POST", f"/api/ussd/sessions/{number}/input", {"text": text}, installed.key)
