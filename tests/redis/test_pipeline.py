"""Commands that requests send to Redis at the same moment share one round trip."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import fakeredis
import pytest
from redis import RedisError
from redis.exceptions import ResponseError

from testbed.valkey import Server
from tests.support.cooperative import run_cooperatively
from ussd_server.redis.client import REDIS_ERRORS, connect
from ussd_server.redis.pipeline import RedisPipeline


@pytest.fixture
def pipeline(server: Server) -> Iterator[RedisPipeline]:
    """A pipeline to a real server, already connected."""
    client = connect(server.url, timeout_seconds=1)
    with closing(RedisPipeline(lambda: client)) as connected:
        connected.execute("PING")
        yield connected


@pytest.fixture(params=["fakeredis", "server"])
def any_pipeline(request: pytest.FixtureRequest) -> RedisPipeline:
    """A pipeline to fakeredis, and one to a real server."""
    if request.param == "server":
        found: RedisPipeline = request.getfixturevalue("pipeline")
        return found
    client: Any = fakeredis.FakeRedis()
    return RedisPipeline(lambda: client)


def at_once(pipeline: RedisPipeline, *commands: tuple[str | int, ...], within_run: str | None = None) -> list[Any]:
    """The replies to commands of threads that run at the same time, or what was raised."""

    def execute(command: tuple[str | int, ...]) -> Any:
        try:
            return pipeline.execute(*command, within_run=within_run)
        except REDIS_ERRORS as trouble:
            return trouble

    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(execute, commands))


def test_each_request_receives_the_reply_to_its_own_command(any_pipeline: RedisPipeline) -> None:
    commands = [("SET", f"key-{number}", number) for number in range(40)]
    at_once(any_pipeline, *commands)
    commands = [("INCRBY", f"key-{number}", 1000) for number in range(40)] + [("GET", "missing")]
    assert at_once(any_pipeline, *commands) == [*range(1000, 1040), None]


def test_commands_of_one_turn_of_the_hub_share_one_round_trip(server: Server) -> None:
    replies, reads, commands, connections = run_cooperatively(
        """
        import json, sys, gevent
        from ussd_server.redis.client import connect
        from ussd_server.redis.pipeline import RedisPipeline
        client, observer = connect(sys.argv[1], timeout_seconds=5), connect(sys.argv[1], timeout_seconds=5)
        pipeline = RedisPipeline(lambda: client)
        run = pipeline.server_run()
        before = observer.info("stats")
        asked = [
            gevent.spawn(pipeline.execute, "INCRBY", f"key-{number}", number, within_run=run) for number in range(50)
        ]
        asked.append(gevent.spawn(pipeline.server_run))
        gevent.joinall(asked)
        assert asked.pop().value == run
        pipeline.execute("PING")
        after = observer.info("stats")
        did = [after[name] - before[name] - 2 for name in ("total_reads_processed", "total_commands_processed")]
        did.append(after["total_connections_received"] - before["total_connections_received"])
        print(json.dumps([[each.value for each in asked], *did]))
        """,
        server.url,
    )
    assert replies == list(range(50))
    assert (reads, commands) == (1, 50)
    assert connections == 0, "a question about the server run needs no other connection"


def test_a_round_trip_blocks_no_other_greenlet(server: Server) -> None:
    pid = server.client.info("server")["process_id"]
    server.freeze()
    replies = run_cooperatively(
        """
        import json, os, signal, sys, gevent
        from ussd_server.redis.client import connect
        from ussd_server.redis.pipeline import RedisPipeline
        client = connect(sys.argv[1], timeout_seconds=30)
        pipeline = RedisPipeline(lambda: client)
        asked = [gevent.spawn(pipeline.execute, "INCR", "x") for _ in range(5)]
        for _ in range(20):
            gevent.sleep(0.005)
        # Only a greenlet that was not blocked comes here before the commands have failed.
        os.kill(int(sys.argv[2]), signal.SIGCONT)
        print(json.dumps([each.get() for each in asked]))
        """,
        server.url,
        pid,
    )
    assert replies == [1, 2, 3, 4, 5]


def test_a_command_that_the_server_refuses_raises_for_its_own_request_only(any_pipeline: RedisPipeline) -> None:
    any_pipeline.execute("SET", "text", "x")
    commands = [("INCR", "text"), ("GET", "text"), ("NO-SUCH",), ("INCR", "number")]
    refused, text, unknown, number = at_once(any_pipeline, *commands)
    assert (text, number) == (b"x", 1)
    assert isinstance(refused, ResponseError)
    assert isinstance(unknown, ResponseError)


def test_a_connection_that_was_closed_while_idle_is_replaced_and_every_command_is_answered(
    pipeline: RedisPipeline, server: Server
) -> None:
    for times in (1, 2):
        server.client.client_kill_filter(skipme=True)
        assert at_once(pipeline, *[("INCR", f"key-{number}") for number in range(5)]) == [times] * 5


def test_the_connection_to_a_server_that_became_a_replica_is_left(server: Server) -> None:
    client: Any = connect(server.url, timeout_seconds=1)
    with closing(RedisPipeline(lambda: client)) as pipeline:
        before = pipeline.execute("CLIENT", "ID"), client.client_id()
        server.client.replicaof("127.0.0.1", 1)
        with pytest.raises(REDIS_ERRORS):
            pipeline.execute("SET", "key", 1)
        with pytest.raises(REDIS_ERRORS):
            client.set("key", 1)
        server.client.replicaof("NO", "ONE")
        assert pipeline.execute("SET", "key", 1)
        assert client.set("key", 1)
        after = pipeline.execute("CLIENT", "ID"), client.client_id()
    client.close()
    assert set(before).isdisjoint(after)


def test_a_command_for_another_run_of_the_server_is_not_sent(pipeline: RedisPipeline, server: Server) -> None:
    run = pipeline.server_run()
    assert pipeline.execute("INCR", "this", within_run=run) == 1
    assert pipeline.execute("INCR", "other", within_run="another run") is None
    assert server.client.get("other") is None
    server.stop()
    server.start()
    assert pipeline.execute("INCR", "this", within_run=run) is None
    assert pipeline.execute("INCR", "any") == 1
    assert server.client.get("this") is None
    assert pipeline.server_run() not in ("", run)


def test_a_silent_server_fails_every_request_and_no_command_is_sent_twice(
    pipeline: RedisPipeline, server: Server
) -> None:
    commands = [("INCR", f"key-{number}") for number in range(5)]
    server.freeze()
    replies = at_once(pipeline, *commands)
    assert all(isinstance(each, REDIS_ERRORS) for each in replies)
    server.thaw()
    assert all(each in (1, 2) for each in at_once(pipeline, *commands)), "the system may have kept the first"


def test_a_stopped_server_fails_every_request(pipeline: RedisPipeline, server: Server) -> None:
    server.stop()
    replies = at_once(pipeline, ("INCR", "a"), ("INCR", "b"))
    assert all(isinstance(each, RedisError) for each in replies)
    server.start()
    assert at_once(pipeline, ("INCR", "a"), ("INCR", "b")) == [1, 1]
