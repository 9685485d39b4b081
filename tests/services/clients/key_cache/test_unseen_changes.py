"""The cache counts the changes that Redis did not see, and has a maximum size."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database
from ussd_server.models.keys import UnseenChanges
from ussd_server.services.clients.key_cache import KeyCache
from ussd_server.services.clients.keys.messages import ApiKeyView


def test_the_cache_has_a_maximum_size(
    example_client: ExampleClient, office: Services, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ussd_server.services.clients.key_cache._MAX_ENTRIES", 2)
    cache = KeyCache(office.limiter.pipeline, office.limiter.circuit, monotonic=lambda: 0.0)
    keys = [example_client.create_key() for _ in range(3)]
    for key in keys:
        cache_key(cache, key)
    assert [is_cached(cache, key) for key in reversed(keys)] == [True, True, False]


def test_a_count_of_unseen_changes_is_as_old_as_the_start_of_its_query(
    example_client: ExampleClient, office: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, real = [0.0], database.obj.execute_sql
    cache = KeyCache(office.limiter.pipeline, office.limiter.circuit, monotonic=lambda: time[0])
    key = example_client.create_key()
    cache_key(cache, key)

    def slowly(sql: str, *rest: Any, **more: Any) -> Any:
        answer = real(sql, *rest, **more)
        time[0] += 1.2 if "unseen_changes" in sql else 0
        return answer

    monkeypatch.setattr(database.obj, "execute_sql", slowly)
    time[0] = 5.0
    assert not is_cached(cache, key)


def is_cached(cache: KeyCache, key: ApiKeyView) -> bool:
    """Whether looking up the key returns a proof instead of reading the database."""
    found = cache.look_up(key.apikey)
    assert found is not None
    return found.proof is not None


def cache_key(cache: KeyCache, key: ApiKeyView) -> None:
    """The first look-up finds the key's client, the second one its generation."""
    assert [is_cached(cache, key) for _ in range(3)] == [False, False, True]


def test_a_slow_count_of_unseen_changes_makes_other_calls_read_the_database(
    example_client: ExampleClient, office: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, real = [0.0], database.obj.execute_sql
    cache = KeyCache(office.limiter.pipeline, office.limiter.circuit, monotonic=lambda: time[0])
    key, meanwhile = example_client.create_key(), list[bool]()
    cache_key(cache, key)

    def slowly(sql: str, *rest: Any, **more: Any) -> Any:
        if "unseen_changes" in sql:
            for time[0] in (0.9, 1.1):
                meanwhile.append(is_cached(cache, key))
        return real(sql, *rest, **more)

    monkeypatch.setattr(database.obj, "execute_sql", slowly)
    time[0] = 0.8
    is_cached(cache, key)
    assert meanwhile == [True, False]
    monkeypatch.undo()
    assert is_cached(cache, key), "the count is the same, so the key that was cached before it still holds"


def test_a_key_read_before_an_unseen_change_is_not_used_after_it(
    example_client: ExampleClient, office: Services
) -> None:
    time = [0.0]
    cache = KeyCache(office.limiter.pipeline, office.limiter.circuit, monotonic=lambda: time[0])
    key = example_client.create_key()
    cache_key(cache, key)
    UnseenChanges.update(number=UnseenChanges.number + 1).execute()
    time[0] = 0.6
    assert not is_cached(cache, key)
