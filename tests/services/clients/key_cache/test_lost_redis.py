"""Whatever happens to Redis, a process refuses a key right after the reply to its deletion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.ports import free_port
from testbed.valkey import Server
from tests.services.clients.key_cache.changes import CHANGES, every_change, generations_of, let_cache, outcome
from tests.support.eventually import eventually
from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.models.keys import UnseenChanges
from ussd_server.services.clients.key_cache import Generations

pytestmark = pytest.mark.slow


@every_change
def test_an_emptied_redis_revives_no_key(
    web: Services, office: Services, example_client: ExampleClient, redis: Server, change: str
) -> None:
    key, (code, make) = example_client.create_key(), CHANGES[change]
    let_cache(web, key)
    redis.client.flushall()
    make(office, example_client, key)
    redis.client.flushall()
    assert outcome(web, key) is code


@every_change
def test_a_redis_restored_to_the_time_before_revives_no_key(
    web: Services, office: Services, example_client: ExampleClient, redis: Server, change: str
) -> None:
    key, (code, make) = example_client.create_key(), CHANGES[change]
    let_cache(web, key)
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
    let_cache(web, key)
    example_client.log_in()
    folder = tmp_path / "other"
    folder.mkdir()
    other = Server(folder, "--replicaof", f"127.0.0.1 {redis.port}", port=free_port())
    try:
        await_link(other)
        other.client.replicaof("NO", "ONE")
        put_in_place_of(redis, f"127.0.0.1 {other.port}")
        await_link(redis)
        # The new master dies with changes that its replica never received.
        redis.freeze()
        other.client.execute_command("CLIENT", "KILL", "TYPE", "replica")
        # Its owner signs in there too: the frozen one would be waited for.
        example_client.services = start(other.url)
        make(example_client.services, example_client, key)
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
    let_cache(web, key)
    make(cut_off, example_client, key)
    assert not web.limiter.is_away()
    assert outcome(web, key) is code
    assert UnseenChanges.select(UnseenChanges.number).scalar() == 1


@every_change
def test_a_process_without_redis_sees_a_change_at_once(
    start: Callable[[str], Services], office: Services, example_client: ExampleClient, change: str, tmp_path: Path
) -> None:
    cut_off = start(f"unix://{tmp_path}/nobody.sock")
    key, (code, make) = example_client.create_key(), CHANGES[change]
    let_cache(cut_off, key)
    make(office, example_client, key)
    assert outcome(cut_off, key) is code


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
        let_cache(web, key)
        return marker

    monkeypatch.setattr(Generations, "hold", hold_and_lose)
    monkeypatch.setattr(Generations, "release", lambda *_: False)
    make(office, example_client, key)
    assert outcome(web, key) is code


def test_a_redis_that_does_not_say_which_run_it_is_proves_nothing(
    start: Callable[[str], Services], example_client: ExampleClient, tmp_path: Path
) -> None:
    silent = Server(tmp_path, "--rename-command", "INFO", "")
    try:
        services = start(silent.url)
        assert generations_of(services).read(example_client.id) is None
        key = example_client.create_key()
        let_cache(services, key)
        assert not services.limiter.is_away()
    finally:
        silent.stop()
