"""Changes that end a key's access, and whether a process refuses the key afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.example_client import OPERATOR, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import release_connection
from ussd_server.services.clients.key_cache import Generations
from ussd_server.services.clients.keys.messages import ApiKeyView, RotateApiKey, UpdateApiKey
from ussd_server.status import Code, ServiceError

ADDRESS = "192.0.2.1"


def generations_of(services: Services) -> Generations:
    return Generations(services.limiter.pipeline, services.limiter.circuit)


def outcome(web: Services, key: ApiKeyView, secret: str | None = None) -> Code | None:
    """Why the web refuses a call with a key; None when it does not."""
    try:
        decision = web.auth.authenticate_key(key.apikey, secret or key.apisecret, ADDRESS).decision
    except ServiceError as refusal:
        return refusal.code
    finally:
        release_connection()
    return None if decision.accepted else Code.RATE_LIMIT_EXCEEDED


def let_cache(web: Services, key: ApiKeyView) -> None:
    """Let a process authenticate a key often enough to cache it."""
    for _ in range(2):
        assert outcome(web, key) is None


CHANGES: dict[str, tuple[Code, Callable[[Services, ExampleClient, ApiKeyView], object]]] = {
    "deleted": (
        Code.INVALID_CREDENTIALS,
        lambda office, example_client, key: office.api_keys.delete(key.id, example_client.call()),
    ),
    "disabled": (
        Code.API_KEY_DISABLED,
        lambda office, example_client, key: office.api_keys.set_active(key.apikey, False, OPERATOR),
    ),
    "rotated": (
        Code.INVALID_CREDENTIALS,
        lambda office, example_client, key: office.api_keys.rotate(RotateApiKey(key.id, 0), example_client.call()),
    ),
    "stopped with its client": (
        Code.API_KEY_DISABLED,
        lambda office, example_client, key: office.clients.set_active(example_client.id, False, OPERATOR),
    ),
}


def _patch(**fields: Any) -> Callable[[Services, ExampleClient, ApiKeyView], object]:
    return lambda office, example_client, key: office.api_keys.update(
        UpdateApiKey(key.id, **fields), example_client.call()
    )


CHANGES |= {
    "switched off by its client": (Code.API_KEY_DISABLED, _patch(is_active=0)),
    "bound to another network": (Code.ADDRESS_NOT_ALLOWED, _patch(allowed_addresses=("198.51.100.0/24",))),
}

every_change = pytest.mark.parametrize("change", CHANGES)
