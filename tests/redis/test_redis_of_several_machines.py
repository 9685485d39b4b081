"""A cluster and a service behind sentinels do all that one Redis does: limits, wake-up signals, provider outages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from limits import parse_many
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from testbed.ports import free_port
from testbed.valkey import Server
from tests.support.eventually import eventually
from ussd_server.limits.limiter import Limiter, Policy
from ussd_server.limits.sliding_window import SlidingWindowStorage
from ussd_server.redis.client import REDIS_ERRORS, accepts_writes_alone, connect
from ussd_server.redis.pipeline import RedisPipeline
from ussd_server.redis.signals import ProviderOutages, WakeUpSignal

KEYS = Policy("data-key", tuple(parse_many("100/minute;1000/hour")))
PATIENCE_SECONDS = 60

Start = Callable[..., Server]


def cluster(start: Start, _: Path) -> str:
    """Three machines that share the slots."""
    nodes = [start("--cluster-enabled", "yes", "--cluster-port", str(free_port()), port=free_port()) for _ in range(3)]
    for number, node in enumerate(nodes):
        node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 5461 * number, 5461 * (number + 1) - 1 + number // 2)
    buses = [node.client.config_get("cluster-port")["cluster-port"] for node in nodes]
    for node, bus in zip(nodes, buses, strict=True):
        nodes[0].client.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
    for node in nodes:
        eventually(lambda node=node: b"cluster_known_nodes:3" in info(node) and b"cluster_state:ok" in info(node))
    return f"redis+cluster://127.0.0.1:{nodes[0].port},127.0.0.1:{nodes[1].port}"


def info(node: Server) -> bytes:
    """A node's report about its cluster."""
    return node.client.execute_command("CLUSTER", "INFO", NEVER_DECODE=True)


def sentinels(start: Start, folder: Path) -> str:
    """A service that one sentinel watches."""
    return watched(start, folder)[0]


def watched(start: Start, folder: Path) -> tuple[str, Server, Server]:
    """A service with a replica that a sentinel would put in its place: its address, the master and the sentinel.

    The sentinel waits an hour for a master that is silent, until `hasten` is called.
    """
    master = start(port=free_port())
    start("--replicaof", f"127.0.0.1 {master.port}", port=free_port())
    # A sentinel that begins before the replica has come looks for it again only after ten seconds.
    eventually(lambda: replica_of(master).get("state") == "online")
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"sentinel monitor main 127.0.0.1 {master.port} 1\nsentinel down-after-milliseconds main 3600000\n"
        "sentinel failover-timeout main 2000\n"
    )
    sentinel = start(str(settings), "--sentinel", port=free_port())
    return f"redis+sentinel://127.0.0.1:{sentinel.port}/main", master, sentinel


def hasten(sentinel: Server) -> None:
    """Let a sentinel declare a silent master lost soon, but not so soon that a busy machine counts as lost."""
    sentinel.client.execute_command("SENTINEL", "SET", "main", "down-after-milliseconds", 500)


def replica_of(master: Server) -> dict[str, Any]:
    """The state of a master's replica, as the master reports it."""
    replication: dict[str, Any] = master.client.info("replication")
    return replication.get("slave0", {})


def await_servers(url: str) -> None:
    """Wait until the servers behind an address have found each other and accept writes."""

    def write() -> None:
        client: Any
        with closing(connect(url, timeout_seconds=1)) as client:
            client.set("ready", 1)

    Retry(ConstantBackoff(0.05), 600, supported_errors=REDIS_ERRORS).call_with_retry(write, lambda _: None)


Keep = Callable[[Any], Any]


@pytest.fixture
def keep() -> Iterator[Keep]:
    """Closes what it is given when the test ends."""
    with ExitStack() as kept:
        yield lambda given: kept.enter_context(closing(given))


def limiter_on(url: str) -> Limiter:
    return Limiter(SlidingWindowStorage(url, timeout_seconds=10), [KEYS], workers=4, rest_seconds=0.1)


def accepted(limiter: Limiter, key: str, number: int = 120) -> int:
    """How many of so many calls of a key are accepted."""
    return sum(limiter.hit("data-key", key).accepted for _ in range(number))


