"""A process caches keys, and refuses a key right after the reply to the change that ended it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from testbed.valkey import Server
from tests.services.clients.key_cache.changes import ADDRESS, CHANGES, every_change, let_cache, outcome
from tests.support.crowd import at_once
from tests.support.example_client import OPERATOR, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import release_connection
from ussd_server.limits.sliding_window import tightest
from ussd_server.services.clients.keys.messages import ApiKeyView, ImportApiKey, RotateApiKey, UpdateApiKey
from ussd_server.status import Code, ServiceError


@pytest.mark.parametrize(
    ("secret", "expected"), [(None, None), ("a wrong secret", Code.INVALID_CREDENTIALS)], ids=["right", "wrong"]
)
def test_a_cached_key_costs_no_query_and_one_call_of_redis(
    web: Services,
    example_client: ExampleClient,
    redis: Server,
    asked: list[str],
    secret: str | None,
    expected: Code | None,
) -> None:
    key = example_client.create_key()
    let_cache(web, key)
    asked.clear()
    redis.client.config_resetstat()
    assert [outcome(web, key, secret) for _ in range(20)] == [expected] * 20
    assert [sql for sql in asked if "unseen_changes" not in sql] == []
    commands: Any = redis.client.info("commandstats")
    assert commands["cmdstat_evalsha"]["calls"] == 20
    assert set(commands) <= {
        "cmdstat_evalsha", "cmdstat_get", "cmdstat_time", "cmdstat_llen", "cmdstat_lindex", "cmdstat_lpush",
        "cmdstat_pexpire", "cmdstat_config|resetstat",
    }  # fmt: skip


def test_calls_of_a_disabled_key_use_up_no_quota(
    web: Services, office: Services, example_client: ExampleClient
) -> None:
    key = example_client.create_key()
    let_cache(web, key)
    office.api_keys.set_active(key.id, False, OPERATOR)
    assert [outcome(web, key) for _ in range(10)] == [Code.API_KEY_DISABLED] * 10
    office.api_keys.set_active(key.id, True, OPERATOR)
    decision = web.auth.authenticate_key(key.apikey, key.apisecret, ADDRESS).decision
    assert tightest(decision.windows).remaining == 97


@every_change
def test_a_process_that_cached_a_key_refuses_it_right_after_the_reply(
    web: Services, office: Services, example_client: ExampleClient, change: str
) -> None:
    key, (code, make) = example_client.create_key(), CHANGES[change]
    let_cache(web, key)
    make(office, example_client, key)
    assert outcome(web, key) is code


def test_a_key_that_is_enabled_again_is_accepted_at_once(
    web: Services, office: Services, example_client: ExampleClient
) -> None:
    key = example_client.create_key("balance:read")
    let_cache(web, key)
    office.api_keys.set_active(key.id, False, OPERATOR)
    assert [outcome(web, key) for _ in range(3)] == [Code.API_KEY_DISABLED] * 3
    office.api_keys.set_active(key.id, True, OPERATOR)
    assert outcome(web, key) is None
    rotated = office.api_keys.rotate(RotateApiKey(key.id, 0), example_client.call())
    assert outcome(web, key, rotated.apisecret) is None
    office.api_keys.import_key(ImportApiKey(example_client.id, key.apikey, rotated.apisecret, ("ussd:*",)), OPERATOR)
    assert web.auth.authenticate_key(key.apikey, rotated.apisecret, ADDRESS).caller.grants == frozenset({"ussd:*"})


@pytest.mark.parametrize("is_redis_faulty", [False, True], ids=["with Redis", "with Redis faults"])
def test_of_ten_thousand_calls_after_the_replies_none_is_accepted_under_the_old_values(
    web: Services, office: Services, example_client: ExampleClient, redis: Server, is_redis_faulty: bool
) -> None:
    keys = [example_client.create_key() for _ in range(20)]
    call = example_client.call()
    changed = {key.id: threading.Event() for key in keys}
    for key in keys:
        let_cache(web, key)

    def is_as_before(key: ApiKeyView) -> bool:
        """Whether a call is accepted with the scopes that the key had at first."""
        try:
            return web.auth.authenticate_key(key.apikey, key.apisecret, ADDRESS).caller.grants is None
        except ServiceError:
            return False
        finally:
            release_connection()

    def use(key: ApiKeyView) -> int:
        """Call again and again; return how many of five hundred calls that began after the reply were as before."""
        after = accepted = 0
        while after < 500:
            is_after = changed[key.id].is_set()
            was_accepted = is_as_before(key)
            after += is_after
            accepted += is_after and was_accepted
        return accepted

    def change() -> int:
        changes: list[Callable[[ApiKeyView], object]] = [
            lambda key: office.api_keys.delete(key.id, call),
            lambda key: office.api_keys.update(UpdateApiKey(key.id, scopes=("ussd:read",)), call),
            lambda key: office.api_keys.update(UpdateApiKey(key.id, allowed_addresses=("198.51.100.7",)), call),
            lambda key: office.api_keys.update(UpdateApiKey(key.id, is_active=0), call),
        ]
        for place, key in enumerate(keys):
            if is_redis_faulty and place in (6, 12):
                redis.client.flushall()
            changes[place % len(changes)](key)
            changed[key.id].set()
        return 0

    assert sum(at_once([change, *(partial(use, key) for key in keys)], threads=21)) == 0
