"""Refusals of key management: in its envelope, in the contract's words, and without further information."""

from __future__ import annotations

import itertools
import uuid

import pytest
from flask.testing import FlaskClient

from tests.support.example_client import OPERATOR, PASSWORD, Browser, ExampleClient, answer
from ussd_server.bootstrap import Services

KEYS = "api-keys"
MALFORMED_IDS = [
    "not-a-uuid", "0", "%00", "null", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
    "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc999c0b4ef8bb6d6bb9bd380a11",
    "urn:uuid:a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11%0A", "%20a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "' OR 1=1 --",
    "x" * 2000, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1१", "\U0001f600",
]  # fmt: skip


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_bulk_deletion_takes_one_to_a_hundred_strings(owner: Browser) -> None:
    for body in [
        {}, {"api_key_ids": []}, {"api_key_ids": None}, {"api_key_ids": "x"}, {"api_key_ids": [1]},
        {"api_key_ids": [None]}, {"api_key_ids": ["x"] * 101}, {"api_key_ids": {}}, {"api_key_ids": ["x"], "more": 1},
        {"api_key_ids": ["x"], "atomic": "true"}, {"api_key_ids": ["x"], "atomic": 1}, {"api_key_ids": [["x"]]},
    ]:  # fmt: skip
        assert answer(owner.ask("DELETE", f"{KEYS}/bulk", body)) == (400, "Invalid request body")
        assert answer(owner.ask("POST", f"{KEYS}/bulk-delete", body)) == (400, "Invalid request body")


def test_a_malformed_id_is_refused_in_the_documents_words(owner: Browser) -> None:
    for key_id in MALFORMED_IDS:
        assert answer(owner.ask("DELETE", f"{KEYS}/{key_id}")) == (400, "Invalid API key ID format")
        assert answer(owner.ask("POST", f"{KEYS}/{key_id}/rotate")) == (400, "Invalid API key ID format")
        assert answer(owner.ask("GET", f"{KEYS}/{key_id}")) == (400, "Invalid API key ID format")
        assert answer(owner.ask("PATCH", f"{KEYS}/{key_id}")) == (400, "Invalid API key ID format")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_key_is_not_created_from_a_bad_body(owner: Browser) -> None:
    for body in [
        {"scopes": ""}, {"scopes": []}, {"scopes": "ussd:read  ussd:write"},
        {"scopes": [None]}, {"scopes": " ussd:read"}, {"scopes": "ussd:read\nussd:write"},
        {"scopes": 5}, {"scopes": {"ussd": "read"}},
        {"scopes": "ussd:*", "colour": "x"}, {"expires_at": "tomorrow"}, {"name": ""}, {"name": "x" * 101},
        {"allowed_addresses": []}, {"allowed_addresses": ["10.0.0.1"] * 21}, {"allowed_addresses": ["10.0.0.1/8"]},
        {"allowed_addresses": "10.0.0.1"}, {"allowed_addresses": ["fe80::1%eth0"]},
        {"allowed_addresses": ["010.1.1.1"]},
        {"allowed_addresses": ["1" * 9999]}, {"daily_limit": 0}, {"daily_limit": 1.001}, {"daily_limit": "x"},
        {"expires_at": "2020-01-01T00:00:00Z"}, {"expires_at": 4102444800}, {"expires_at": "2099-01-01"},
        {"expires_at": "2099-01-01T00:00:00"}, {"expires_at": ""}, {"expires_at": True}, {"is_active": 1},
    ]:  # fmt: skip
        status, message = answer(owner.ask("POST", KEYS, body))
        wrong = list(body)[-1]
        assert status == 400
        if "unknown scope" not in message:
            assert message.startswith(f"Invalid request body: {wrong}: ")
        assert owner.ask("GET", KEYS).json["data"] == []
    for scope in ("everything", "USSD:READ", "ussd:read ussd:write"):
        refused = answer(owner.ask("POST", KEYS, {"scopes": [scope]}))
        assert refused == (400, f"Invalid request body: unknown scope '{scope}'")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_grace_period_is_a_whole_number_of_seconds_up_to_a_week(owner: Browser) -> None:
    record = owner.ask("POST", KEYS).json["data"]
    for grace in (-1, 604_801, 1.5, True, "60", None, [], 10**30):
        reply = owner.ask("POST", f"{KEYS}/{record['id']}/rotate", {"grace_period_seconds": grace})
        assert reply.json["message"].startswith("Invalid request body: grace_period_seconds: ")
        assert answer(reply)[0] == 400
    assert owner.ask("GET", KEYS).json["data"] == [record]


