"""Authentication: keys with their secrets, and which limits count a call."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flask import Flask

from tests.support.crowd import at_once
from tests.support.example_client import ExampleClient
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.bootstrap import Services, build_services
from ussd_server.context import RequestContext
from ussd_server.security.credentials import new_apikey, new_apisecret
from ussd_server.security.key_ring import Vault
from ussd_server.services.clients.keys.messages import ApiKeyView
from ussd_server.settings import Settings
from ussd_server.status import ServiceError


@pytest.fixture
def data_app(app: Flask) -> Flask:
    """The application with one more data call, which costs nothing."""
    blueprint = ApiBlueprint("data", authenticate_api_key, "Data", "")

    @blueprint.call("GET", "/data/rows", needs="collection:read")
    def enter(context: RequestContext) -> dict[str, str | None]:
        """Return the caller."""
        return {"client_id": context.client_id}

    app.register_blueprint(blueprint)
    return app


def headers(key: ApiKeyView, secret: str | None = None) -> dict[str, str]:
    return {"x-api-key": key.apikey, "x-api-secret": secret or key.apisecret}


@pytest.mark.both_databases
def test_of_640_calls_at_once_with_one_key_exactly_a_hundred_are_accepted(
    data_app: Flask, example_client: ExampleClient
) -> None:
    key = example_client.create_key()
    replies = at_once([lambda: data_app.test_client().get("/data/rows", headers=headers(key)).status_code] * 640)
    assert (replies.count(200), replies.count(429)) == (100, 540)


def test_while_redis_is_away_the_web_processes_of_all_machines_together_allow_the_limit(settings: Settings) -> None:
    settings = replace(settings, redis_url="unix:///nowhere/valkey.sock", workers=2, machines=5)
    processes = [build_services(settings).limiter for _ in range(10)]
    accepted = [process.hit("api-key", "key").accepted for process in processes for _ in range(30)]
    for process in processes:
        process.close()
    assert accepted.count(True) == 100


@pytest.mark.both_databases
def test_a_wrong_secret_a_thousand_times_leaves_the_keys_quota_whole(
    data_app: Flask, example_client: ExampleClient
) -> None:
    key = example_client.create_key()
    wrong = headers(key, new_apisecret())
    replies = at_once([lambda: data_app.test_client().get("/data/rows", headers=wrong).status_code] * 1000)
    assert (replies.count(401), replies.count(429)) == (100, 900)
    refused = data_app.test_client().get("/data/rows", headers=wrong).json
    assert refused["message"] == "Rate limit exceeded. Maximum 100 requests per minute (1000 per hour) allowed."
    right = data_app.test_client().get("/data/rows", headers=headers(key))
    assert (right.status_code, right.headers["X-RateLimit-Remaining"]) == (200, "99")


def test_guessing_is_refused_with_a_retry_after_and_other_addresses_are_not_affected(
    data_app: Flask, services: Services
) -> None:
    web = data_app.test_client()

    def guess(address: str, apikey: str = new_apikey()) -> tuple[int, str]:
        pair = {"x-api-key": apikey, "x-api-secret": "guessed"}
        reply = web.get("/data/rows", headers=pair, environ_base={"REMOTE_ADDR": address})
        return reply.status_code, reply.headers.get("Retry-After", "0")

    assert [guess("192.0.2.9")[0] for _ in range(100)] == [401] * 100
    status, retry_after = guess("192.0.2.9")
    assert (status, 0 < int(retry_after) <= 60) == (429, True)
    assert guess("192.0.2.10") == (401, "0")
    assert guess("192.0.2.9", "mistyped!") == (401, "0"), "what cannot be a key is no guess"


def test_every_wrong_pair_is_refused_in_the_same_bytes(data_app: Flask, example_client: ExampleClient) -> None:
    key, web = example_client.create_key(), data_app.test_client()
    pairs = [
        (None, None), (key.apikey, None), (None, key.apisecret), ("", ""), (key.apikey, ""),
        (key.apikey, new_apisecret()),
        (new_apikey(), key.apisecret), (new_apikey(), new_apisecret()), (key.apikey.lower(), key.apisecret),
        (key.apikey, key.apisecret + " x"), (key.apikey, key.apisecret[:-1]), (key.apikey, "x" * 4000), ("é", "é"),
        (f"{key.apikey},{key.apikey}", key.apisecret), (key.apikey, f"{key.apisecret},{key.apisecret}"),
        (key.id, key.apisecret), ("' OR 1=1 --", "x"), (key.apikey, "\xff\xfe"), ("१२३४५६७८", "x"), ("x" * 5000, "x"),
    ]  # fmt: skip
    bodies = set()
    for apikey, secret in pairs:
        sent = {name: value for name, value in [("x-api-key", apikey), ("x-api-secret", secret)] if value is not None}
        reply = web.get("/data/rows", headers={name: _as_wsgi(value) for name, value in sent.items()})
        assert (reply.status_code, reply.json["error"]) == (401, "INVALID_CREDENTIALS")
        del reply.json["timestamp"]
        bodies.add((reply.json["message"], frozenset(reply.json)))
    assert len(bodies) == 1


def test_an_unknown_key_costs_a_digest_like_a_known_one(
    services: Services, example_client: ExampleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, digested = example_client.create_key(), []
    real = Vault.matches

    def watch(vault: Vault, secret: str, *rest: object) -> bool:
        digested.append(secret)
        return real(vault, secret, *rest)

    monkeypatch.setattr(Vault, "matches", watch)
    for apikey in (key.apikey, new_apikey(), "no key"):
        with pytest.raises(ServiceError):
            services.auth.authenticate_key(apikey, "a wrong secret", "192.0.2.1")
    assert digested == ["a wrong secret"] * 3


def _as_wsgi(text: str) -> str:
    """A header as it arrives from the wire: bytes read as Latin-1."""
    return text.encode("utf-8").decode("latin-1")
