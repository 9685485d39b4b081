"""Renewing the master keys under a running service."""

from __future__ import annotations

import threading

import pytest

from tests.support.crowd import at_once, refusals
from tests.support.example_client import OPERATOR, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.database.tables import Table
from ussd_server.models.clients import UserFactor
from ussd_server.models.keys import ApiKey
from ussd_server.models.operators import Operator
from ussd_server.models.sending import Webhook
from ussd_server.models.ussd import Channel, SmppLink, SubscriberPin
from ussd_server.security.key_ring import DecryptionError, Keyring, Vault
from ussd_server.services.clients.keys.messages import ApiKeyView, RotateApiKey
from ussd_server.services.ussd.messages import CreateChannel
from ussd_server.services.webhooks.messages import CreateWebhook, RotateWebhook
from ussd_server.status import ServiceError


@pytest.fixture
def owner(services: Services) -> ExampleClient:
    return ExampleClient(services)


def authenticate(services: Services, key: ApiKeyView, secret: str) -> bool:
    return services.auth.authenticate_key(key.apikey, secret, "192.0.2.1").caller.key_id == key.id


def test_every_secret_lives_on_when_the_old_keys_are_gone(services: Services, owner: ExampleClient) -> None:
    keys = [owner.create_key() for _ in range(5)]
    rotated = services.api_keys.rotate(RotateApiKey(keys[0].id), owner.call())
    shared = services.channels.create(CreateChannel("africastalking"), OPERATOR)
    own = services.channels.create(CreateChannel("africastalking", owner.id), OPERATOR)
    updated = {row.id: row.updated_at for row in ApiKey.select()}
    services.master_keys.add(OPERATOR)
    assert services.master_keys.rekey(OPERATOR, batch=2) == 12, "five keys, their signatures, two channels"
    services.master_keys.retire(OPERATOR)
    assert authenticate(services, keys[0], keys[0].apisecret)
    assert authenticate(services, keys[0], rotated.apisecret)
    assert all(authenticate(services, key, key.apisecret) for key in keys)
    assert [key.apisecret for key in services.api_keys.list(owner.call())][1:] == [key.apisecret for key in keys[1:]]
    assert {row.id: row.updated_at for row in ApiKey.select()} == updated
    for channel in (shared, own):
        _, _, adapter, secret = channel.gateway_path.split("/")
        assert services.channels.find(adapter, secret).channel_id == channel.channel_id
    assert services.channels.list(OPERATOR) == (shared, own)


def test_the_old_keys_stay_while_a_secret_needs_them(services: Services, owner: ExampleClient) -> None:
    key = owner.create_key()
    services.master_keys.add(OPERATOR)
    with pytest.raises(ServiceError, match="still need an older key"):
        services.master_keys.retire(OPERATOR)
    assert authenticate(services, key, key.apisecret)
    services.master_keys.rekey(OPERATOR)
    channel = services.channels.create(CreateChannel("africastalking"), OPERATOR)
    services.master_keys.retire(OPERATOR)
    services.master_keys.add(OPERATOR)
    Channel.update(is_active=False).where(Channel.id == channel.channel_id).execute()
    assert ApiKey.delete().execute() == 1
    with pytest.raises(ServiceError, match="still need an older key"):
        services.master_keys.retire(OPERATOR)


def test_no_call_is_refused_while_secrets_are_carried_over(services: Services, owner: ExampleClient) -> None:
    keys = [owner.create_key() for _ in range(8)]
    done = threading.Event()

    def renew() -> int:
        try:
            for _ in range(3):
                services.master_keys.add(OPERATOR)
                services.master_keys.rekey(OPERATOR, batch=3)
        finally:
            done.set()
        return 0

    def use(key: ApiKeyView) -> int:
        count = 0
        while not done.is_set():
            assert authenticate(services, key, key.apisecret)
            count += 1
        return count

    counts = at_once([renew, *[lambda key=key: use(key) for key in keys]], threads=9)
    assert refusals(counts) == []
    assert sum(counts) > 0
    services.master_keys.retire(OPERATOR)
    assert all(authenticate(services, key, key.apisecret) for key in keys)


def test_rotations_that_cross_a_renewal_keep_their_secrets(services: Services, owner: ExampleClient) -> None:
    keys, call = [owner.create_key() for _ in range(6)], owner.call()
    services.master_keys.add(OPERATOR)
    _, *rotated = at_once(
        [
            lambda: services.master_keys.rekey(OPERATOR, batch=2),
            *[lambda key=key: services.api_keys.rotate(RotateApiKey(key.id), call) for key in keys],
        ],
        threads=7,
    )
    services.master_keys.retire(OPERATOR)
    for key, fresh in zip(keys, rotated, strict=True):
        assert authenticate(services, key, key.apisecret)
        assert authenticate(services, key, fresh.apisecret)


def test_a_ciphertext_moved_to_another_row_cannot_be_decrypted(services: Services, owner: ExampleClient) -> None:
    mine, theirs = owner.create_key(), ExampleClient(services, "other").create_key()
    stolen = ApiKey.get_by_id(theirs.id)
    ApiKey.update(secret_sealed=stolen.secret_sealed, secret_digest=stolen.secret_digest).where(
        ApiKey.id == mine.id
    ).execute()
    with pytest.raises(DecryptionError):
        services.api_keys.list(owner.call())
    with pytest.raises(ServiceError):
        authenticate(services, mine, theirs.apisecret)


def test_the_secrets_of_webhooks_live_on_when_the_old_keys_are_gone(services: Services, owner: ExampleClient) -> None:
    caller = RequestContext(Caller(CallerKind.KEY, client_id=owner.id, grants=None))
    made = services.webhooks.create(CreateWebhook("https://client.example/hook"), caller)
    rotated = services.webhooks.rotate(RotateWebhook(made.id), caller)
    services.master_keys.add(OPERATOR)
    with pytest.raises(ServiceError, match="still need an older key"):
        services.master_keys.retire(OPERATOR)
    assert services.master_keys.rekey(OPERATOR) == 1
    services.master_keys.retire(OPERATOR)
    row, vault = Webhook.get_by_id(made.id), Vault(Keyring(services.settings.secrets_file))
    assert vault.decrypt(row.secret_sealed, owner.id, row.id) == rotated.secret
    assert vault.decrypt(row.previous_secret_sealed, owner.id, row.id) == made.secret


def test_every_table_with_encrypted_columns_is_carried_over() -> None:
    sealing = {
        table for table in Table.__subclasses__() if any(name.endswith("_sealed") for name in table._meta.fields)
    }
    assert sealing == {ApiKey, Channel, Operator, SmppLink, SubscriberPin, UserFactor, Webhook}
