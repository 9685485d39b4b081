"""Key management to the letter: paths, messages, envelopes, and the order of checks."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.companies import OPERATOR, PASSWORD, Browser, Company
from tests.conftest import MovableClock
from ussd_server.app import Services

KEYS = "api-keys"
RECORD = [
    "id", "client_id", "apikey", "apisecret", "scopes", "is_active", "created_at", "updated_at", "expires_at",
    "last_used_at",
]  # fmt: skip
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
MALFORMED_IDS = [
    "not-a-uuid", "0", "%00", "null", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
    "a0eebc999c0b4ef8bb6d6bb9bd380a11", "urn:uuid:a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11%0A", "%20a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "' OR 1=1 --", "x" * 2000,
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1१", "\U0001f600",
]  # fmt: skip


@pytest.fixture
def company(house: Services) -> Company:
    return Company(house)


@pytest.fixture
def owner(company: Company, web: FlaskClient) -> Browser:
    return company.browser(web)


def answer(reply: TestResponse) -> tuple[int, str]:
    """Status and message of a management answer, after checking that it is one."""
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["Cache-Control"] == "no-store"
    assert list(reply.json) == ["status", "message", "data"]
    assert reply.json["status"] == reply.status_code
    if reply.status_code >= 400:
        assert reply.json["data"] is None
    return reply.status_code, reply.json["message"]


def test_a_login_gives_tokens_that_open_the_list(web: FlaskClient, company: Company) -> None:
    reply = web.post("/api/clients/login", json={"email": company.email().upper(), "password": PASSWORD})
    assert answer(reply) == (200, "Login successful")
    data = reply.json["data"]
    assert list(data) == [
        "access_token", "token_type", "expires_in", "refresh_token", "refresh_expires_in", "client_id", "permissions",
    ]  # fmt: skip
    assert (data["token_type"], data["expires_in"], data["client_id"]) == ("Bearer", 900, company.id)
    assert data["permissions"] == [
        "api_keys:create", "api_keys:delete", "api_keys:list", "api_keys:rotate", "audit_events:read",
        "service_identifier:read",
    ]  # fmt: skip
    listed = web.get("/api/clients/api-keys", headers={"Authorization": f"Bearer {data['access_token']}"})
    assert (answer(listed), listed.json["data"]) == ((200, "API keys list"), [])


def test_a_key_is_created_and_listed_as_the_document_has_it(owner: Browser, company: Company) -> None:
    made = owner.ask(
        "POST", KEYS, {"scopes": ["ussd:*", "balance:read", "ussd:*"], "expires_at": "2099-01-01T00:00:00+03:00"}
    )
    assert answer(made) == (201, "API Key created successfully")
    record = made.json["data"]
    assert list(record) == RECORD
    assert made.headers["Location"] == f"/api/clients/api-keys/{record['id']}"
    assert record["client_id"] == company.id
    assert record["apikey"].isalnum()
    assert re.fullmatch(r"ussdsk_[0-9A-Za-z]{49}", record["apisecret"])
    assert (record["scopes"], record["is_active"]) == ("balance:read ussd:*", 1)
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