def test_without_a_valid_token_every_path_answers_the_same(web: FlaskClient) -> None:
    paths = [
        ("GET", KEYS), ("POST", KEYS), ("DELETE", f"{KEYS}/x"), ("DELETE", f"{KEYS}/bulk"),
        ("POST", f"{KEYS}/x/rotate"), ("POST", f"{KEYS}/bulk-delete"), ("POST", "logout"),
        ("GET", "service-identifier"), ("GET", "audit-events?x=1"),
    ]  # fmt: skip
    headers = [
        None, "", "Bearer", "Bearer ", "Bearer x", "Bearer a.b.c", "Basic dTpw", "Bearer " + "x" * 4000,
        "Bearer é", "\x7f", "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer ....", "Bearer e30.e30.e30",
        "Bearer null", "Bearer a b",
    ]  # fmt: skip
    for (method, path), header in itertools.product(paths, headers):
        sent = {} if header is None else {"Authorization": header}
        assert answer(web.open(f"/api/clients/{path}", method=method, headers=sent)) == (401, "Invalid JWT token")


def test_a_viewer_cannot_find_out_which_keys_exist(example_client: ExampleClient, web: FlaskClient) -> None:
    viewer = example_client.browser(web, "viewer")
    ids = [example_client.create_key().id, str(uuid.uuid4()), *MALFORMED_IDS]
    for method, path, message in [
        ("DELETE", "{}", "Insufficient permissions to delete this API key"),
        ("POST", "{}/rotate", "Insufficient permissions"),
        ("GET", "{}", "Insufficient permissions"),
        ("PATCH", "{}", "Insufficient permissions"),
    ]:
        replies = [viewer.ask(method, f"{KEYS}/{path.format(key_id)}") for key_id in ids]
        assert {answer(reply) for reply in replies} == {(403, message)}
        assert len({reply.data for reply in replies}) == 1
    assert answer(viewer.ask("DELETE", f"{KEYS}/bulk", {"api_key_ids": 5})) == (
        403,
        "Insufficient permissions to delete this API key",
    )
    assert answer(viewer.ask("GET", f"{KEYS}?page=1")) == (403, "Insufficient permissions")
    assert answer(viewer.ask("POST", KEYS, {"bad": 1})) == (403, "Insufficient permissions")


def test_a_bad_audit_query_is_refused(owner: Browser) -> None:
    for query in [
        "limit=0", "limit=101", "limit=x", "limit=1_0", "limit=", "cursor=x", "cursor=", "page=1", "limit=1&limit=2"
    ]:  # fmt: skip
        assert answer(owner.ask("GET", f"audit-events?{query}")) == (400, "Invalid query parameters")


def test_a_malformed_refresh_token_is_refused(web: FlaskClient) -> None:
    for token in ["", "x", "a.b.c", "é", " ", "\U0001f600", "W10.x", "x" * 5000]:
        reply = web.post("/api/clients/token/refresh", json={"refresh_token": token})
        assert answer(reply) == (401, "Invalid refresh token")


def test_a_login_needs_an_email_and_a_password(web: FlaskClient) -> None:
    for body in [
        {}, {"email": "a@b.c"}, {"password": "x"}, {"email": 5, "password": "x"},
        {"email": "a@b.c", "password": ""}, {"email": ["a@b.c"], "password": "x"},
        {"email": "a@b.c", "password": "x", "otp": "1"}, {"email": "x" * 255, "password": "x"},
        {"email": "a@b.c", "password": "x" * 257}, {"email": None, "password": None},
    ]:  # fmt: skip
        assert answer(web.post("/api/clients/login", json=body)) == (400, "Invalid request body")


def test_every_cause_of_a_refused_login_gets_the_same_bytes(
    services: Services, web: FlaskClient, example_client: ExampleClient
) -> None:
    services.clients.set_user_active(example_client.email("admin"), False, OPERATOR)
    replies = [
        web.post("/api/clients/login", json={"email": email, "password": password})
        for email, password in [
            (example_client.email(), "wrong"),
            ("nobody@acme.example", PASSWORD),
            (example_client.email("admin"), PASSWORD),
            ("' OR 1=1 --", "é"),
            ("\U0001f600", "\U0001f600"),
        ]
    ]
    assert {answer(reply) for reply in replies} == {(401, "Invalid credentials")}
    assert len({reply.data for reply in replies}) == 1
