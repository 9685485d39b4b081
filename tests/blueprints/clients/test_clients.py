"""Key management to the letter: paths, messages, envelopes, and the order of checks."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime

import pyotp
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.support.example_client import PASSWORD, Browser, ExampleClient, answer
from ussd_server.bootstrap import Services
from ussd_server.models.keys import ApiKey
from ussd_server.values import iso_milliseconds

KEYS = "api-keys"
RECORD = [
    "id", "client_id", "apikey", "apisecret", "scopes", "is_active", "created_at", "updated_at", "expires_at",
    "last_used_at",
]  # fmt: skip
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_a_login_gives_tokens_that_open_the_list(web: FlaskClient, example_client: ExampleClient) -> None:
    reply = web.post("/api/clients/login", json={"email": example_client.email().upper(), "password": PASSWORD})
    assert answer(reply) == (200, "Login successful")
    data = reply.json["data"]
    assert list(data) == [
        "access_token", "token_type", "expires_in", "refresh_token", "refresh_expires_in", "client_id", "permissions",
    ]  # fmt: skip
    assert (data["token_type"], data["expires_in"], data["client_id"]) == ("Bearer", 900, example_client.id)
    assert data["permissions"] == [
        "api_keys:create", "api_keys:delete", "api_keys:list", "api_keys:rotate", "audit_events:read",
        "payouts:approve", "payouts:read", "payouts:write", "service_identifier:read",
        "settings:read", "settings:write",
    ]  # fmt: skip
    listed = web.get("/api/clients/api-keys", headers={"Authorization": f"Bearer {data['access_token']}"})
    assert (answer(listed), listed.json["data"]) == ((200, "API keys list"), [])


def test_a_login_with_a_second_factor_takes_a_code(
    web: FlaskClient, services: Services, example_client: ExampleClient, clock: MovableClock
) -> None:
    call = example_client.call()
    secret = services.second_factors.prepare(call).secret
    codes = services.second_factors.add(secret, pyotp.TOTP(secret).at(clock.now()), call)

    def log_in(password: str = PASSWORD, **more: object) -> tuple[int, str]:
        body = {"email": example_client.email(), "password": password} | more
        return answer(web.post("/api/clients/login", json=body))

    for without in ({}, {"code": None}, {"code": ""}):
        assert log_in(**without) == (401, "Second factor required")
    assert log_in("wrong password 1") == log_in("wrong password 1", code=codes[0]) == (401, "Invalid credentials")
    assert log_in(code="x") == (401, "Invalid credentials")
    for malformed in (492039, ["492039"], "4" * 65, "4\0"):
        assert log_in(code=malformed) == (400, "Invalid request body")
    clock.advance(30)
    code = pyotp.TOTP(secret).at(clock.now())
    assert log_in(code=code) == (200, "Login successful")
    assert log_in(code=code) == (401, "Invalid credentials")
    assert log_in(code=codes[0]) == (200, "Login successful")


def test_a_key_is_created_and_listed_as_the_document_has_it(owner: Browser, example_client: ExampleClient) -> None:
    made = owner.ask(
        "POST", KEYS, {"scopes": ["ussd:*", "balance:read", "ussd:*"], "expires_at": "2099-01-01T00:00:00+03:00"}
    )
    assert answer(made) == (201, "API Key created successfully")
    record = made.json["data"]
    assert list(record) == RECORD
    assert made.headers["Location"] == f"/api/clients/api-keys/{record['id']}"
    assert record["client_id"] == example_client.id
    assert record["apikey"].isalnum()
    assert re.fullmatch(r"ussdsk_[0-9A-Za-z]{49}", record["apisecret"])
    assert (record["scopes"], record["is_active"]) == ("ussd:* balance:read", 1)
    assert record["expires_at"] == "2098-12-31T21:00:00.000Z"
    assert record["last_used_at"] is None
    assert MOMENT.fullmatch(record["created_at"])
    assert MOMENT.fullmatch(record["updated_at"])
    assert owner.ask("GET", KEYS).json["data"] == [record]


def test_a_deletion_is_answered_as_the_document_has_it(owner: Browser) -> None:
    key_id = owner.ask("POST", KEYS).json["data"]["id"]
    reply = owner.ask("DELETE", f"{KEYS}/{key_id}")
    assert answer(reply) == (200, "API Key deleted successfully")
    assert list(reply.json["data"]) == ["deleted_id", "deleted_at"]
    assert reply.json["data"]["deleted_id"] == key_id
    assert MOMENT.fullmatch(reply.json["data"]["deleted_at"])
    assert answer(owner.ask("DELETE", f"{KEYS}/{key_id}")) == (404, "API Key not found")
    assert owner.ask("GET", KEYS).json["data"] == []


def test_a_list_is_written_as_its_rows_stand_byte_for_byte(owner: Browser, example_client: ExampleClient) -> None:
    secrets = [owner.ask("POST", KEYS).json["data"]["apisecret"] for _ in range(3)]
    rows = list(ApiKey.select().order_by(ApiKey.id))
    for number, row in enumerate(rows):
        row.created_at = datetime(2025, 3, 1, 0, 0, number, 1000 * number, UTC)
        row.expires_at = datetime(2099, 12, 31, 23, 59, 59, 999000, UTC) if number else None
        row.last_used_at = row.created_at if number == 1 else None
        row.scopes = "balance:read" if number else None
        row.is_active = number != 1
        row.save()
    written = [
        {
            "id": row.id,
            "client_id": example_client.id,
            "apikey": row.apikey,
            "apisecret": secret,
            "scopes": row.scopes,
            "is_active": int(row.is_active),
            **{
                name: moment and iso_milliseconds(moment)
                for name in ("created_at", "updated_at", "expires_at", "last_used_at")
                for moment in [getattr(row, name)]
            },
        }
        for row, secret in zip(rows, secrets, strict=True)
    ]
    envelope = {"status": 200, "message": "API keys list", "data": written}
    assert owner.ask("GET", KEYS).text == json.dumps(envelope, separators=(",", ":"))


def test_rotating_gives_a_new_secret_and_says_until_when_the_old_one_is_good(
    owner: Browser, clock: MovableClock
) -> None:
    record = owner.ask("POST", KEYS).json["data"]
    clock.advance(1)
    reply = owner.ask("POST", f"{KEYS}/{record['id']}/rotate", {"grace_period_seconds": 60})
    assert answer(reply) == (200, "API Key rotated successfully")
    rotated = reply.json["data"]
    assert list(rotated) == [*RECORD, "previous_secret_expires_at"]
    assert rotated["apisecret"] != record["apisecret"]
    assert rotated["updated_at"] > record["updated_at"]
    changed = ("apisecret", "updated_at", "previous_secret_expires_at")
    assert {name: rotated[name] for name in RECORD if name not in changed} == {
        name: record[name] for name in RECORD if name not in changed
    }
    assert MOMENT.fullmatch(rotated["previous_secret_expires_at"])
    del rotated["previous_secret_expires_at"]
    assert owner.ask("GET", KEYS).json["data"] == [rotated]
    assert answer(owner.ask("POST", f"{KEYS}/{record['id']}/rotate")) == (200, "API Key rotated successfully")


@pytest.mark.parametrize(("method", "path"), [("DELETE", f"{KEYS}/bulk"), ("POST", f"{KEYS}/bulk-delete")])
def test_bulk_deletion_folds_duplicates_and_reports_what_it_did_not_find(
    method: str, path: str, owner: Browser
) -> None:
    first, second = (owner.ask("POST", KEYS).json["data"]["id"] for _ in range(2))
    unknown = str(uuid.uuid4())
    reply = owner.ask(method, path, {"api_key_ids": [second, unknown, first, second]})
    assert answer(reply) == (200, "2 of 3 API Keys deleted")
    data = reply.json["data"]
    assert list(data) == ["deleted", "failed", "requested", "deleted_count", "failed_count"]
    assert [result["deleted_id"] for result in data["deleted"]] == [second, first]
    assert all(MOMENT.fullmatch(result["deleted_at"]) for result in data["deleted"])
    assert data["failed"] == [{"id": unknown, "status": 404, "message": "API Key not found"}]
    assert (data["requested"], data["deleted_count"], data["failed_count"]) == (3, 2, 1)
    nothing = owner.ask(method, path, {"api_key_ids": [first]})
    assert answer(nothing) == (200, "0 of 1 API Keys deleted")


def test_a_bulk_deletion_that_finds_all_says_so(owner: Browser) -> None:
    ids = [owner.ask("POST", KEYS).json["data"]["id"] for _ in range(3)]
    reply = owner.ask("DELETE", f"{KEYS}/bulk", {"api_key_ids": ids, "atomic": True})
    assert answer(reply) == (200, "API Keys deleted successfully")
    assert reply.json["data"]["failed"] == []


def test_an_atomic_bulk_deletion_that_misses_one_deletes_none(owner: Browser) -> None:
    key_id = owner.ask("POST", KEYS).json["data"]["id"]
    reply = owner.ask("DELETE", f"{KEYS}/bulk", {"api_key_ids": [key_id, str(uuid.uuid4())], "atomic": True})
    assert answer(reply) == (404, "API Key not found")
    assert [key["id"] for key in owner.ask("GET", KEYS).json["data"]] == [key_id]


def test_one_malformed_id_refuses_the_whole_bulk_deletion(owner: Browser) -> None:
    key_id = owner.ask("POST", KEYS).json["data"]["id"]
    reply = owner.ask("DELETE", f"{KEYS}/bulk", {"api_key_ids": [key_id, key_id.upper()]})
    assert answer(reply) == (400, "Invalid API key ID format")
    assert len(owner.ask("GET", KEYS).json["data"]) == 1


def test_the_service_identifier_names_the_client(owner: Browser, example_client: ExampleClient) -> None:
    reply = owner.ask("GET", "service-identifier")
    assert answer(reply) == (200, "Service identifier")
    assert list(reply.json["data"]) == ["service_identifier", "client_id", "issued_at"]
    assert reply.json["data"]["client_id"] == example_client.id


def test_the_audit_trail_is_read_page_by_page_newest_first(owner: Browser, clock: MovableClock) -> None:
    for _ in range(3):
        clock.advance(1)
        owner.ask("POST", KEYS)
    first = owner.ask("GET", "audit-events?limit=2")
    assert answer(first)[0] == 200
    assert list(first.json["data"]) == ["items", "next_cursor"]
    assert list(first.json["data"]["items"][0]) == [
        "id", "action", "actor", "user_id", "email", "object_id", "address", "request_id", "created_at",
        "key_id", "amount", "phone_number", "reason", "decided_by",
    ]  # fmt: skip
    second = owner.ask("GET", f"audit-events?limit=2&cursor={first.json['data']['next_cursor']}")
    read = first.json["data"]["items"] + second.json["data"]["items"]
    whole = owner.ask("GET", "audit-events").json["data"]
    assert read == whole["items"][:4]
    assert whole["next_cursor"] is None
    assert [event["action"] for event in read] == [*["api_key.created"] * 3, "login.succeeded"]
    assert read[0]["email"] == "owner@acme.example"


def test_after_logging_out_the_token_is_no_longer_good(
    owner: Browser, example_client: ExampleClient, web: FlaskClient
) -> None:
    another = example_client.browser(web)
    reply = owner.ask("POST", "logout")
    assert (answer(reply), reply.json["data"]) == ((200, "Logged out"), None)
    assert answer(owner.ask("GET", KEYS)) == (401, "Invalid JWT token")
    assert answer(another.ask("GET", KEYS))[0] == 200
    third = example_client.browser(web)
    assert answer(third.ask("POST", "logout", {"all": True})) == (200, "Logged out")
    assert [browser.ask("GET", KEYS).status_code for browser in (another, third)] == [401, 401]


def test_a_refresh_token_works_once(web: FlaskClient, example_client: ExampleClient) -> None:
    first = web.post("/api/clients/login", json={"email": example_client.email(), "password": PASSWORD}).json["data"]
    reply = web.post("/api/clients/token/refresh", json={"refresh_token": first["refresh_token"]})
    assert answer(reply) == (200, "Token refreshed")
    assert list(reply.json["data"]) == list(first)
    again = web.post("/api/clients/token/refresh", json={"refresh_token": first["refresh_token"]})
    assert answer(again) == (401, "Invalid refresh token")
    newer = web.post("/api/clients/token/refresh", json={"refresh_token": reply.json["data"]["refresh_token"]})
    assert answer(newer) == (401, "Invalid refresh token")


def test_after_too_many_wrong_passwords_the_reply_says_when_to_retry(
    web: FlaskClient, example_client: ExampleClient, services: Services
) -> None:
    def log_in(password: str, address: str = "192.0.2.7") -> TestResponse:
        body = {"email": example_client.email(), "password": password}
        return web.post("/api/clients/login", json=body, environ_base={"REMOTE_ADDR": address})

    assert [log_in("wrong").status_code for _ in range(11)] == [401] * 10 + [429]
    refused = log_in(PASSWORD)
    assert answer(refused) == (429, "Too many login attempts")
    assert 0 < int(refused.headers["Retry-After"]) <= 900
    assert answer(log_in(PASSWORD, "192.0.2.8")) == (200, "Login successful")
