"""A web process and its callers: however they send and read, each is answered, and no caller waits for another."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from testbed.postgres import PostgresServer, create_database, drop_database, temporary_server
from tests.server.callers import (
    LIVE,
    ORDER,
    PATIENCE_SECONDS,
    Caller,
    ask_balance,
    calls_are_answered,
    serving,
)
from tests.support.eventually import eventually
from tests.support.real_service.service import answers, descendants
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.unit_of_work import close_connections
from ussd_server.security.credentials import new_apikey
from ussd_server.services.payouts.messages import LARGEST_FILE_BYTES

# What twenty callers may send of a call before they fall silent.
HALVES = {
    "nothing": b"",
    "a letter": b"G",
    "half of the first line": b"GET /heal",
    "an empty line": b"\r\n",
    "two empty lines": b"\r\n\r\n",
    "half of the headers": b"GET /health/live HTTP/1.1\r\nHost: x\r\nX-",
    "no body": ORDER + b"Content-Length: 10\r\n\r\n",
    "half of a body": ORDER + b"Content-Length: 10\r\n\r\n12345",
    "half of a body that is too large": ORDER + b"Content-Length: 70000\r\n\r\n" + b"a" * 35_000,
    "half of a body beyond every limit": ORDER + b"Content-Length: 900000\r\n\r\n" + b"a" * 35_000,
    "no chunk": ORDER + b"Transfer-Encoding: chunked\r\n\r\n",
    "half of a chunk": ORDER + b"Transfer-Encoding: chunked\r\n\r\n10\r\n1234",
    "a body that waits to be asked for": ORDER + b"Content-Length: 10\r\nExpect: 100-continue\r\n\r\n",
    "half of a callback": b"POST /callbacks/mtn/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    "half of a body for nobody": b"POST /\xc3\xa9 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a call that is the last, and stays": b"GET /health/live HTTP/1.0\r\nHost: x\r\n\r\n",
}


@pytest.fixture(scope="module")
def postgres_port(
    migrated_postgres: str, postgres_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """Where a web process with PostgreSQL listens."""
    url = create_database(postgres_url, migrated_postgres.rpartition("/")[2])
    with serving(tmp_path_factory.mktemp("web"), url, redis_url) as (port, _):
        yield port
    drop_database(postgres_url, url)


@pytest.fixture(scope="module")
def sqlite_port(migrated_sqlite: Path, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where a web process with SQLite listens."""
    folder = tmp_path_factory.mktemp("web")
    shutil.copy(migrated_sqlite, folder / "test.db")
    with serving(folder, f"sqlite:///{folder / 'test.db'}", redis_url) as (port, _):
        yield port


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def port(request: pytest.FixtureRequest) -> int:
    """Where a web process listens, once with each database."""
    found: int = request.getfixturevalue(f"{request.param}_port")
    return found


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
def test_callers_that_stop_in_the_middle_hold_up_no_other(port: int, half: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(Caller(port)).send(half)
        calls_are_answered(port)


def test_a_caller_that_does_not_read_holds_up_no_other_and_gets_all_of_it_when_it_does(port: int) -> None:
    question = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with Caller(port, receive_bytes=2048) as slow, Caller(port) as quick:
        slow.send(question * 40)
        calls_are_answered(port)
        quick.send(question)
        status, document = quick.answer()
        assert (status, json.loads(document)["openapi"]) == (200, "3.1.0")
        assert [slow.answer() for _ in range(40)] == [(200, document)] * 40


def test_callers_that_disconnect_in_the_middle_are_forgotten(port: int) -> None:
    for raw in (*HALVES.values(), LIVE, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"):
        with Caller(port, receive_bytes=2048) as caller:
            caller.send(raw)
    calls_are_answered(port)


@pytest.mark.parametrize("path", ["/api/transactions", "/nowhere", "/callbacks/mtn/x"])
@pytest.mark.parametrize("size", [0, 10, 60_000])
def test_a_call_that_comes_byte_by_byte_or_at_once_is_answered_alike(port: int, path: str, size: int) -> None:
    body = b"a" * size
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
    plain = head + b"Content-Length: %d\r\n\r\n" % size + body
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:3], body[3:]) if part) + b"0\r\n\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    asked = head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % size
    with Caller(port) as caller:
        caller.send(plain)
        expected, _ = caller.answer()
        for raw in (plain, chunked, b"\r\n" + plain):
            for start in range(400):
                caller.send(raw[start : start + 1])
            caller.send(raw[400:])
            assert caller.answer()[0] == expected
        caller.send(asked)
        assert caller.answer()[0] == 100
        caller.send(body)
        assert caller.answer()[0] == expected
        caller.send(plain + chunked + LIVE)
        assert [caller.answer()[0] for _ in range(3)] == [expected, expected, 200], "in their order"


