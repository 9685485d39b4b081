"""Keys of another system: they work as they are, and what cannot be imported changes nothing."""

from __future__ import annotations

import pytest

from tests.support.example_client import OPERATOR, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.security.credentials import new_apisecret
from ussd_server.services.clients.keys.messages import ImportApiKey
from ussd_server.status import ServiceError


def test_an_imported_key_works_and_a_second_import_changes_nothing(
    services: Services, example_client: ExampleClient
) -> None:
    request = ImportApiKey(example_client.id, "LegacyKey01", "a secret of theirs!".replace(" ", "-"), ("balance:read",))
    first = services.api_keys.import_key(request, OPERATOR)
    assert (first.outcome, services.api_keys.import_key(request, OPERATOR).outcome) == ("created", "unchanged")
    caller = services.auth.authenticate_key(request.apikey, request.apisecret, "192.0.2.1").caller
    assert caller.grants == frozenset({"balance:read"})
    wider = ImportApiKey(example_client.id, request.apikey, request.apisecret, ("ussd:*", "balance:read"))
    assert services.api_keys.import_key(wider, OPERATOR).outcome == "updated"
    (key,) = services.api_keys.list(example_client.call())
    assert (key.id, key.scopes, key.apisecret) == (first.api_key_id, "ussd:* balance:read", request.apisecret)


def test_what_cannot_be_imported_is_refused_and_nothing_changes(
    services: Services, example_client: ExampleClient
) -> None:
    key, other = example_client.create_key(), ExampleClient(services, "other")
    mistyped = key.apikey[:-1] + ("a" if key.apikey[-1] != "a" else "b")
    for request, sentence in [
        (ImportApiKey(example_client.id, mistyped, key.apisecret), "apikey: Must be"),
        (ImportApiKey(example_client.id, "short", key.apisecret), "apikey: Must be"),
        (ImportApiKey(example_client.id, "with space 12", key.apisecret), "apikey: Must be"),
        (ImportApiKey(example_client.id, "Twelve123456\n", key.apisecret), "apikey: Must be"),
        (ImportApiKey(example_client.id, "Twelve123456", "short"), "apisecret: Must be"),
        (ImportApiKey(example_client.id, "Twelve123456", "é" * 20), "apisecret: Must be"),
        (ImportApiKey(example_client.id, "Twelve123456", key.apisecret, ("all",)), "scopes: unknown scope 'all'"),
        (ImportApiKey(example_client.id, key.apikey, new_apisecret()), "apisecret: Is not the one"),
        (ImportApiKey(other.id, key.apikey, key.apisecret), "apikey: Belongs to another client"),
        (ImportApiKey("0192e4a0-0000-7000-8000-000000000000", "Twelve123456", key.apisecret), "Client not found"),
    ]:
        with pytest.raises(ServiceError, match=sentence):
            services.api_keys.import_key(request, OPERATOR)
    assert services.api_keys.list(example_client.call()) == (key,)
    assert services.api_keys.list(other.call()) == ()


def test_a_deleted_key_can_never_be_imported_again(services: Services, example_client: ExampleClient) -> None:
    key = example_client.create_key()
    services.api_keys.delete(key.id, example_client.call())
    for client_id in (example_client.id, ExampleClient(services, "other").id):
        with pytest.raises(ServiceError, match="never be used again"):
            services.api_keys.import_key(ImportApiKey(client_id, key.apikey, key.apisecret), OPERATOR)
