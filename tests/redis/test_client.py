"""Every form of address gives a client with short time-outs and no retries; any other is refused."""

from __future__ import annotations

from typing import Any

import pytest
from redis import SSLConnection, UnixDomainSocketConnection
from redis.sentinel import SentinelConnectionPool

from ussd_server.redis.client import connect


def pool_of(url: str, **options: float) -> Any:
    """The pool of the client that an address gives."""
    client: Any = connect(url, **options)
    return client.connection_pool


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1",
        "rediss://127.0.0.1",
        "unix:///run/redis.sock",
        "redis+sentinel://127.0.0.1/main",
    ],
)
def test_every_client_has_short_time_outs_and_never_retries(url: str) -> None:
    options = pool_of(url, timeout_seconds=0.15).connection_kwargs
    assert options["socket_timeout"] == options["socket_connect_timeout"] == 0.15
    assert options["retry"].get_retries() == 0


def test_an_address_names_host_port_database_and_credentials() -> None:
    options = pool_of("redis://app:p%40ss@redis.example:6380/3").connection_kwargs
    assert (options["host"], options["port"], options["db"]) == ("redis.example", 6380, 3)
    assert (options["username"], options["password"]) == ("app", "p@ss")


def test_rediss_is_encrypted() -> None:
    assert issubclass(pool_of("rediss://redis.example").connection_class, SSLConnection)


def test_unix_names_a_socket() -> None:
    pool = pool_of("unix:///run/redis.sock?db=2")
    assert issubclass(pool.connection_class, UnixDomainSocketConnection)
    assert (pool.connection_kwargs["path"], pool.connection_kwargs["db"]) == ("/run/redis.sock", 2)


def test_several_hosts_are_reached_with_tls_only_where_the_address_says_true() -> None:
    pool = pool_of("redis+sentinel://one/main?ssl=true")
    assert issubclass(pool.connection_class, SSLConnection)
    pool = pool_of("redis+sentinel://one/main?ssl=false")
    assert not issubclass(pool.connection_class, SSLConnection)


def test_sentinel_names_its_watchers_the_service_and_two_pairs_of_credentials() -> None:
    pool = pool_of("redis+sentinel://app:secret@one:26380,[::1],three/main/4?sentinel_password=other")
    assert isinstance(pool, SentinelConnectionPool)
    assert pool.service_name == "main"
    assert (pool.connection_kwargs["db"], pool.connection_kwargs["password"]) == (4, "secret")
    watchers = [watcher.connection_pool.connection_kwargs for watcher in pool.sentinel_manager.sentinels]
    assert [(watcher["host"], watcher["port"]) for watcher in watchers] == [
        ("one", 26380),
        ("::1", 26379),
        ("three", 26379),
    ]
    assert {watcher["password"] for watcher in watchers} == {"other"}


@pytest.mark.parametrize(
    "url",
    [
        "http://:secret@127.0.0.1",
        "secret",
        "",
        "redis+sentinel://:secret@127.0.0.1",
        "redis+cluster://:secret@",
        "redis+cluster://:secret@one,,two",
    ],
)
def test_any_other_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="redis") as refusal:
        connect(url)
    assert "secret" not in str(refusal.value)
