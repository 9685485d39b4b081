"""The request log and the usage of keys, over HTTP: what is kept, what is hidden, and what costs a call nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.example_client import ExampleClient
from tests.support.money import deposit
from tests.support.shop import PHONE
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.database.unit_of_work import DATABASE_ERRORS, release_connection
from ussd_server.models.keys import ApiRequest, KeyUsage
from ussd_server.services.clients.keys.messages import ApiKeyView
from ussd_server.services.request_log import recorder
from ussd_server.values import kampala_day

NOON = datetime(2026, 11, 20, 9, tzinfo=UTC)
PAYMENT = {"type": "collection", "phone_number": PHONE, "amount": 5000, "reference": "R1"}


class Caller:
    """A program with a key, and a person who looks at its requests."""

    def __init__(self, services: Services, web: FlaskClient) -> None:
        self._services, self._web = services, web
        self.client = ExampleClient(services)
        self.key: ApiKeyView = self.client.create_key("transactions:*", "balance:read")
        self._person = self.client.browser(web)

    def call(self, method: str, path: str, body: Any = None, secret: str | None = None, **headers: str) -> Any:
        given = {"x-api-key": self.key.apikey, "x-api-secret": secret or self.key.apisecret, **headers}
        return self._web.open(path, method=method, json=body, headers=given)

    def logged(self, body: bytes) -> str:
        """What the log keeps of a refused body."""
        headers = {"x-api-key": self.key.apikey, "x-api-secret": self.key.apisecret, "X-Request-Id": "logged"}
        self._web.post("/api/transactions", data=body, content_type="application/json", headers=headers)
        kept: str = self.look("requests/logged")["body"]
        return kept

    def look(self, path: str) -> Any:
        self._services.runtime.request_recorder.write()
        reply = self._person.ask("GET", path)
        assert reply.status_code == 200, reply.json
        return reply.json["data"]

    def requests(self, query: str = "") -> list[dict[str, Any]]:
        """The requests of the key."""
        return [each for each in self.look(f"requests{query}")["items"] if each["key_id"] == self.key.id]


@pytest.fixture
def caller(services: Services, web: FlaskClient) -> Caller:
    return Caller(services, web)


def test_changes_and_refusals_are_in_the_log_and_reads_only_in_the_usage(caller: Caller, clock: MovableClock) -> None:
    made = caller.call("POST", "/api/transactions", PAYMENT, **{"X-Request-Id": "made"}).json["data"]
    caller.call("GET", "/api/balance")
    caller.call("GET", "/api/balance")
    caller.call("GET", "/api/webhooks", **{"X-Request-Id": "refused"})
    caller.call("POST", "/api/transactions", {**PAYMENT, "amount": -1}, **{"X-Request-Id": "bad"})
    found = caller.requests()
    assert [(each["request_id"], each["method"], each["path"], each["status"], each["code"]) for each in found] == [
        ("bad", "POST", "/api/transactions", 400, "INVALID_AMOUNT"),
        ("refused", "GET", "/api/webhooks", 403, "INSUFFICIENT_SCOPE"),
        ("made", "POST", "/api/transactions", 201, "OK"),
    ]
    assert found[2]["object_id"] == made["transaction_id"]
    assert found[2]["address"] == "127.0.0.1"
    usage = caller.look(f"api-keys/{caller.key.id}/usage?days=1")["items"]
    assert {(each["endpoint"], each["status"], each["code"]): each["count"] for each in usage} == {
        ("GET /api/balance", 200, "OK"): 2,
        ("GET /api/webhooks", 403, "INSUFFICIENT_SCOPE"): 1,
        ("POST /api/transactions", 201, "OK"): 1,
        ("POST /api/transactions", 400, "INVALID_AMOUNT"): 1,
    }
    assert {each["date"] for each in usage} == {kampala_day(clock.now())}


def test_requests_are_filtered_and_paged(caller: Caller) -> None:
    for number in range(3):
        caller.call("POST", "/api/transactions", {**PAYMENT, "reference": f"R{number}"})
    caller.call("GET", "/api/transactions/unknown")
    assert len(caller.requests("?status=404")) == 1
    assert len(caller.requests("?code=OK&path=/api/transactions")) == 3
    assert len(caller.requests("?path=/api/transactions/%7Btransaction_id%7D")) == 1
    assert caller.look(f"requests?key_id={caller.client.create_key().id}")["items"] == []
    assert caller.look("requests?key_id=unknown")["items"] == []
    first = caller.look(f"requests?key_id={caller.key.id}&limit=3")
    rest = caller.look(f"requests?key_id={caller.key.id}&limit=3&cursor={first['next_cursor']}")
    assert (len(first["items"]), len(rest["items"]), rest["next_cursor"]) == (3, 1, None)
    assert caller.look("requests?from=2999-01-01T00:00:00Z")["items"] == []


def test_a_refused_body_is_kept_with_stars_and_an_accepted_one_is_not(caller: Caller) -> None:
    body = {**PAYMENT, "amount": "x", "metadata": {"pin": 1234, "list": [{"Password": "hunter2"}]}}
    caller.call("POST", "/api/transactions", body, **{"X-Request-Id": "bad"})
    caller.call("POST", "/api/transactions", PAYMENT, **{"X-Request-Id": "good"})
    kept = orjson.loads(caller.look("requests/bad")["body"])
    assert kept["metadata"] == {"pin": "********", "list": "********"}
    assert kept["reference"] == "R1"
    assert caller.look("requests/good")["body"] is None


def test_an_address_is_kept_as_scheme_and_host_and_its_refusal_names_what_is_missing(caller: Caller) -> None:
    for address, kept in {
        "https://shop.example:8443/hook?key=1 2": "https://shop.example:8443",
        "https://user:pass word@shop.example/hook": "https://shop.example",
        "shop.example/hook": "********",
    }.items():
        assert orjson.loads(caller.logged(orjson.dumps(PAYMENT | {"callback_url": address})))["callback_url"] == kept
    refused = caller.call("POST", "/api/transactions", PAYMENT | {"callback_url": "shop.example/hook"})
    assert "https://" in refused.json["message"]


@pytest.mark.parametrize("body", [b"pin=1234", b"[1]", b'{"a": ', b'{"a": "' + b"x" * 60_000 + b'"', b"\xff\xfe"])
def test_of_what_is_no_json_object_nothing_is_kept(caller: Caller, body: bytes) -> None:
    assert caller.logged(body) == "***"


def test_a_long_body_is_cut_after_its_secrets_were_hidden(caller: Caller) -> None:
    long = PAYMENT | {"amount": "x", "description": f"{SECRET} {'x' * 9000}", "callback_url": f"https://{'a' * 9000}"}
    kept = caller.logged(orjson.dumps(long))
    assert len(kept) == 4096
    assert SECRET[:8] not in kept


SECRET = "ussdsk_" + "aB3" * 16 + "Z"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
REFRESH = "WyIwMWEyMTkwMi05OWU4LTc1ZmQtODA3My01MTIwMGM4NmFhZTAiLDBd.7KoMrK-ZG-Iuq187JYi7ZBzeVPtmRQRknWMqivqHIkY"
SESSION = ".eJwlzjEOwjAMAMC_ZGZw7MRO-pkqtmPBVKmJv4N4wd3nZ9v7PPJ-7vN.awhzGw.4RiNtg9Hxp1ao-wtjpoHKxKU9TllPGLFuag4yysEstI"
NAMES = (
    "mpin", "pin_code", "pinCode", "newPin", "otp", "passcode", "api_key", "api-secret", "x-api-key", "accessToken",
    "secretKey", "card_number", "cvv", "pin ", "PIN", "password", "passwd", "pwd", "secret", "token", "authorization",
    "Authorization", "bearer", "credentials", "private_key", "client_secret", "refreshToken", "sessionToken",
    "user_pin", "oldPin", "mobileMoneyPin", "securityCode", "cvc", "pan", "iban", "ussd_text", "entry",
)  # fmt: skip
ODD = (
    "4711",
    4711,
    ["4711"],
    {"name": "pin", "value": "4711"},
    [{"name": "pin", "value": 4711}],
    {"a": [{"b": "4711"}]},
)
LOOKS = (
    SECRET,
    f"whsec_{'aB3+' * 8}",
    TOKEN,
    REFRESH,
    SESSION,
    f"Bearer {SECRET}",
    "Bearer abcdef123456789",
    "4111 1111 1111 1111",
    "5500-0000-0000-0004",
    "378282246310005",
    "4111\u00a01111\u00a01111\u00a01111",
    "٤١١١١١١١١١١١١١١١",
    "Basic dXNlcjpodW50ZXIy",
)
FIELDS = (
    "phone_number",
    "reference",
    "description",
    "callback_url",
    "currency",
    "type",
    "provider",
    "account",
    "amount",
)


def planted() -> list[tuple[str, dict[str, Any]]]:
    """Secrets with the bodies that hold them, and the part of each that no log may show."""
    bodies = [("4711", {name: "4711"}) for name in NAMES]
    bodies += [("4711", {"metadata": {name: value}}) for name in ("pin", "note", "a") for value in ODD]
    bodies += [("4711", {name: value}) for name in ("reference", "description", "metadata") for value in ODD[1:]]
    bodies += [(look.split()[-1][-12:], {name: look}) for name in FIELDS for look in LOOKS]
    bodies += [(look.split()[-1][-12:], {look: "x"}) for look in LOOKS]
    bodies += [
        ("hunter2", {"callback_url": "https://user:hunter2@example.com/hook"}),
        ("hunter2", {"callback_url": "user:hunter2@example.com/hook?token=hunter2"}),
        ("hunter2", {"callback_url": "//user:hunter2@example.com/hook?token=hunter2"}),
        ("hunter2", {"callback_url": "https//hunter2.example.com/hook?token=hunter2"}),
        ("hunter2", {"callback_url": "https://example.com/hook/hunter2?token=hunter2#hunter2"}),
        ("hunter2", {"x" * 50 + "hunter2": 1}),
        ("4711", {"amount": "4711" * 6}),
        ("4711", {"amount": int("4711" * 6)}),
        ("4711", {"description": int("4711" * 6)}),
    ]
    return bodies


def test_none_of_the_secrets_that_are_planted_into_bodies_stands_in_the_log_or_in_a_message(caller: Caller) -> None:
    assert len(planted()) >= 103
    for number, (secret, fields) in enumerate(planted()):
        if number % 40 == 0:
            # A key may call a hundred times a minute.
            caller.key = caller.client.create_key("transactions:*")
        # Both a body that is refused for itself and one that is refused for another field.
        for more in ({}, {"unknown": 1}):
            body = {**PAYMENT, "reference": f"R{number}", **fields, **more}
            request_id = f"planted-{number}-{len(more)}"
            reply = caller.call("POST", "/api/transactions", body, **{"X-Request-Id": request_id})
            assert reply.status_code in (201, 400), reply.json
            assert secret not in reply.text or reply.status_code == 201, fields
            if reply.status_code >= 400:
                assert secret not in orjson.dumps(caller.look(f"requests/{request_id}")).decode(), fields


@pytest.mark.parametrize("address", ["amqp://u:hunter2@example.com/x", "https://example.com/hunter2"])
def test_of_an_address_in_a_refusal_the_log_keeps_scheme_and_host(caller: Caller, address: str) -> None:
    path = f"/api/events?type={quote(f'{address} ussd://u:hunter2h')}"
    caller.key = caller.client.create_key("webhooks:read")
    assert caller.call("GET", path, **{"X-Request-Id": "address"}).status_code == 400
    message = caller.look("requests/address")["message"]
    assert "://example.com ussd://u" in message
    assert "hun" not in message


def test_a_wrong_secret_is_in_the_log_of_its_client_and_an_unknown_key_in_none(caller: Caller) -> None:
    caller.call("GET", "/api/balance", secret="wrong-secret-of-forty-characters-or-so-0")
    caller.call("GET", "/api/balance", **{"x-api-key": "unknown00"})
    assert [each["code"] for each in caller.requests()] == ["INVALID_CREDENTIALS"]


@pytest.mark.both_databases
def test_one_path_that_needs_two_scopes_is_counted_with_both_and_the_log_goes_on(
    caller: Caller, services: Services
) -> None:
    deposit(services, operator_context(caller.client.id), 50_000)
    for turn in range(2):
        for kind in ("collection", "disbursement"):
            order = {**PAYMENT, "type": kind, "reference": f"{kind}-{turn}"}
            caller.call("POST", "/api/transactions", order, **{"X-Request-Id": f"{kind}-{turn}"})
        services.runtime.request_recorder.write()
    record = caller.look(f"api-keys/{caller.key.id}")
    assert record["used_scopes"] == ["transactions:send", "transactions:write"]
    (use,) = caller.look(f"api-keys/{caller.key.id}/usage")["items"]
    assert (use["endpoint"], use["status"], use["count"]) == ("POST /api/transactions", 201, 4)
    assert caller.look("requests/disbursement-1")["status"] == 201


def test_the_record_of_a_key_shows_the_scopes_that_its_calls_needed(caller: Caller, clock: MovableClock) -> None:
    record = caller.look(f"api-keys/{caller.key.id}")
    assert (record["used_scopes"], record["suggested_scopes"]) == ([], None)
    caller.call("GET", "/api/balance")
    caller.call("POST", "/api/transactions", PAYMENT)
    caller.call("GET", "/api/webhooks")
    record = caller.look(f"api-keys/{caller.key.id}")
    assert record["used_scopes"] == ["balance:read", "transactions:write"]
    assert record["suggested_scopes"] == "balance:read transactions:write"
    KeyUsage.update(day="2020-01-01").execute()
    assert caller.look(f"api-keys/{caller.key.id}")["suggested_scopes"] is None


def test_requests_that_cannot_be_written_are_kept_within_a_bound(
    caller: Caller, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DATABASE_ERRORS[0]

    monkeypatch.setattr(recorder, "_MOST_WAITING", 2)
    write = recorder.insert_rows
    monkeypatch.setattr(recorder, "insert_rows", away)
    for number in range(3):
        caller.call("POST", "/api/transactions", {**PAYMENT, "reference": f"R{number}"})
        services.runtime.request_recorder.write()
    assert ApiRequest.select().count() == 0
    monkeypatch.setattr(recorder, "insert_rows", write)
    assert len(caller.requests()) == 2
    usage = caller.look(f"api-keys/{caller.key.id}/usage")["items"]
    assert [each["count"] for each in usage] == [3]


def test_usage_of_many_rows_is_written_less_often_and_at_the_end(
    caller: Caller, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_FEW_USES", 1)
    usages = services.runtime.request_recorder
    caller.call("GET", "/api/balance")
    usages.write_soon()
    assert KeyUsage.select().count() == 1
    caller.call("POST", "/api/transactions", PAYMENT)
    caller.call("GET", "/api/balance")
    usages.write_soon()
    assert (ApiRequest.select().count(), KeyUsage.select().count()) == (1, 1)
    usages.close()
    assert sorted(use.count for use in KeyUsage.select()) == [1, 2]


@pytest.mark.both_databases
def test_calls_of_many_threads_are_counted_exactly(caller: Caller, services: Services) -> None:
    recorder = services.runtime.request_recorder

    def call(_: int) -> None:
        for number in range(300):
            recorder.count(caller.key.id, NOON, "GET /api/balance", 200, "OK", "balance:read", "192.0.2.1")
            if number % 100 == 0:
                recorder.write()
        release_connection()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, range(4)))
    recorder.write()
    assert KeyUsage.get(KeyUsage.key_id == caller.key.id).count == 1200
