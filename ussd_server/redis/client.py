"""Redis clients: one for every form of address."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from redis import DriverInfo, Redis, RedisCluster, RedisError, __version__
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.connection import parse_url
from redis.exceptions import ConnectionError as ConnectionLostError
from redis.exceptions import ReadOnlyError, RedisClusterException
from redis.retry import Retry
from redis.sentinel import Sentinel

RedisClient = Redis | RedisCluster

# What a client raises when Redis fails. The cluster client has exceptions of its own and lets OSError through.
REDIS_ERRORS = (RedisError, RedisClusterException, OSError)

# The library takes 0 for the usual port.
_PORT_ZERO = "a redis address names a port from 1 to 65535"

# Without a version the library reads that of its installed package for each new connection.
_DRIVER = DriverInfo(lib_version=__version__)

TIMEOUT_SECONDS = 0.2
"""How long a request waits for Redis before it continues without it."""


class _ServiceBehindSentinels(Redis):
    """The client of a master whose address sentinels know."""

    def close(self) -> None:
        super().close()
        pool: Any = self.connection_pool
        for sentinel in pool.sentinel_manager.sentinels:
            sentinel.close()


def connect(url: str, *, timeout_seconds: float | None = None) -> RedisClient:
    """Make a client that never retries and waits at most `timeout_seconds` for a connection or a reply.

    Without `timeout_seconds` it waits `TIMEOUT_SECONDS`.

    `url` is one of `redis://`, `rediss://`, `unix:///path`, `redis+cluster://host:port,host:port` and
    `redis+sentinel://host:port,host:port/service[/db]`. Credentials in the address are those of the data servers;
    sentinels with their own take `?sentinel_username=` and `?sentinel_password=`.
    Only the cluster form connects at once, to learn the slots, and may raise one of `REDIS_ERRORS`.
    Raises ValueError, without repeating the address, for any other address.
    """
    seconds = TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds
    timeouts: dict[str, Any] = {
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "retry": Retry(NoBackoff(), 0),
        "driver_info": _DRIVER,
    }
    address = urlsplit(url)
    match address.scheme:
        case "redis" | "rediss" | "unix":
            if address.port == 0:
                raise ValueError(_PORT_ZERO)
            client = Redis.from_url(url, **timeouts)
            client.connection_pool.connection_class = _leaving_replicas(client.connection_pool.connection_class)
            return client
        case "redis+cluster":
            endpoints = _endpoints(address, default_port=6379)
            nodes = [ClusterNode(host, port) for host, port in endpoints]  # type: ignore[no-untyped-call]
            return RedisCluster(startup_nodes=nodes, **timeouts | _options(address, database=None))
        case "redis+sentinel":
            service, _, database = address.path.strip("/").partition("/")
            if not service:
                raise ValueError("a redis+sentinel:// address needs the name of the service: host:port/service")
            options = timeouts | _options(address, database=database or "0")
            own = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
            endpoints = _endpoints(address, default_port=26379)
            sentinels = Sentinel(endpoints, sentinel_kwargs=timeouts | own, **options)  # type: ignore[no-untyped-call]
            master: Redis = sentinels.master_for(unquote(service), _ServiceBehindSentinels)  # type: ignore[no-untyped-call]
            return master
        case _:
            raise ValueError("an address of Redis begins with redis, rediss, unix, redis+cluster or redis+sentinel")


@cache
def _leaving_replicas(base: type[Any]) -> type[Any]:
    """Return a class of connections that close when their server became a replica.

    The same address may lead to its successor, and the library keeps an open connection.
    """

    class LeavingConnection(base):  # type: ignore[misc]
        def read_response(self, *arguments: Any, **named: Any) -> Any:
            try:
                return super().read_response(*arguments, **named)
            except ReadOnlyError:
                self.disconnect()
                raise ConnectionLostError("the server became a replica") from None

    return LeavingConnection


def accepts_writes_alone(client: RedisClient) -> bool:
    """Whether a master without its replicas still accepts writes; False also when the server does not say."""
    try:
        setting: Any = client.config_get("min-replicas-to-write")
    except REDIS_ERRORS:
        return False
    return bool(setting.get("min-replicas-to-write") == "0")


def is_address(url: str) -> bool:
    """Whether `connect` accepts this address; connects to no server."""
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
    """The hosts of a Redis address; None for an address without a host, such as that of a unix socket."""
    return [urlsplit(f"//{host}").hostname for host in urlsplit(url).netloc.rpartition("@")[2].split(",")]


def _endpoints(address: SplitResult, default_port: int) -> list[tuple[str, int]]:
    """Parse the comma-separated hosts of an address; IPv6 hosts stand in brackets."""
    hosts = [urlsplit(f"//{host}") for host in address.netloc.rpartition("@")[2].split(",")]
    if not all(host.hostname for host in hosts):
        raise ValueError("a redis address names a host before every comma and after the last")
    if any(host.port == 0 for host in hosts):
        raise ValueError(_PORT_ZERO)
    return [(host.hostname or "", host.port or default_port) for host in hosts]


def _options(address: SplitResult, database: str | None) -> dict[str, Any]:
    """Read credentials and query options of an address with several hosts as redis-py reads those with one."""
    credentials, at, _ = address.netloc.rpartition("@")
    path = "" if database is None else f"/{database}"
    one_host = f"redis://{credentials}{at}{path}?{address.query}"
    options: dict[str, Any] = parse_url(one_host)  # type: ignore[no-untyped-call]
    # redis-py leaves this one a text, and uses TLS for every text.
    if "ssl" in options:
        options["ssl"] = options["ssl"] == "true"
    return options