@pytest.mark.parametrize("several", [cluster, sentinels])
def test_limits_wake_up_signals_and_provider_outages_reach_all_processes(
    start_server: Start, tmp_path: Path, several: Callable[[Start, Path], str], keep: Keep
) -> None:
    url = several(start_server, tmp_path)
    await_servers(url)
    one, other = keep(limiter_on(url)), keep(limiter_on(url))
    # Keys that lie on different machines of a cluster.
    for key in ("key-1", "key-2", "key-3", "key-4"):
        assert accepted(one, key, 60) + accepted(other, key, 60) == 100
    assert not one.is_away()
    assert not other.is_away()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(keep(WakeUpSignal(url, other.pipeline, lambda: False)).wait, PATIENCE_SECONDS, Event())
        sender = keep(WakeUpSignal(url, one.pipeline, lambda: False))
        while not waiting.done():
            sender.send()
    keep(ProviderOutages(url, lambda: False, ["mtn"])).report_away("mtn")
    outages = keep(ProviderOutages(url, lambda: False, ["mtn", "airtel"]))
    assert (outages.is_away("mtn"), outages.is_away("airtel")) == (True, False)


def test_the_limits_follow_the_sentinels_to_the_new_master(start_server: Start, tmp_path: Path, keep: Keep) -> None:
    url, master, sentinel = watched(start_server, tmp_path)
    await_servers(url)
    eventually(lambda: sentinel.client.execute_command("SENTINEL", "REPLICAS", "main") != [])
    limiter = keep(limiter_on(url))
    assert accepted(limiter, "key-1", 60) == 60
    counted = master.client.info("replication")["master_repl_offset"]
    eventually(lambda: replica_of(master)["offset"] >= counted)
    master.stop()
    hasten(sentinel)
    assert limiter.hit("data-key", "key-2").accepted
    eventually(lambda: not limiter.is_away() and limiter.hit("data-key", "key-3").accepted and not limiter.is_away())
    # What was counted before is on the machine that took over.
    assert accepted(limiter, "key-1") == 40


def test_a_connection_to_a_replaced_master_is_closed(start_server: Start, tmp_path: Path) -> None:
    url, master, sentinel = watched(start_server, tmp_path)
    await_servers(url)
    # So short, because the frozen master is waited for.
    client = connect(url, timeout_seconds=2)
    pipeline = RedisPipeline(lambda: client)
    eventually(lambda: port_behind(pipeline) == master.port)
    eventually(lambda: sentinel.client.execute_command("SENTINEL", "REPLICAS", "main") != [])
    master.freeze()
    hasten(sentinel)
    eventually(
        lambda: int(sentinel.client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")[1]) != master.port
    )
    eventually(lambda: port_behind(pipeline) not in (0, master.port))
    assert len(sentinel.client.client_list()) > 1
    pipeline.close()
    client.close()
    eventually(lambda: len(sentinel.client.client_list()) == 1)


def port_behind(pipeline: RedisPipeline) -> int:
    """The port of the server that answers, 0 while there is none."""
    try:
        return int(pipeline.execute("CONFIG", "GET", "port")[b"port"])
    except REDIS_ERRORS:
        return 0


def test_a_master_that_accepts_writes_without_replicas_is_recognised(start_server: Start, keep: Keep) -> None:
    server = start_server(port=free_port())
    client = keep(connect(server.url))
    assert accepts_writes_alone(client)
    server.client.config_set("min-replicas-to-write", 1)
    assert not accepts_writes_alone(client)
    server.stop()
    assert not accepts_writes_alone(client)


def test_a_silent_node_of_a_cluster_delays_no_request_to_another_node(
    start_server: Start, tmp_path: Path, keep: Keep
) -> None:
    nodes: list[Server] = []

    def start(*options: str, port: int) -> Server:
        nodes.append(start_server(*options, port=port))
        return nodes[-1]

    client = keep(connect(cluster(start, tmp_path), timeout_seconds=PATIENCE_SECONDS))
    pipeline = RedisPipeline(lambda: client)
    by_node = {client.get_node_from_key(f"key-{number}").port: f"key-{number}" for number in range(50)}
    responsive, silent = by_node[nodes[0].port], by_node[nodes[2].port]
    with ThreadPoolExecutor(4) as pool:
        assert [pipeline.execute("INCR", responsive), pipeline.execute("INCR", silent)] == [1, 1]
        nodes[2].freeze()
        try:
            waiting = [pool.submit(pipeline.execute, "INCR", silent) for _ in range(3)]
            assert pool.submit(pipeline.execute, "INCR", responsive).result(PATIENCE_SECONDS) == 2
            assert not any(each.done() for each in waiting)
        finally:
            nodes[2].thaw()
        assert sorted(each.result(PATIENCE_SECONDS) for each in waiting) == [2, 3, 4]
