"""A real server for tests of limits and Redis, beside fakeredis."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import fakeredis
import pytest
import time_machine

from testbed.valkey import Server
from ussd_server.limits.sliding_window import SlidingWindowStorage


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start servers that end with the test."""
    servers: list[Server] = []

    def start(*options: str, port: int = 0) -> Server:
        folder = tmp_path / str(len(servers))
        folder.mkdir()
        servers.append(Server(folder, *options, port=port))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    """A server of this test's own, to be frozen, filled and killed."""
    return start_server()


@pytest.fixture(scope="session")
def shared_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real server that all tests share: the pipeline's Redis, or a Valkey started here."""
    if given := os.environ.get("USSD_TEST_REDIS_URL"):
        yield given
        return
    server = Server(tmp_path_factory.mktemp("valkey"))
    yield server.url
    server.stop()


@pytest.fixture(params=["fakeredis", "server"])
def make_storage(request: pytest.FixtureRequest) -> Iterator[Callable[[], SlidingWindowStorage]]:
    """Make storages of the same logs, each with a client of its own, as separate workers have them.

    For fakeredis, which is slow, the clock stands still.
    """
    fake = fakeredis.FakeServer()
    prefix = f"limit-{uuid4()}"  # The pipeline's Redis serves several tests at once.
    made: list[SlidingWindowStorage] = []

    def make() -> SlidingWindowStorage:
        client: Any = None if request.param == "server" else fakeredis.FakeRedis(server=fake)
        url = request.getfixturevalue("shared_url") if client is None else "redis://fake"
        # Two cores under a burst of threads are slow, not away.
        made.append(SlidingWindowStorage(url, client=client, timeout_seconds=10, key_prefix=prefix))
        return made[-1]

    with nullcontext() if request.param == "server" else time_machine.travel(datetime.now(UTC), tick=False):
        yield make
        client: Any = make().client
        for key in client.scan_iter(match=f"{prefix}:*"):
            client.delete(key)
        for each in made:
            each.close()


@pytest.fixture
def storage(make_storage: Callable[[], SlidingWindowStorage]) -> SlidingWindowStorage:
    """One storage, empty."""
    return make_storage()


# In one step, because a key may expire between two.
MAKE_OLDER = """
local log, microseconds = KEYS[1], tonumber(ARGV[1])
for index = 0, redis.call('LLEN', log) - 1 do
  local at, rest = string.match(redis.call('LINDEX', log, index), '^(%d+)(.*)$')
  redis.call('LSET', log, index, string.format('%.0f', at - microseconds) .. rest)
end
redis.call('PEXPIRE', log, redis.call('PTTL', log) - math.floor(microseconds / 1000))
"""


@pytest.fixture
def let_pass() -> Callable[[SlidingWindowStorage, float], None]:
    """Move time without moving a clock, by making the accept times older: a script sees no difference."""

    def make_older(storage: SlidingWindowStorage, seconds: float) -> None:
        client: Any = storage.client
        for key in client.keys(f"{storage.key_prefix}:*"):
            client.eval(MAKE_OLDER, 1, key, round(seconds * 1_000_000))

    return make_older
