"""A key under change is read from the database until every change of it has ended."""

from __future__ import annotations

import pytest

from testbed.valkey import Server
from tests.services.clients.key_cache.changes import generations_of, let_cache, outcome
from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.services.clients.key_cache import Generations
from ussd_server.status import Code, ServiceError


def test_a_process_that_dies_after_the_change_leaves_no_process_trusting_its_cache(
    web: Services, office: Services, example_client: ExampleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, call = example_client.create_key(), example_client.call()
    let_cache(web, key)

    def die(*_: object) -> bool:
        raise SystemExit

    monkeypatch.setattr(Generations, "release", die)
    with pytest.raises(SystemExit):
        office.api_keys.delete(key.id, call)
    assert outcome(web, key) is Code.INVALID_CREDENTIALS


def test_a_key_under_change_is_read_from_the_database_at_every_call(
    web: Services, office: Services, example_client: ExampleClient, asked: list[str]
) -> None:
    key = example_client.create_key()
    let_cache(web, key)
    generations_of(office).hold(example_client.id)
    asked.clear()
    assert [outcome(web, key) for _ in range(5)] == [None] * 5
    assert len([sql for sql in asked if "api_keys" in sql]) == 5


@pytest.mark.parametrize("is_first_done_first", [True, False])
def test_a_change_that_ends_leaves_the_hold_of_another_change_alone(
    web: Services, office: Services, example_client: ExampleClient, asked: list[str], is_first_done_first: bool
) -> None:
    key, generations = example_client.create_key(), generations_of(office)
    let_cache(web, key)
    first, second = generations.hold(example_client.id), generations.hold(example_client.id)
    if not is_first_done_first:
        first, second = second, first
    assert generations.release(example_client.id, first)
    asked.clear()
    assert [outcome(web, key) for _ in range(3)] == [None] * 3
    assert len([sql for sql in asked if "api_keys" in sql]) == 3
    assert generations.release(example_client.id, second)
    let_cache(web, key)
    asked.clear()
    assert outcome(web, key) is None
    assert [sql for sql in asked if "unseen_changes" not in sql] == []


def test_a_hold_that_lapsed_ends_what_was_cached_since_and_no_other_hold(
    web: Services, office: Services, example_client: ExampleClient, asked: list[str], redis: Server
) -> None:
    key, generations = example_client.create_key(), generations_of(office)
    lapsed = generations.hold(example_client.id)
    redis.client.delete(f"version:{example_client.id}")
    let_cache(web, key)
    generations.release(example_client.id, lapsed)
    asked.clear()
    assert outcome(web, key) is None
    assert [sql for sql in asked if "api_keys" in sql]
    held = generations.hold(example_client.id)
    generations.release(example_client.id, lapsed)
    generations.release(example_client.id, None)
    assert generations.read(example_client.id) is None
    assert 0 < redis.client.ttl(f"version:{example_client.id}") <= 60
    generations.release(example_client.id, held)
    assert generations.read(example_client.id) is not None


def test_after_a_change_that_is_refused_the_key_is_cached_again(
    web: Services, office: Services, example_client: ExampleClient, asked: list[str]
) -> None:
    key = example_client.create_key()
    with pytest.raises(ServiceError):
        office.api_keys.delete(example_client.id, example_client.call())
    let_cache(web, key)
    asked.clear()
    assert outcome(web, key) is None
    assert [sql for sql in asked if "unseen_changes" not in sql] == []
