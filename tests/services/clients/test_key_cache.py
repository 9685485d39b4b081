"""Nobody enters after the answer that shut them out, whatever processes remember and whatever happens to Redis."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed.valkey import Server, free_port
from tests.support.crowd import at_once
from tests.support.eventually import eventually
from tests.support.example_client import OPERATOR, ExampleClient
from ussd_server.bootstrap import Services, build_services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import database, release_connection
from ussd_server.limits.decisions import tightest
from ussd_server.messages.api_keys import ApiKeyView, DeleteApiKey, ImportApiKey, RotateApiKey
from ussd_server.models.keys import ApiKey, UnseenChanges
from ussd_server.services.clients.key_cache.cache import KeyCache
from ussd_server.services.clients.key_cache.generations import Generations
from ussd_server.settings import Settings
from ussd_server.status import Code, ServiceError

ADDRESS = "192.0.2.1"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Server]:
    """A Redis of this test's own, to be emptied, restored and killed."""
    folder = tmp_path / "redis"
    folder.mkdir()
    server = Server(folder, port=free_port())
    yield server
    server.stop()


@pytest.fixture
def start(settings: Settings) -> Iterator[Callable[[str], Services]]:
    """Start further processes' services on the same database; they end with the test."""
    houses: list[Services] = []

    def build(redis_url: str) -> Services:
        houses.append(build_services(replace(settings, redis_url=redis_url)))
        return houses[-1]

    yield build
    for services in houses:
        services.clients.last_uses.close()
        services.limiter.close()


@pytest.fixture
def web(start: Callable[[str], Services], redis: Server) -> Services:
    """The process that remembers."""
    return start(redis.url)


@pytest.fixture
def office(start: Callable[[str], Services], redis: Server, web: Services) -> Services:
    """The process in which keys are changed."""
    return start(redis.url)


@pytest.fixture
def example_client(office: Services) -> ExampleClient:
    return ExampleClient(office)


def generations_of(services: Services) -> Generations:
    return Generations(services.limiter.pipeline, services.limiter.circuit)


def outcome(web: Services, key: ApiKeyView, secret: str | None = None) -> Code | None:
    """Why the web refuses a call with a key; None when it does not."""
    try:
        decision = web.clients.auth.authenticate_key(key.apikey, secret or key.apisecret, ADDRESS).decision
    except ServiceError as refusal:
        return refusal.code
    finally:
        release_connection()
    return None if decision.accepted else Code.RATE_LIMIT_EXCEEDED


