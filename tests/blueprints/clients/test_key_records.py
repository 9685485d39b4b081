"""The whole record of a key: shown, changed without a new secret, and bound to addresses."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.support.example_client import Browser, ExampleClient, answer
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent
from ussd_server.models.keys import ApiKey

KEYS = "api-keys"
UPDATED = (200, "API Key updated successfully")
ADDED = ["name", "created_by", "allowed_addresses", "daily_limit", "last_used_address"]


@pytest.fixture
def record(owner: Browser) -> dict[str, Any]:
    made: dict[str, Any] = owner.ask("POST", KEYS, {"name": "Till 4", "daily_limit": 50000.5}).json["data"]
    return made


def call(web: FlaskClient, key: dict[str, Any], address: str = "192.0.2.1") -> tuple[int, str, str]:
    headers = {"x-api-key": key["apikey"], "x-api-secret": key["apisecret"]}
    reply = web.get("/api/balance", headers=headers, environ_base={"REMOTE_ADDR": address})
    return reply.status_code, reply.json.get("error", ""), reply.json["message"]


def test_a_key_is_shown_with_its_ten_fields_and_all_others(owner: Browser, record: dict[str, Any]) -> None:
    reply = owner.ask("GET", f"{KEYS}/{record['id']}")
    assert answer(reply) == (200, "API Key")
    shown = reply.json["data"]
    assert list(shown)[: len(record) + len(ADDED)] == [*record, *ADDED]
    assert {name: shown[name] for name in record} == record
    assert [shown[name] for name in ADDED] == ["Till 4", "owner@acme.example", None, 50000.5, None]


def test_a_change_keeps_what_it_leaves_out_and_null_ends_a_bound(owner: Browser, record: dict[str, Any]) -> None:
    path = f"{KEYS}/{record['id']}"
    reply = owner.ask("PATCH", path, {"allowed_addresses": ["192.0.2.7", "2001:DB8::/32", "192.0.2.7/32"]})
    assert answer(reply) == UPDATED
    changed = reply.json["data"]
    assert (changed["name"], changed["allowed_addresses"]) == ("Till 4", ["192.0.2.7", "2001:db8::/32"])
    assert changed["apisecret"] == record["apisecret"]
    body = {"name": None, "scopes": ["balance:read"], "daily_limit": None, "allowed_addresses": None}
    changed = owner.ask("PATCH", path, body).json["data"]
    assert [changed[name] for name in body] == [None, "balance:read", None, None]
    assert owner.ask("PATCH", path, {"expires_at": "2099-01-01T00:00:00Z"}).json["data"]["expires_at"]
    assert owner.ask("GET", path).json["data"] == owner.ask("PATCH", path, {}).json["data"]
    lines = AuditEvent.select().where(AuditEvent.action == "api_key.updated").order_by(AuditEvent.id)
    assert [line.reason for line in lines] == [
        "allowed_addresses",
        "name, scopes, allowed_addresses, daily_limit",
        "expires_at",
    ]


def test_a_client_disables_its_key_and_only_the_operator_enables_it(
    owner: Browser, web: FlaskClient, record: dict[str, Any]
) -> None:
    path = f"{KEYS}/{record['id']}"
    assert owner.ask("PATCH", path, {"is_active": 0}).json["data"]["is_active"] == 0
    assert call(web, record)[:2] == (403, "API_KEY_DISABLED")
    for value in (1, True, False, None, "0"):
        reply = owner.ask("PATCH", path, {"is_active": value})
        assert reply.json["message"].startswith("Invalid request body: is_active: ")
    assert AuditEvent.select().where(AuditEvent.action == "api_key.disabled").count() == 1


def test_a_developer_changes_no_key_that_approves_payouts_or_sends_money(
    owner: Browser, example_client: ExampleClient, web: FlaskClient, record: dict[str, Any]
) -> None:
    developer = example_client.browser(web, "developer")
    approving = owner.ask("POST", KEYS, {"scopes": "payouts:* balance:read"}).json["data"]["id"]
    for key_id in (approving, record["id"]):
        for body in ({"name": "mine"}, {"scopes": "balance:read"}, {"is_active": 0}):
            assert answer(developer.ask("PATCH", f"{KEYS}/{key_id}", body)) == (403, "Insufficient permissions")
        assert developer.ask("GET", f"{KEYS}/{key_id}").json["data"]["apisecret"] == "********"
    plain = developer.ask("POST", KEYS, {"scopes": "ussd:*"}).json["data"]["id"]
    granted = developer.ask("PATCH", f"{KEYS}/{plain}", {"scopes": "payouts:approve"})
    assert answer(granted) == (403, "Insufficient permissions")
    assert answer(developer.ask("PATCH", f"{KEYS}/{plain}", {"name": "mine"})) == UPDATED


def test_a_secret_that_developers_could_read_never_gains_approval(owner: Browser, record: dict[str, Any]) -> None:
    for scopes in ("payouts:approve", "balance:read payouts:*"):
        reply = owner.ask("PATCH", f"{KEYS}/{record['id']}", {"scopes": scopes})
        assert reply.status_code == 400
        assert "Only a new key can get payouts:approve" in reply.json["message"]
    assert owner.ask("GET", f"{KEYS}/{record['id']}").json["data"]["scopes"] is None


def test_a_key_is_used_from_allowed_addresses_only_and_a_refusal_counts(
    owner: Browser, web: FlaskClient, services: Services, record: dict[str, Any]
) -> None:
    allowed = ["198.51.100.0/24", "2001:db8::/32", "::ffff:203.0.113.0/120"]
    owner.ask("PATCH", f"{KEYS}/{record['id']}", {"allowed_addresses": allowed})
    for address in ("198.51.100.9", "2001:db8:5::1", "203.0.113.4", "::ffff:198.51.100.9"):
        assert call(web, record, address)[0] == 200
    refused = (403, "ADDRESS_NOT_ALLOWED", "The API key may not be used from the address 192.0.2.1")
    assert call(web, record) == refused
    wrong = call(web, record | {"apisecret": "wrong"})
    assert wrong[:2] == (401, "INVALID_CREDENTIALS"), "a stranger does not learn which keys exist"
    (minute, _) = services.limiter.peek("api-key", record["id"]).windows
    assert minute.remaining == minute.limit - 5
    services.runtime.request_recorder.write()
    assert owner.ask("GET", f"{KEYS}/{record['id']}").json["data"]["last_used_address"] == "::ffff:198.51.100.9"
    services.runtime.last_uses.write()
    assert ApiKey.get_by_id(record["id"]).last_used_address == "::ffff:198.51.100.9"


def test_a_right_secret_shows_the_limits_also_where_the_key_is_refused(
    owner: Browser, web: FlaskClient, record: dict[str, Any]
) -> None:
    headers = {"x-api-key": record["apikey"], "x-api-secret": record["apisecret"]}
    for bound, remaining in (({"allowed_addresses": ["198.51.100.9"]}, "99"), ({"is_active": 0}, "99")):
        owner.ask("PATCH", f"{KEYS}/{record['id']}", bound)
        reply = web.get("/api/balance", headers=headers)
        assert (reply.status_code, reply.headers["X-RateLimit-Remaining"]) == (403, remaining)
        assert reply.headers["RateLimit"].startswith('"minute";r=99;')
        wrong = web.get("/api/balance", headers={**headers, "x-api-secret": "wrong"})
        assert (wrong.status_code, "RateLimit" in wrong.headers) == (401, False)


def test_a_refused_call_names_the_scope_that_it_lacked(
    owner: Browser, web: FlaskClient, record: dict[str, Any]
) -> None:
    owner.ask("PATCH", f"{KEYS}/{record['id']}", {"scopes": "ussd:*"})
    lacking = "The API key does not have the scope balance:read, which this request needs"
    assert call(web, record) == (403, "INSUFFICIENT_SCOPE", lacking)


def test_a_key_learns_what_it_may_do_and_what_is_left(owner: Browser, web: FlaskClient, record: dict[str, Any]) -> None:
    owner.ask("PATCH", f"{KEYS}/{record['id']}", {"scopes": "ussd:read", "expires_at": "2099-01-01T00:00:00Z"})
    headers = {"x-api-key": record["apikey"], "x-api-secret": record["apisecret"]}
    reply = web.get("/api/key", headers=headers)
    assert reply.status_code == 200
    own = reply.json["data"]
    limits = own.pop("limits")
    assert own == {
        "key_id": record["id"],
        "name": "Till 4",
        "scopes": "ussd:read",
        "expires_at": "2099-01-01T00:00:00.000Z",
        "daily_limit": 50000.5,
        "daily_remaining": 50000.5,
    }
    assert {name: (each["limit"], each["remaining"]) for name, each in limits.items()} == {
        "minute": (100, 99),
        "hour": (1000, 999),
    }
    assert 0 < limits["minute"]["reset"] <= 60
    assert web.get("/api/key").json["error"] == "INVALID_CREDENTIALS"
