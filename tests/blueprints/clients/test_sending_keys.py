"""Keys that send money: who may make, change and see them, and who may lift the bounds of a key."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.support.example_client import Browser, ExampleClient, answer
from tests.support.money import deposit
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.clients.keys.messages import CreateApiKey

KEYS = "api-keys"
REFUSED = (403, "Insufficient permissions")
UPDATED = (200, "API Key updated successfully")
OF_A_DEVELOPER = (
    "ussd:* menus:* transactions:read transactions:write balance:* collection:* webhooks:* payouts:read payouts:write "
    "statements:* messages:*"
)


@pytest.fixture
def developer(example_client: ExampleClient, web: FlaskClient) -> Browser:
    return example_client.browser(web, "developer")


def made(browser: Browser, **fields: Any) -> dict[str, Any]:
    reply = browser.ask("POST", KEYS, fields)
    assert reply.status_code == 201, reply.json
    data: dict[str, Any] = reply.json["data"]
    return data


def change(browser: Browser, key: dict[str, Any], **fields: Any) -> tuple[int, str]:
    return answer(browser.ask("PATCH", f"{KEYS}/{key['id']}", fields))


def test_a_developers_key_of_scopes_null_gets_what_a_developer_may_give(developer: Browser, owner: Browser) -> None:
    assert made(developer)["scopes"] == made(developer, scopes=None)["scopes"] == OF_A_DEVELOPER
    assert made(owner)["scopes"] is None


def test_a_developer_pays_nothing_alone(
    services: Services, web: FlaskClient, example_client: ExampleClient, owner: Browser, developer: Browser
) -> None:
    """The attack: a key of scopes null, and an owner's key whose bounds are taken away."""
    deposit(services, operator_context(example_client.id), 1_000_000)
    bounded = made(owner, scopes="transactions:*", allowed_addresses=["198.51.100.7"], daily_limit=1000)
    own = made(developer)
    for key, status in ((own, 403), (bounded, 403)):
        order = {"type": "disbursement", "phone_number": "+256770000000", "amount": 200_000, "reference": key["id"]}
        headers = {"x-api-key": key["apikey"], "x-api-secret": key["apisecret"]}
        assert web.post("/api/transactions", json=order, headers=headers).status_code == status
        refund = web.post(f"/api/transactions/{key['id']}/refunds", json={"reference": "back"}, headers=headers)
        assert refund.status_code == 403
    assert change(developer, bounded, allowed_addresses=None, daily_limit=None) == REFUSED
    assert answer(developer.ask("POST", f"{KEYS}/{bounded['id']}/rotate", {})) == REFUSED
    for scopes in ("transactions:send", "transactions:*", "balance:read transactions:send"):
        assert answer(developer.ask("POST", KEYS, {"scopes": scopes})) == REFUSED
    assert change(developer, own, scopes=None) == REFUSED
    shown = {key["id"]: key["apisecret"] for key in developer.ask("GET", KEYS).json["data"]}
    assert (shown[bounded["id"]], shown[own["id"]]) == ("********", own["apisecret"])
    assert developer.ask("GET", f"{KEYS}/{bounded['id']}").json["data"]["apisecret"] == "********"


def test_a_key_that_people_may_have_read_never_gains_the_right_to_send(owner: Browser) -> None:
    key = made(owner, scopes="transactions:write")
    for scopes in ("transactions:send", "transactions:*", None):
        status, message = change(owner, key, scopes=scopes)
        assert status == 400
        assert "scopes: Only a new key can get transactions:send" in message
    sending = made(owner)
    assert change(owner, sending, scopes="transactions:*") == UPDATED
    assert change(owner, sending, scopes="transactions:send") == UPDATED


WIDER: list[dict[str, Any]] = [
    {"scopes": "ussd:*"},
    {"scopes": "ussd:read balance:read"},
    {"allowed_addresses": None},
    {"allowed_addresses": ["198.51.100.0/24", "203.0.113.0/24"]},
    {"allowed_addresses": ["198.51.0.0/16"]},
    {"expires_at": None},
    {"expires_at": "2099-02-01T00:00:00Z"},
    {"daily_limit": None},
    {"daily_limit": 1001},
]
NARROWER: list[dict[str, Any]] = [
    {"allowed_addresses": ["198.51.100.7"]},
    {"expires_at": "2098-12-31T00:00:00Z"},
    {"daily_limit": 999},
]
BOUNDS: dict[str, Any] = {
    "scopes": "ussd:read",
    "allowed_addresses": ["198.51.100.0/24"],
    "expires_at": "2099-01-01T00:00:00Z",
    "daily_limit": 1000,
}


@pytest.mark.parametrize("wider", WIDER, ids=str)
def test_a_bound_is_lifted_only_by_a_role_that_could_have_set_it(
    services: Services, example_client: ExampleClient, owner: Browser, developer: Browser, web: FlaskClient, wider: Any
) -> None:
    admin = example_client.browser(web, "admin")
    assert change(developer, made(developer, **BOUNDS), **wider) == UPDATED, "the developer's own"
    of_an_owner = made(owner, **BOUNDS)
    for narrower in NARROWER:
        assert change(developer, of_an_owner, **narrower) == UPDATED, narrower
        assert change(developer, of_an_owner, **wider) == REFUSED, "a narrowed bound is still the owner's"
    assert change(admin, of_an_owner, **wider) == UPDATED
    of_the_operator = services.api_keys.create(
        CreateApiKey(("ussd:read",), daily_limit_cents=1000_00), operator_context(example_client.id)
    )
    if {"scopes", "daily_limit"} & wider.keys():
        assert change(owner, {"id": of_the_operator.id}, **wider) == REFUSED


def test_a_bound_that_an_owner_sets_later_is_the_owners_and_free_again_once_lifted(
    owner: Browser, developer: Browser
) -> None:
    key = made(developer, scopes="ussd:read", daily_limit=500)
    assert change(owner, key, daily_limit=2000) == UPDATED
    assert change(developer, key, daily_limit=3000) == REFUSED
    assert change(owner, key, daily_limit=None) == UPDATED
    assert change(developer, key, daily_limit=3000) == UPDATED
    assert change(developer, key, daily_limit=4000) == UPDATED