def remember(web: Services, key: ApiKeyView) -> None:
    """Let a process meet a key often enough to remember it."""
    for _ in range(2):
        assert outcome(web, key) is None


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the database is asked from now on."""
    statements: list[str] = []
    real = database.obj.execute_sql

    def note(sql: str, *rest: Any, **more: Any) -> Any:
        statements.append(sql)
        return real(sql, *rest, **more)

    monkeypatch.setattr(database.obj, "execute_sql", note)
    return statements


CHANGES: dict[str, tuple[Code, Callable[[Services, ExampleClient, ApiKeyView], object]]] = {
    "deleted": (
        Code.INVALID_CREDENTIALS,
        lambda office, example_client, key: office.clients.api_keys.delete(DeleteApiKey(key.id), example_client.call()),
    ),
    "disabled": (
        Code.API_KEY_DISABLED,
        lambda office, example_client, key: office.clients.api_keys.set_active(key.apikey, False, OPERATOR),
    ),
    "rotated": (
        Code.INVALID_CREDENTIALS,
        lambda office, example_client, key: office.clients.api_keys.rotate(
            RotateApiKey(key.id, 0), example_client.call()
        ),
    ),
    "stopped with its client": (
        Code.API_KEY_DISABLED,
        lambda office, example_client, key: office.clients.clients.set_active(example_client.id, False, OPERATOR),
    ),
}
every_change = pytest.mark.parametrize("change", CHANGES)


@pytest.mark.parametrize(
    ("secret", "expected"), [(None, None), ("a wrong secret", Code.INVALID_CREDENTIALS)], ids=["right", "wrong"]
)
def test_a_remembered_key_asks_the_database_nothing_and_redis_once(
    web: Services,
    example_client: ExampleClient,
    redis: Server,
    asked: list[str],
    secret: str | None,
    expected: Code | None,
) -> None:
    key = example_client.create_key()
    remember(web, key)
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


def test_calls_of_a_disabled_key_leave_its_quota_whole(
    web: Services, office: Services, example_client: ExampleClient
) -> None:
    key = example_client.create_key()
    remember(web, key)
    office.clients.api_keys.set_active(key.id, False, OPERATOR)
    assert [outcome(web, key) for _ in range(10)] == [Code.API_KEY_DISABLED] * 10
    office.clients.api_keys.set_active(key.id, True, OPERATOR)
    decision = web.clients.auth.authenticate_key(key.apikey, key.apisecret, ADDRESS).decision
    assert tightest(decision.windows).remaining == 97


@every_change
def test_a_process_that_remembers_a_key_refuses_it_right_after_the_answer(
    web: Services, office: Services, example_client: ExampleClient, change: str
) -> None:
    key, (code, make) = example_client.create_key(), CHANGES[change]
    remember(web, key)
    make(office, example_client, key)
    assert outcome(web, key) is code


def test_what_is_opened_again_is_open_at_once(web: Services, office: Services, example_client: ExampleClient) -> None:
    key = example_client.create_key("balance:read")
    remember(web, key)
    office.clients.api_keys.set_active(key.id, False, OPERATOR)
    assert [outcome(web, key) for _ in range(3)] == [Code.API_KEY_DISABLED] * 3
    office.clients.api_keys.set_active(key.id, True, OPERATOR)
    assert outcome(web, key) is None
    rotated = office.clients.api_keys.rotate(RotateApiKey(key.id, 0), example_client.call())
    assert outcome(web, key, rotated.apisecret) is None
    office.clients.api_keys.import_key(
        ImportApiKey(example_client.id, key.apikey, rotated.apisecret, ("ussd:*",)), OPERATOR
    )
    assert web.clients.auth.authenticate_key(key.apikey, rotated.apisecret, ADDRESS).caller.grants == frozenset(
        {"ussd:*"}
    )


@every_change
def test_an_emptied_redis_revives_no_key(
    web: Services, office: Services, example_client: ExampleClient, redis: Server, change: str
) -> None:
    key, (code, make) = example_client.create_key(), CHANGES[change]
    remember(web, key)
    redis.client.flushall()
    make(office, example_client, key)
    redis.client.flushall()
    assert outcome(web, key) is code


@every_change
def test_a_redis_restored_to_the_time_before_revives_no_key(
    web: Services, office: Services, example_client: ExampleClient, redis: Server, change: str
) -> None:
    key, (code, make) = example_client.create_key(), CHANGES[change]
    remember(web, key)
    kept = redis.client.keys("version:*")
    redis.client.save()
    make(office, example_client, key)
    assert redis.client.keys("version:*") == []
    redis.stop()
    redis.start()
    assert redis.client.keys("version:*") == kept, "the old version is there again"
    assert outcome(web, key) is code


@every_change
def test_a_master_that_was_replaced_and_promoted_again_revives_no_key(
    web: Services,
    start: Callable[[str], Services],
    example_client: ExampleClient,
    redis: Server,
    change: str,
    tmp_path: Path,
) -> None:
    key, (code, make) = example_client.create_key(), CHANGES[change]
    remember(web, key)
    example_client.log_in()
    folder = tmp_path / "other"
    folder.mkdir()
    other = Server(folder, "--replicaof", f"127.0.0.1 {redis.port}", port=free_port())
    try:
        await_link(other)
        other.client.replicaof("NO", "ONE")
        put_in_place_of(redis, f"127.0.0.1 {other.port}")
        await_link(redis)
        # The new master dies with what its replica never heard of.
        redis.freeze()
        other.client.execute_command("CLIENT", "KILL", "TYPE", "replica")
        make(start(other.url), example_client, key)
    finally:
        other.stop()
    redis.thaw()
    put_in_place_of(redis, "NO ONE")
    assert redis.client.keys("version:*") != [], "the old version is there again"
    assert outcome(web, key) is code


def put_in_place_of(server: Server, master: str) -> None:
    """Make a server a replica, or a master, and end its connections, as sentinels do."""
    server.client.replicaof(*master.split())
    server.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def await_link(replica: Server) -> None:
    """Wait until a replica follows its master."""
    eventually(lambda: replica.client.info("replication").get("master_link_status") == "up")


@every_change
def test_a_change_that_cannot_reach_redis_is_seen_before_it_is_answered(
    web: Services, start: Callable[[str], Services], example_client: ExampleClient, change: str, tmp_path: Path
) -> None:
    cut_off = start(f"unix://{tmp_path}/nobody.sock")
    key, (code, make) = example_client.create_key(), CHANGES[change]
    remember(web, key)
    make(cut_off, example_client, key)
    assert not web.limiter.away
    assert outcome(web, key) is code
    assert UnseenChanges.select(UnseenChanges.number).scalar() == 1


@every_change
def test_a_process_without_redis_sees_a_change_at_once(
    start: Callable[[str], Services], office: Services, example_client: ExampleClient, change: str, tmp_path: Path
) -> None:
    cut_off = start(f"unix://{tmp_path}/nobody.sock")
    key, (code, make) = example_client.create_key(), CHANGES[change]
    remember(cut_off, key)
    make(office, example_client, key)
    assert outcome(cut_off, key) is code


def test_a_process_that_dies_after_the_change_leaves_no_process_trusting_its_cache(
    web: Services, office: Services, example_client: ExampleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, call = example_client.create_key(), example_client.call()
    remember(web, key)

    def die(*_: object) -> bool:
        raise SystemExit

    monkeypatch.setattr(Generations, "release", die)
    with pytest.raises(SystemExit):
        office.clients.api_keys.delete(DeleteApiKey(key.id), call)
    assert outcome(web, key) is Code.INVALID_CREDENTIALS


def test_a_key_under_change_is_read_from_the_database_at_every_call(
    web: Services, office: Services, example_client: ExampleClient, asked: list[str]
) -> None:
    key = example_client.create_key()
    remember(web, key)
    generations_of(office).hold(example_client.id)
    asked.clear()
    assert [outcome(web, key) for _ in range(5)] == [None] * 5
    assert len([sql for sql in asked if "api_keys" in sql]) == 5


@every_change
def test_a_change_that_loses_redis_midway_is_seen_before_it_is_answered(
    web: Services,
    office: Services,
    example_client: ExampleClient,
    redis: Server,
    change: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key, (code, make), hold = example_client.create_key(), CHANGES[change], Generations.hold

    def hold_and_lose(generations: Generations, subject: str) -> str | None:
        marker = hold(generations, subject)
        redis.client.delete(f"version:{subject}")
        remember(web, key)
        return marker

    monkeypatch.setattr(Generations, "hold", hold_and_lose)
    monkeypatch.setattr(Generations, "release", lambda *_: False)
    make(office, example_client, key)
    assert outcome(web, key) is code


def test_the_cache_has_a_maximum_size(
    example_client: ExampleClient, office: Services, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ussd_server.services.clients.key_cache.cache._MAX_ENTRIES", 2)
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


@pytest.mark.parametrize("is_first_done_first", [True, False])
def test_a_change_that_ends_leaves_the_hold_of_another_change_alone(
    web: Services, office: Services, example_client: ExampleClient, asked: list[str], is_first_done_first: bool
) -> None:
    key, generations = example_client.create_key(), generations_of(office)
    remember(web, key)
    first, second = generations.hold(example_client.id), generations.hold(example_client.id)
    if not is_first_done_first:
        first, second = second, first
    assert generations.release(example_client.id, first)
    asked.clear()
    assert [outcome(web, key) for _ in range(3)] == [None] * 3
    assert len([sql for sql in asked if "api_keys" in sql]) == 3
    assert generations.release(example_client.id, second)
    remember(web, key)
    asked.clear()
    assert outcome(web, key) is None
    assert [sql for sql in asked if "unseen_changes" not in sql] == []


def test_a_hold_that_lapsed_ends_what_was_remembered_meanwhile_and_no_other_hold(
    web: Services, office: Services, example_client: ExampleClient, asked: list[str], redis: Server
) -> None:
    key, generations = example_client.create_key(), generations_of(office)
    lapsed = generations.hold(example_client.id)
    redis.client.delete(f"version:{example_client.id}")
    remember(web, key)
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


def test_a_change_that_is_refused_lets_the_key_be_remembered_again(
    web: Services, office: Services, example_client: ExampleClient, asked: list[str]
) -> None:
    key = example_client.create_key()
    with pytest.raises(ServiceError):
        office.clients.api_keys.delete(DeleteApiKey(example_client.id), example_client.call())
    remember(web, key)
    asked.clear()
    assert outcome(web, key) is None
    assert [sql for sql in asked if "unseen_changes" not in sql] == []


def test_a_redis_that_does_not_say_which_run_it_is_proves_nothing(
    start: Callable[[str], Services], example_client: ExampleClient, tmp_path: Path
) -> None:
    silent = Server(tmp_path, "--rename-command", "INFO", "")
    try:
        services = start(silent.url)
        assert generations_of(services).read(example_client.id) is None
        key = example_client.create_key()
        remember(services, key)
        assert not services.limiter.away
    finally:
        silent.stop()


def is_cached(cache: KeyCache, key: ApiKeyView) -> bool:
    """Whether a look-up of the key gives a proof instead of reading the database."""
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
    assert [is_cached(cache, key) for _ in range(2)] == [False, True]


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


def test_of_ten_thousand_calls_after_the_answers_none_is_accepted(
    web: Services, office: Services, example_client: ExampleClient
) -> None:
    keys = [example_client.create_key() for _ in range(20)]
    call = example_client.call()
    deleted = {key.id: threading.Event() for key in keys}
    for key in keys:
        remember(web, key)

    def use(key: ApiKeyView) -> int:
        """Call on and on; gives how many of five hundred calls that began after the answer were accepted."""
        after = accepted = 0
        while after < 500:
            is_after = deleted[key.id].is_set()
            is_accepted = outcome(web, key) is None
            after += is_after
            accepted += is_after and is_accepted
        return accepted

    def delete() -> int:
        for key in keys:
            office.clients.api_keys.delete(DeleteApiKey(key.id), RequestContext(call.caller))
            deleted[key.id].set()
        return 0

    assert sum(at_once([delete, *(partial(use, key) for key in keys)], threads=21)) == 0
    assert ApiKey.select().count() == 0