@pytest.mark.parametrize("path", ["/api/transactions", "/nowhere", "/callbacks/mtn/x"])
@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("size", [65_537, 100_000, 1_000_000])
def test_a_body_that_is_too_large_is_refused_whether_or_not_it_is_sent(
    port: int, path: str, size: int, is_sent: bool
) -> None:
    with Caller(port) as caller:
        caller.send(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        if is_sent:
            caller.send(b"a" * 65_536)
        status, body = caller.answer()
        assert (status, json.loads(body)["error"]) == (413, "REQUEST_TOO_LARGE")


def test_a_file_as_large_as_its_path_takes_is_read_whole(port: int) -> None:
    head = "POST /api/payouts HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nContent-Length: {}\r\n\r\n"
    with Caller(port) as caller:
        for size in (100_000, LARGEST_FILE_BYTES):
            caller.send(head.format(size).encode() + b"a" * size)
            assert caller.answer()[0] == 401, "read, and refused for its key"
        caller.send(head.format(LARGEST_FILE_BYTES + 1).encode())
        assert caller.answer()[0] == 413
    chunked = ORDER.replace(b"transactions", b"payouts") + b"Transfer-Encoding: chunked\r\n\r\n"
    chunks = b"4000\r\n%b\r\n" % (b"a" * 0x4000) * (LARGEST_FILE_BYTES // 0x4000)
    for more, expected in ((b"", 401), (b"1\r\na\r\n", 413)):
        with Caller(port) as caller:
            caller.send(chunked + chunks + more + b"0\r\n\r\n")
            assert caller.answer()[0] == expected


def test_a_connection_goes_on_after_a_body_that_was_refused_unread(port: int) -> None:
    with Caller(port) as caller:
        caller.send(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"a" * 1_000_000)
        assert caller.answer()[0] == 413
        caller.send(LIVE)
        assert caller.answer()[0] == 200


@pytest.mark.parametrize(
    "lie",
    [
        b"Content-Length: -5\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length: 5 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 50\r\n",
        b"Content-Length:\r\n 5\r\n",
        b"X-Folded: a\r\n Content-Length: 5\r\n",
        b"Content-Length : 5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length: \xb5\r\n",
        b"Content-Length:\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
    ],
)
def test_a_length_that_can_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_answered(
    port: int, lie: bytes
) -> None:
    with Caller(port) as caller:
        caller.send(ORDER + lie + b"\r\n12345" + LIVE)
        assert caller.answer()[0] == 400
        assert caller.is_left()


def test_what_is_longer_than_it_said_is_taken_for_the_next_call(port: int) -> None:
    with Caller(port) as caller:
        caller.send(ORDER + b"Content-Length: 3\r\n\r\n123GET /nowhere HTTP/1.1\r\n\r\n")
        assert [caller.answer()[0] for _ in range(2)] == [401, 404]


@pytest.mark.parametrize("before", [b"", LIVE])
def test_what_is_shorter_than_it_said_is_not_taken_for_the_whole(port: int, before: bytes) -> None:
    with Caller(port) as caller:
        caller.send(before + ORDER + b"Content-Length: 30\r\n\r\n{}", ends=True)
        if before:
            assert caller.answer()[0] == 200
        assert caller.answer()[0] == 400
        assert caller.is_left()


@pytest.mark.parametrize(
    "last", [b"GET /health/live HTTP/1.0\r\n\r\n", b"GET /health/live HTTP/1.1\r\nConnection: close\r\n\r\n"]
)
def test_the_last_call_of_a_connection_ends_it_at_once(port: int, last: bytes) -> None:
    with Caller(port) as caller:
        caller.send(LIVE + last + LIVE)
        assert [caller.answer()[0] for _ in range(2)] == [200, 200]
        assert caller.is_left()


def test_a_stop_answers_who_has_called_and_waits_quietly_for_who_is_still_sending(
    migrated_postgres: str, postgres_url: str, redis_url: str, tmp_path: Path
) -> None:
    url = create_database(postgres_url, migrated_postgres.rpartition("/")[2])
    with serving(tmp_path, url, redis_url) as (port, process), ExitStack() as stack:
        (worker,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        halves = [stack.enter_context(Caller(port)) for _ in range(3)]
        for caller, whole in zip(halves, (LIVE, LIVE, ORDER + b"Content-Length: 2\r\n\r\n{}"), strict=True):
            caller.send(whole[:-1])
        quiet = stack.enter_context(Caller(port))
        calls_are_answered(port)
        process.send_signal(signal.SIGTERM)
        eventually(lambda: not answers(port, "/health/live"))
        before = _seconds_computed(worker)
        assert quiet.is_left(), "who has said nothing is not waited for"
        assert _seconds_computed(worker) - before < 1
        for caller, rest in zip(halves, (b"\n", b"\n", b"}"), strict=True):
            caller.send(rest)
        assert [caller.answer()[0] for caller in halves] == [200, 200, 401]
        assert process.wait(PATIENCE_SECONDS) == 0
    drop_database(postgres_url, url)


def test_while_the_database_is_frozen_calls_that_need_none_are_answered(redis_url: str, tmp_path: Path) -> None:
    with temporary_server() as server:
        open_database(server.url, 1)
        migrate()
        close_connections()
        with serving(tmp_path, server.url, redis_url, is_quiet=False) as (port, _), ExitStack() as stack:
            assert ask_balance(stack.enter_context(Caller(port)), new_apikey()).answer()[0] == 401
            key = new_apikey()
            mistyped = key[:-1] + ("b" if key.endswith("a") else "a")
            with frozen(server):
                waiting = [ask_balance(stack.enter_context(Caller(port)), new_apikey()) for _ in range(30)]
                for _ in range(5):
                    with Caller(port) as caller:
                        caller.send(LIVE)
                        assert caller.answer()[0] == 200
                    with Caller(port) as caller:
                        assert ask_balance(caller, mistyped).answer()[0] == 401
                # Requests that need a new connection are refused after two seconds, the one with a connection after
                # six.
                assert not all(caller.has_answer() for caller in waiting)
                assert {caller.answer()[0] for caller in waiting} == {503}
            eventually(lambda: ask_balance(stack.enter_context(Caller(port)), new_apikey()).answer()[0] == 401)


@contextmanager
def frozen(server: PostgresServer) -> Iterator[None]:
    """A database whose machine hangs: it takes what is sent, and answers nothing."""
    pids = [server.process.pid, *descendants(server.process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _seconds_computed(pid: str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
