"""The line to Redis that the calls of a loop share: one trip for what they ask at the same time, an answer for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import fakeredis
import pytest
from redis import RedisError
from redis.exceptions import ResponseError

from tests.rpc.redis_server import Server
from tests.turns import Turns, taking_turns
from ussd_server.rpc.redis_link import REDIS_TROUBLE, Line, connect


@pytest.fixture
def turns() -> Iterator[Turns]:
    with taking_turns() as turns:
        yield turns


@pytest.fixture
def line(server: Server) -> Line:
    """A line to a real server, on which something was asked before."""
    client = connect(server.url, timeout_seconds=0.2)
    line = Line(lambda: client)
    line.ask("PING")
    return line


@pytest.fixture(params=["fakeredis", "server"])
def any_line(request: pytest.FixtureRequest) -> Line:
    """A line to a stand-in, and one to a real server."""
    if request.param == "server":
        found: Line = request.getfixturevalue("line")
        return found
    client: Any = fakeredis.FakeRedis()
    return Line(lambda: client)


def in_one_turn(turns: Turns, line: Line, *commands: tuple[str | int, ...]) -> list[Any]:
    """What calls that ask at the same time are told."""
    return turns.run(*(partial(line.ask, *command) for command in commands))


def trips_of(server: Server, work: Callable[[], object]) -> tuple[int, int]:
    """How often the server was read from, and how many commands it did, because of `work`."""
    before: Any = server.client.info("stats")
    work()
    after: Any = server.client.info("stats")
    # The second look is a trip and a command by itself.
    return tuple(after[name] - before[name] - 1 for name in ("total_reads_processed", "total_commands_processed"))  # type: ignore[return-value]


def test_each_call_is_told_the_answer_to_its_own_command(turns: Turns, any_line: Line) -> None:
    commands = [("INCR", "a"), ("INCRBY", "b", 5), ("INCR", "a"), ("GET", "missing"), ("INCR", "b")]
    assert in_one_turn(turns, any_line, *commands) == [1, 5, 2, None, 6]


def test_commands_of_one_turn_are_one_trip(turns: Turns, line: Line, server: Server) -> None:
    commands = [("INCR", f"key-{number}") for number in range(50)]
    assert trips_of(server, lambda: in_one_turn(turns, line, *commands)) == (1, 50)
    assert trips_of(server, lambda: [line.ask(*command) for command in commands]) == (50, 50)


def test_what_the_server_refuses_is_raised_to_its_asker_alone(turns: Turns, any_line: Line) -> None:
    commands = [("SET", "text", "x"), ("INCR", "text"), ("GET", "text"), ("NO-SUCH",), ("INCR", "number")]
    done, refused, text, unknown, number = in_one_turn(turns, any_line, *commands)
    assert (text, number) == (b"x", 1)
    assert isinstance(refused, ResponseError)
    assert isinstance(unknown, ResponseError)
    assert not isinstance(done, Exception)


def test_a_connection_that_was_closed_while_idle_is_made_again_and_everybody_is_answered(
    turns: Turns, line: Line, server: Server
) -> None:
    for times in (1, 2):
        server.client.client_kill_filter(skipme=True)
        assert in_one_turn(turns, line, *[("INCR", f"key-{number}") for number in range(5)]) == [times] * 5


def test_a_command_for_another_run_of_the_server_is_not_sent_and_the_others_of_its_trip_are(
    turns: Turns, line: Line, server: Server
) -> None:
    run = line.server_run()
    assert turns.run(
        partial(line.ask, "INCR", "any"),
        partial(line.ask, "INCR", "this", within_run=run),
        partial(line.ask, "INCR", "other", within_run="another run"),
        partial(line.ask, "INCR", "any"),
    ) == [1, 1, None, 2]
    assert server.client.get("other") is None
    server.stop()
    server.start()
    assert turns.run(
        partial(line.ask, "INCR", "this", within_run=run), partial(line.ask, "INCR", "any")
    ) == [None, 1]  # fmt: skip
    assert server.client.get("this") is None


def test_a_server_that_is_silent_is_the_trouble_of_all_who_asked_and_nobody_is_asked_for_twice(
    turns: Turns, line: Line, server: Server
) -> None:
    commands = [("INCR", f"key-{number}") for number in range(5)]
    server.freeze()
    told = in_one_turn(turns, line, *commands)
    assert all(isinstance(each, REDIS_TROUBLE) for each in told)
    server.thaw()
    assert all(each in (1, 2) for each in in_one_turn(turns, line, *commands)), "the system may have kept the first"


def test_a_server_that_is_gone_is_the_trouble_of_all_who_asked(turns: Turns, line: Line, server: Server) -> None:
    server.stop()
    told = in_one_turn(turns, line, ("INCR", "a"), ("INCR", "b"))
    assert all(isinstance(each, RedisError) for each in told)
    server.start()
    assert in_one_turn(turns, line, ("INCR", "a"), ("INCR", "b")) == [1, 1]


def test_every_thread_has_a_connection_of_its_own(turns: Turns, any_line: Line) -> None:
    ask: Callable[[], Any] = partial(any_line.ask, "INCR", "a")
    told = turns.run(ask, partial(turns.loop.wait_for_thread, ask), partial(turns.loop.wait_for_thread, ask))
    assert sorted(told) == [1, 2, 3]
