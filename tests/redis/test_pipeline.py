"""The line to Redis that requests share: one trip for what they ask at the same time, an answer for each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fakeredis
import pytest
from redis import RedisError
from redis.exceptions import ResponseError

from testbed.valkey import Server
from tests.support.cooperative import run_cooperatively
from ussd_server.redis.client import REDIS_TROUBLE, RedisPipeline, connect


@pytest.fixture
def line(server: Server) -> RedisPipeline:
    """A line to a real server, on which something was asked before."""
    client = connect(server.url, timeout_seconds=0.2)
    line = RedisPipeline(lambda: client)
    line.ask("PING")
    return line


@pytest.fixture(params=["fakeredis", "server"])
def any_line(request: pytest.FixtureRequest) -> RedisPipeline:
    """A line to a stand-in, and one to a real server."""
    if request.param == "server":
        found: RedisPipeline = request.getfixturevalue("line")
        return found
    client: Any = fakeredis.FakeRedis()
    return RedisPipeline(lambda: client)


def at_once(line: RedisPipeline, *commands: tuple[str | int, ...], within_run: str | None = None) -> list[Any]:
    """What threads that ask at the same time are told: answers, and what was raised."""

    def ask(command: tuple[str | int, ...]) -> Any:
        try:
            return line.ask(*command, within_run=within_run)
        except REDIS_TROUBLE as trouble:
            return trouble

    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(ask, commands))


def test_each_request_is_told_the_answer_to_its_own_command(any_line: RedisPipeline) -> None:
    commands = [("SET", f"key-{number}", number) for number in range(40)]
    at_once(any_line, *commands)
    commands = [("INCRBY", f"key-{number}", 1000) for number in range(40)] + [("GET", "missing")]
    assert at_once(any_line, *commands) == [*range(1000, 1040), None]


def test_commands_of_one_turn_of_the_hub_are_one_trip(server: Server) -> None:
    told, reads, commands = run_cooperatively(
        """
        import json, sys, gevent
        from ussd_server.redis.client import RedisPipeline, connect
        client, observer = connect(sys.argv[1], timeout_seconds=5), connect(sys.argv[1], timeout_seconds=5)
        line = RedisPipeline(lambda: client)
        line.server_run()
        before = observer.info("stats")
        asked = [gevent.spawn(line.ask, "INCRBY", f"key-{number}", number) for number in range(50)]
        gevent.joinall(asked)
        after = observer.info("stats")
        did = [after[name] - before[name] - 1 for name in ("total_reads_processed", "total_commands_processed")]
        print(json.dumps([[each.value for each in asked], *did]))
        """,
        server.url,
    )
    assert told == list(range(50))
    assert (reads, commands) == (1, 50)


def test_a_trip_holds_up_no_other_greenlet(server: Server) -> None:
    server.freeze()
    try:
        longest = run_cooperatively(
            """
            import json, sys, time, gevent
            from ussd_server.redis.client import REDIS_TROUBLE, RedisPipeline, connect
            client = connect(sys.argv[1], timeout_seconds=0.5)
            line = RedisPipeline(lambda: client)
            def ask():
                try:
                    line.ask("PING")
                except REDIS_TROUBLE:
                    pass
            asked = [gevent.spawn(ask) for _ in range(5)]
            longest, seen = 0, time.monotonic()
            while not all(each.dead for each in asked):
                gevent.sleep(0.005)
                longest, seen = max(longest, time.monotonic() - seen), time.monotonic()
            print(json.dumps(longest))
            """,
            server.url,
        )
    finally:
        server.thaw()
    assert longest < 0.4


def test_what_the_server_refuses_is_raised_to_its_asker_alone(any_line: RedisPipeline) -> None:
    any_line.ask("SET", "text", "x")
    commands = [("INCR", "text"), ("GET", "text"), ("NO-SUCH",), ("INCR", "number")]
    refused, text, unknown, number = at_once(any_line, *commands)
    assert (text, number) == (b"x", 1)
    assert isinstance(refused, ResponseError)
    assert isinstance(unknown, ResponseError)


def test_a_connection_that_was_closed_while_idle_is_made_again_and_everybody_is_answered(
    line: RedisPipeline, server: Server
) -> None:
    for times in (1, 2):
        server.client.client_kill_filter(skipme=True)
        assert at_once(line, *[("INCR", f"key-{number}") for number in range(5)]) == [times] * 5


def test_a_command_for_another_run_of_the_server_is_not_sent(line: RedisPipeline, server: Server) -> None:
    run = line.server_run()
    assert line.ask("INCR", "this", within_run=run) == 1
    assert line.ask("INCR", "other", within_run="another run") is None
    assert server.client.get("other") is None
    server.stop()
    server.start()
    assert line.ask("INCR", "this", within_run=run) is None
    assert line.ask("INCR", "any") == 1
    assert server.client.get("this") is None
    assert line.server_run() not in ("", run)


def test_a_server_that_is_silent_is_the_trouble_of_all_who_asked_and_nobody_is_asked_for_twice(
    line: RedisPipeline, server: Server
) -> None:
    commands = [("INCR", f"key-{number}") for number in range(5)]
    server.freeze()
    told = at_once(line, *commands)
    assert all(isinstance(each, REDIS_TROUBLE) for each in told)
    server.thaw()
    assert all(each in (1, 2) for each in at_once(line, *commands)), "the system may have kept the first"


def test_a_server_that_is_gone_is_the_trouble_of_all_who_asked(line: RedisPipeline, server: Server) -> None:
    server.stop()
    told = at_once(line, ("INCR", "a"), ("INCR", "b"))
    assert all(isinstance(each, RedisError) for each in told)
    server.start()
    assert at_once(line, ("INCR", "a"), ("INCR", "b")) == [1, 1]
