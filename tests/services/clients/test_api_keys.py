"""API keys: their life, their limits, and simultaneous changes of them."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from peewee import OperationalError

from tests.conftest import MovableClock
from tests.support.crowd import at_once, refusals
from tests.support.example_client import OPERATOR, ExampleClient
from tests.support.shop import Shop
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext, operator_context
from ussd_server.models.clients import AuditEvent
from ussd_server.models.keys import ApiKey, DeletedApiKey
from ussd_server.models.sending import Event
from ussd_server.models.ussd import UssdSession
from ussd_server.security.credentials import new_apikey, new_apisecret
from ussd_server.services.clients import auth
from ussd_server.services.clients.keys.fields import joined_scopes
from ussd_server.services.clients.keys.messages import (
    ApiKeyView,
    CreateApiKey,
    DeleteApiKeys,
    ImportApiKey,
    RotateApiKey,
)
from ussd_server.services.ussd.messages import BeginSession
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds

_addresses = itertools.count()
_phones = itertools.cycle(range(10))


def accepted(services: Services, key: ApiKeyView, secret: str | None = None) -> bool:
    """Whether authentication accepts a key with a secret, its own unless another is given."""
    # Each try comes from an address of its own, so that none is refused for what another guessed wrong.
    address = f"192.0.{next(_addresses)}"
    try:
        found = services.auth.authenticate_key(key.apikey, secret or key.apisecret, address)
        return found.caller.key_id == key.id
    except ServiceError as refusal:
        if refusal.code not in (Code.INVALID_CREDENTIALS, Code.API_KEY_DISABLED):
            raise
        return False


@pytest.mark.both_databases
def test_a_client_has_at_most_fifty_keys_however_many_ask_at_once(
    services: Services, example_client: ExampleClient
) -> None:
    context = example_client.call()
    made = at_once([lambda: services.api_keys.create(CreateApiKey(), context)] * 60)
    assert refusals(made) == ["API Key limit reached"] * 10
    assert len(services.api_keys.list(context)) == 50
    services.api_keys.delete(services.api_keys.list(context)[0].id, context)
    services.api_keys.create(CreateApiKey(), context)


@pytest.mark.both_databases
def test_of_twenty_racing_deletions_one_wins(services: Services, example_client: ExampleClient) -> None:
    key, context = example_client.create_key(), example_client.call()
    outcomes = at_once([lambda: services.api_keys.delete(key.id, context)] * 20, threads=20)
    assert refusals(outcomes) == ["API Key not found"] * 19
    assert DeletedApiKey.select().count() == 1
    assert Event.select().where(Event.type == "api_key.deleted").count() == 1


@pytest.mark.both_databases
def test_crossing_bulk_deletions_delete_every_key_once(services: Services, example_client: ExampleClient) -> None:
    context = example_client.call()
    ids = [example_client.create_key().id for _ in range(12)]
    requests = [DeleteApiKeys(tuple(ids if turn % 2 else reversed(ids))) for turn in range(8)]
    outcomes = at_once(
        [lambda request=request: services.api_keys.delete_many(request, context) for request in requests],
        threads=8,
    )
    assert refusals(outcomes) == []
    assert Counter(result.deleted_id for outcome in outcomes for result in outcome.deleted) == dict.fromkeys(ids, 1)
    assert all(outcome.requested == 12 for outcome in outcomes)


def test_deleting_a_key_leaves_a_tombstone_an_event_and_a_line_in_the_trail(
    services: Services, example_client: ExampleClient
) -> None:
    key, context = example_client.create_key(), example_client.call()
    result = services.api_keys.delete(key.id, context)
    assert not ApiKey.select().where(ApiKey.id == key.id).exists()
    assert DeletedApiKey.get(DeletedApiKey.apikey == key.apikey).deleted_at == result.deleted_at
    event = Event.get(Event.object_id == key.id)
    assert (event.type, event.sequence, event.client_id) == ("api_key.deleted", 1, example_client.id)
    assert event.payload["id"] == key.id
    line = AuditEvent.get(AuditEvent.action == "api_key.deleted")
    assert (line.object_id, line.user_id, line.address) == (key.id, context.caller.user_id, "192.0.2.1")


def test_deleting_a_key_ends_its_open_conversations_and_no_others(services: Services) -> None:
    shop = Shop(services)
    operator = operator_context(shop.client_id)
    key, other = (
        services.api_keys.create(CreateApiKey(), operator),
        services.api_keys.create(CreateApiKey(), operator),
    )

    def begin(made: ApiKeyView) -> tuple[str, RequestContext]:
        context = RequestContext(services.auth.authenticate_key(made.apikey, made.apisecret, "192.0.2.1").caller)
        phone = f"+25677000000{next(_phones)}"
        return services.api_sessions.begin(
            BeginSession(phone_number=phone, service_code=shop.code), context
        ).session_id, context

    (doomed, _), (done, context), (kept, _) = begin(key), begin(key), begin(other)
    services.api_sessions.end(done, context)
    result = services.api_keys.delete(key.id, operator)
    ended = UssdSession.get_by_id(doomed)
    assert (ended.status, ended.ended_at) == ("invalidated", result.deleted_at)
    assert UssdSession.get_by_id(done).status == "ended_by_client"
    assert UssdSession.get_by_id(kept).status == "active"


def test_a_deletion_that_fails_half_way_leaves_everything(
    services: Services, example_client: ExampleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, context = example_client.create_key(), example_client.call()
    monkeypatch.setattr("ussd_server.services.clients.api_keys.write_event", lambda *event: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        services.api_keys.delete(key.id, context)
    assert accepted(services, key)
    assert DeletedApiKey.select().count() == 0


def test_after_a_rotation_both_secrets_work_until_the_grace_is_over(
    services: Services, example_client: ExampleClient, clock: MovableClock
) -> None:
    key, context = example_client.create_key(), example_client.call()
    rotated = services.api_keys.rotate(RotateApiKey(key.id, 60), context)
    assert accepted(services, key)
    assert accepted(services, key, rotated.apisecret)
    assert rotated.previous_secret_expires_at <= clock.now() + timedelta(seconds=60)
    clock.advance(61)
    assert not accepted(services, key)
    assert accepted(services, key, rotated.apisecret)


def test_without_grace_the_old_secret_ends_at_once(services: Services, example_client: ExampleClient) -> None:
    key, context = example_client.create_key(), example_client.call()
    first = services.api_keys.rotate(RotateApiKey(key.id, 600), context)
    second = services.api_keys.rotate(RotateApiKey(key.id, 0), context)
    assert second.previous_secret_expires_at == second.updated_at
    assert [accepted(services, key, secret) for secret in (key.apisecret, first.apisecret, second.apisecret)] == [
        False,
        False,
        True,
    ]


@pytest.mark.both_databases
def test_rotations_at_once_leave_the_last_two_secrets(services: Services, example_client: ExampleClient) -> None:
    key, context = example_client.create_key(), example_client.call()
    rotated = at_once([lambda: services.api_keys.rotate(RotateApiKey(key.id), context)] * 8, threads=8)
    assert refusals(rotated) == []
    assert (
        sum(accepted(services, key, secret) for secret in [key.apisecret, *(each.apisecret for each in rotated)]) == 2
    )


def test_a_key_works_until_it_expires(services: Services, example_client: ExampleClient, clock: MovableClock) -> None:
    key = services.api_keys.create(CreateApiKey(expires_at=clock.now() + timedelta(seconds=30)), example_client.call())
    assert accepted(services, key)
    clock.advance(31)
    with pytest.raises(ServiceError) as refusal:
        services.auth.authenticate_key(key.apikey, key.apisecret, "192.0.2.1")
    assert refusal.value.code is Code.API_KEY_DISABLED


def test_the_operator_disables_and_enables_a_key_by_id_or_apikey(
    services: Services, example_client: ExampleClient
) -> None:
    key = example_client.create_key()
    assert services.api_keys.set_active(key.id, False, OPERATOR).is_active == 0
    assert not accepted(services, key)
    assert services.api_keys.set_active(key.apikey, True, OPERATOR).is_active == 1
    assert accepted(services, key)
    trail = AuditEvent.select().where(AuditEvent.object_id == key.id).order_by(AuditEvent.id)
    assert [(line.action, line.actor) for line in trail][-2:] == [
        ("api_key.disabled", "operator"),
        ("api_key.enabled", "operator"),
    ]
    with pytest.raises(ServiceError):
        services.api_keys.set_active("nothing", False, OPERATOR)
    with pytest.raises(ServiceError):
        services.api_keys.set_active(key.id, False, example_client.call())


@pytest.mark.both_databases
def test_a_key_imported_while_it_is_deleted_does_not_come_back(
    services: Services, example_client: ExampleClient
) -> None:
    context = example_client.call()
    for _ in range(5):
        key = example_client.create_key()
        request = ImportApiKey(example_client.id, key.apikey, key.apisecret)
        at_once(
            [lambda key=key: services.api_keys.delete(key.id, context)]
            + [lambda request=request: services.api_keys.import_key(request, OPERATOR)] * 4
        )
        assert not accepted(services, key)
    assert services.api_keys.list(context) == ()


def test_the_list_shows_the_last_use_exactly_before_it_is_written(
    services: Services, example_client: ExampleClient
) -> None:
    key, context = example_client.create_key(), example_client.call()

    def last_used() -> datetime | None:
        return services.api_keys.list(context)[0].last_used_at

    assert last_used() is None
    assert not accepted(services, key, new_apisecret())
    assert last_used() is None
    for _ in range(3):
        before = iso_milliseconds(datetime.now(UTC))
        assert accepted(services, key)
        shown = last_used()
        assert shown is not None
        assert before <= iso_milliseconds(shown) <= iso_milliseconds(datetime.now(UTC))
        assert ApiKey.get_by_id(key.id).last_used_at is None


def test_the_last_use_is_written_once_a_minute_at_the_most(
    services: Services, example_client: ExampleClient, clock: MovableClock
) -> None:
    key = example_client.create_key()

    def written_after(seconds: float) -> datetime:
        clock.advance(seconds)
        assert accepted(services, key)
        services.runtime.last_uses.write()
        written: datetime = ApiKey.get_by_id(key.id).last_used_at
        return written

    first = written_after(0)
    assert written_after(59) == first
    assert written_after(2) - first >= timedelta(seconds=60)


def test_a_last_use_that_cannot_be_written_is_kept_for_the_next_time(
    services: Services, example_client: ExampleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = example_client.create_key()
    assert accepted(services, key)
    with monkeypatch.context() as trouble:
        trouble.setattr(auth, "unit_of_work", locked)
        services.runtime.last_uses.write()
    assert ApiKey.get_by_id(key.id).last_used_at is None
    services.runtime.last_uses.write()
    assert ApiKey.get_by_id(key.id).last_used_at is not None


def locked() -> None:
    raise OperationalError("database is locked")


def test_scopes_are_kept_in_their_order_and_said_once() -> None:
    assert joined_scopes(["ussd:write", "balance:read", "ussd:write"]) == "ussd:write balance:read"
    assert joined_scopes(["payouts:approve", "statements:read"]) == "payouts:approve statements:read"
    for bad in ([], [""], ["ussd"], ["ussd:delete"], ["ussd:approve"], ["*"], ["api_keys:list"], ["ussd:read "]):
        with pytest.raises(ValueError):
            joined_scopes(bad)


def test_a_secret_never_shows_in_a_repr(services: Services, example_client: ExampleClient) -> None:
    key, context = example_client.create_key(), example_client.call()
    rotated = services.api_keys.rotate(RotateApiKey(key.id), context)
    request = ImportApiKey(example_client.id, new_apikey(), key.apisecret)
    assert not [secret for secret in (key.apisecret, rotated.apisecret) if secret in f"{key!r}{rotated!r}{request!r}"]


def test_a_client_sees_which_of_its_own_active_keys_expire_within_a_week(
    services: Services, example_client: ExampleClient, clock: MovableClock
) -> None:
    stranger, context, now = ExampleClient(services, "another"), example_client.call(), clock.now()
    days = (6, 8, 1, 2)
    keys = [
        services.api_keys.create(CreateApiKey(expires_at=now + timedelta(days=count)), context).id for count in days
    ]
    services.api_keys.create(CreateApiKey(expires_at=now + timedelta(days=3)), stranger.call())
    services.api_keys.delete(keys.pop(), context)
    assert [key.id for key in services.key_reader.expiring(context)] == [keys[2], keys[0]]
    clock.advance(timedelta(days=1).total_seconds())
    assert [key.id for key in services.key_reader.expiring(context)] == [keys[0], keys[1]]
