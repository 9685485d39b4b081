"""The way to Redis: a client for every form of address, and the circuit that spares callers a server that is away."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import SplitResult, unquote, urlsplit

from hiredis import pack_command
from redis import Redis, RedisCluster, RedisError
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.connection import parse_url
from redis.exceptions import ConnectionError as ConnectionLostError
from redis.exceptions import RedisClusterException, ResponseError
from redis.retry import Retry
from redis.sentinel import Sentinel

from ussd_server.batches import Batches, BatchLostError

RedisClient = Redis | RedisCluster
Answer = TypeVar("Answer")
Command = tuple[str | int, ...]

# The process, and its history of writes: every promotion begins a new one.
_IDENTITIES = (
    ("server", re.compile(rb"^run_id:(\w+)", re.MULTILINE)),
    ("replication", re.compile(rb"^master_replid:(\w+)", re.MULTILINE)),
)

# The cluster client raises a family of its own, and looks host names up outside any family.
REDIS_TROUBLE = (RedisError, RedisClusterException, OSError)


def connect(url: str, *, timeout_seconds: float = 0.2) -> RedisClient:
    """Make a client that never retries and waits at most `timeout_seconds` for a connection or an answer.

    `url` is one of `redis://`, `rediss://`, `unix:///path`, `redis+cluster://host:port,host:port` and
    `redis+sentinel://host:port,host:port/service[/db]`. Credentials in the address are those of the data servers;
    sentinels with their own take `?sentinel_username=` and `?sentinel_password=`.
    Only the cluster form speaks to a server here (it must learn the slots) and may raise one of `REDIS_TROUBLE`.
    Raises ValueError, without repeating the address, for anything else.
    """
    waits: dict[str, Any] = {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "retry": Retry(NoBackoff(), 0),
    }
    address = urlsplit(url)
    match address.scheme:
        case "redis" | "rediss" | "unix":
            return Redis.from_url(url, **waits)
        case "redis+cluster":
            endpoints = _endpoints(address, default_port=6379)
            nodes = [ClusterNode(host, port) for host, port in endpoints]  # type: ignore[no-untyped-call]
            return RedisCluster(startup_nodes=nodes, **waits | _options(address, database=None))
        case "redis+sentinel":
            service, _, database = address.path.strip("/").partition("/")
            if not service:
                raise ValueError("a redis+sentinel:// address needs the name of the service: host:port/service")
            options = waits | _options(address, database=database or "0")
            own = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
            endpoints = _endpoints(address, default_port=26379)
            sentinels = Sentinel(endpoints, sentinel_kwargs=waits | own, **options)  # type: ignore[no-untyped-call]
            master: Redis = sentinels.master_for(unquote(service))  # type: ignore[no-untyped-call]
            return master
        case _:
            raise ValueError("an address of Redis begins with redis, rediss, unix, redis+cluster or redis+sentinel")


def takes_writes_alone(client: RedisClient) -> bool:
    """Whether a master that is cut off from its replicas goes on taking writes; False also when it does not tell."""
    try:
        told: Any = client.config_get("min-replicas-to-write")
    except REDIS_TROUBLE:
        return False
    return bool(told.get("min-replicas-to-write") == "0")


def is_address(url: str) -> bool:
    """Whether `connect` takes this address; no server is asked."""
    try:
        address = urlsplit(url)
        if address.scheme == "redis+cluster":
            _endpoints(address, default_port=6379)
            _options(address, database=None)
        else:
            connect(url)
    except ValueError:
        return False
    return True


def hosts_of(url: str) -> list[str | None]:
    """The hosts that an address of Redis names; None for one that names none, as that of a unix socket."""
    return [urlsplit(f"//{host}").hostname for host in urlsplit(url).netloc.rpartition("@")[2].split(",")]


def _endpoints(address: SplitResult, default_port: int) -> list[tuple[str, int]]:
    """Read the comma-separated hosts of an address; IPv6 hosts stand in brackets."""
    hosts = [urlsplit(f"//{host}") for host in address.netloc.rpartition("@")[2].split(",")]
    if not all(host.hostname for host in hosts):
        raise ValueError("a redis address names a host before every comma and after the last")
    return [(host.hostname or "", host.port or default_port) for host in hosts]


def _options(address: SplitResult, database: str | None) -> dict[str, Any]:
    """Read credentials and query options of an address with several hosts as redis-py reads those with one."""
    credentials, at, _ = address.netloc.rpartition("@")
    path = "" if database is None else f"/{database}"
    one_host = f"redis://{credentials}{at}{path}?{address.query}"
    options: dict[str, Any] = parse_url(one_host)  # type: ignore[no-untyped-call]
    return options


class _Question:
    """One command on its way, and its answer. Without a command it asks for the server run."""

    __slots__ = ("answer", "command", "within_run")

    def __init__(self, command: Command, within_run: str | None) -> None:
        self.command = command
        self.within_run = within_run
        self.answer: Any = None


class RedisPipeline:
    """One connection, on which requests that ask Redis at the same moment share a round trip.

    A check-out of redis-py's pool for every command takes three times as long.
    """

    def __init__(self, client: Callable[[], RedisClient]) -> None:
        """`client` gives the client whose server is asked; a cluster is asked through the client itself."""
        self._client = client
        self._connection: Any = None
        self._server_run = ""
        self._batches = Batches(self._ask_all, was_undone=lambda _: False)

    def ask(self, *command: str | int, within_run: str | None = None) -> Any:
        """Send one command and return its answer; None, and nothing is sent, in another than the server run asked for.

        Raises one of `REDIS_TROUBLE`.
        """
        client = self._client()
        if type(client) is RedisCluster:  # a look at the protocols that it keeps would take longer
            return None if within_run else client.execute_command(*command)  # type: ignore[no-untyped-call]
        answer = self._ask(_Question(command, within_run))
        try:
            if isinstance(answer, Exception):
                raise answer
            return answer
        finally:
            # The frames of what failed, and all that they hold, would live until the garbage collector runs.
            del answer

    def server_run(self) -> str:
        """What tells this run of the server, and this reign of it as a master, from every other.

        As it told this connection; empty where it cannot be told. What a server of another run or reign holds may be
        older than what was written last: it was restored, or promoted. Raises one of `REDIS_TROUBLE`.
        """
        if type(self._client()) is RedisCluster:
            return ""
        return cast(str, self._ask(_Question((), None)))

    def _ask(self, question: _Question) -> Any:
        try:
            self._batches.do(question)
        except BatchLostError:
            raise ConnectionLostError("the server failed while it was asked") from None
        return question.answer

    def _ask_all(self, asked: Sequence[_Question]) -> None:
        client: Any = self._client()
        done = 0
        try:
            while done < len(asked):
                is_fresh = self._stand(client)
                done += self._ask_the_rest(asked[done:], is_fresh)
        except BaseException:
            # Answers that were not read belong to nobody else.
            if self._connection is not None:
                self._connection.disconnect()
            raise

    def _ask_the_rest(self, asked: Sequence[_Question], is_fresh: bool) -> int:
        """One trip; returns how many were answered. Fewer than all when the connection had been closed while idle."""
        is_sent = [bool(each.command) and each.within_run in (None, self._server_run) for each in asked]
        # The library's own way through its packer takes as long as the server.
        packed = [pack_command(each.command) for each, sent in zip(asked, is_sent, strict=True) if sent]  # type: ignore[arg-type]
        done = 0
        try:
            if packed:
                self._connection.send_packed_command([b"".join(packed)], check_health=False)
            for each, sent in zip(asked, is_sent, strict=True):
                each.answer = self._read_answer() if sent else None if each.command else self._server_run
                done += 1
        except ConnectionLostError:
            # The server closes connections that lie idle. One that is silent, which is another error, is not asked
            # twice.
            if is_fresh:
                raise
            return done
        if not (all(is_sent) or is_fresh) and any(each.within_run for each in asked):
            # A server begins a new history without closing connections, too: let it be asked again.
            self._connection.disconnect()
        return done

    def _read_answer(self) -> Any:
        try:
            return self._connection.read_response()
        except ResponseError as refusal:
            return refusal

    def _stand(self, client: Redis) -> bool:
        """See to it that there is a connection; tells whether it is a new one."""
        pool = client.connection_pool
        if self._connection is None:
            self._connection = pool.make_connection()
        if self._connection.is_connected:
            # What one connection learns of a new master is for all: the old one may not know of it yet.
            sentinels = getattr(pool, "proxy", None)
            if sentinels is None or sentinels.master_address == (self._connection.host, self._connection.port):
                return False
            self._connection.disconnect()
        self._connection.connect()
        self._server_run = self._ask_for_run()
        return True

    def _ask_for_run(self) -> str:
        found = []
        for section, identity in _IDENTITIES:
            self._connection.send_command("INFO", section, check_health=False)
            try:
                told = self._connection.read_response()
            except ResponseError:
                return ""
            found += identity.findall(told if isinstance(told, bytes) else told.encode())
        return b"/".join(found).decode() if len(found) == len(_IDENTITIES) else ""


class RedisAwayError(Exception):
    """Redis cannot be asked now; the caller uses what it has without it."""


class Circuit:
    """Keeps callers away from a server that failed, until a probe on its own thread has succeeded.

    No caller pays for finding out whether the server is back, and none waits for another (docs/DECISIONS.md, 11).
    """

    def __init__(self, probe: Callable[[], bool], on_change: Callable[[bool], None], rest_seconds: float) -> None:
        """`probe` tells whether the server works again and is asked every `rest_seconds` while it is away.

        `on_change(away)` is called once per change of state and must not raise.
        """
        self._probe = probe
        self._on_change = on_change
        self._rest_seconds = rest_seconds
        self._changing = threading.Lock()
        self._closed = threading.Event()
        self._prober: threading.Thread | None = None
        self.away = False

    def call(self, work: Callable[[], Answer]) -> Answer:
        """Do `work`; raise RedisAwayError when the server fails it, and at once, without trying, while it is away."""
        if self.away:
            self._keep_probing()
            raise RedisAwayError
        try:
            return work()
        except REDIS_TROUBLE as trouble:
            self._open()
            raise RedisAwayError from trouble

    def close(self) -> None:
        """Stop probing for good."""
        self._closed.set()

    def _open(self) -> None:
        with self._changing:
            if self.away:
                return
            self.away = True
        self._on_change(True)
        self._keep_probing()

    def _keep_probing(self) -> None:
        # A thread does not survive a fork, so a worker that was born while Redis was away starts its own.
        if self._prober is not None and self._prober.is_alive():
            return
        with self._changing:
            if self.away and not self._closed.is_set() and (self._prober is None or not self._prober.is_alive()):
                self._prober = threading.Thread(target=self._probe_until_back, name="redis-probe", daemon=True)
                self._prober.start()

    def _probe_until_back(self) -> None:
        while not self._closed.wait(self._rest_seconds):
            if self._probe():
                self.away = False
                self._on_change(False)
                return
