"""The way to the database: a server that froze is given up, and one that is back is used again."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from peewee import OperationalError
from playhouse.pool import MaxConnectionsExceeded

from tests.postgres_server import PostgresServer
from tests.turns import Turns, taking_turns
from ussd_server.models.base import (
    asking,
    close_connections,
    database,
    is_reachable,
    open_database,
    unhurried,
)
from ussd_server.models.connections import _Adapter


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL of these tests' own: only its owner may freeze it."""
    with TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder))
        yield server
        server.stop()


@pytest.fixture
def server_url(server: PostgresServer) -> str:
    return server.url


@pytest.fixture
def turns(server_url: str) -> Iterator[Turns]:
    """A loop whose calls find two connections."""
    open_database(server_url, 3)
    both = threading.Barrier(2)

    def connect() -> None:
        database.connection()
        # A call that ended before the other began would leave its connection to it.
        both.wait(30)

    with taking_turns() as turns:
        assert turns.run(*[partial(asking, connect)] * 2) == [None, None]
        yield turns
    close_connections()


@pytest.fixture
def backend(server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The process of PostgreSQL that serves this thread's connection, on which an answer is awaited for 0.3 s."""
    open_database(server_url, 2)
    monkeypatch.setattr("ussd_server.models.connections.Connection.answer_seconds", 0.3)
    yield database.execute_sql("SELECT pg_backend_pid()").fetchone()[0]
    close_connections()


@contextmanager
def frozen(process_id: int) -> Iterator[None]:
    os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process_id, signal.SIGCONT)


@pytest.mark.timeout(20)
def test_a_frozen_server_is_given_up_and_its_connection_is_never_used_again(backend: int) -> None:
    with frozen(backend), pytest.raises(OperationalError), database.atomic():
        database.execute_sql("SELECT 1")
    close_connections()
    assert is_reachable()
    assert database.execute_sql("SELECT pg_backend_pid()").fetchone()[0] != backend


@pytest.mark.timeout(20)
def test_threads_do_not_queue_behind_a_server_that_takes_connections_and_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        open_database(f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/postgres", 16)
        began_at = time.monotonic()
        with ThreadPoolExecutor(16) as threads:
            reached = list(threads.map(lambda _: is_reachable(), range(16)))
    assert reached == [False] * 16
    assert time.monotonic() - began_at < 8, "sixteen in turn would take 32 seconds"


def test_a_server_that_refuses_a_statement_keeps_its_connection(backend: int) -> None:
    database.execute_sql("SET statement_timeout = 50")
    with pytest.raises(OperationalError):
        database.execute_sql("SELECT pg_sleep(5)")
    assert database.execute_sql("SELECT pg_backend_pid()").fetchone()[0] == backend


def test_a_statement_that_may_take_long_is_waited_for(backend: int) -> None:
    began_at = time.monotonic()
    with unhurried():
        database.execute_sql("SELECT pg_sleep(0.8)")
    assert time.monotonic() - began_at >= 0.8
    with pytest.raises(OperationalError):
        database.execute_sql("SELECT pg_sleep(7)")


def backend_and_thread() -> tuple[int, threading.Thread]:
    """The process of PostgreSQL that serves a call, and the thread that asks it."""
    (backend,) = database.execute_sql("SELECT pg_backend_pid()").fetchone()
    return backend, threading.current_thread()


def pass_lock() -> None:
    """Wait until nobody holds the lock of these tests."""
    with database.atomic():
        database.execute_sql("SELECT pg_advisory_xact_lock(1)")


@contextmanager
def lock_held(server_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Hold the lock of these tests, until the block or its transaction ends."""
    with psycopg.connect(server_url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(1)")
        yield holder


def test_a_call_of_a_loop_waits_by_itself_on_a_connection_that_is_there_and_a_thread_makes_new_ones(
    turns: Turns, server_url: str
) -> None:
    with lock_held(server_url):
        waiting = [turns.begin(partial(asking, pass_lock)) for _ in range(2)]
        turns.loop.end_turn()
        ((backend, thread),) = turns.run(partial(asking, backend_and_thread))
        assert thread is not threading.current_thread(), "both connections are waiting"
        assert turns.run(partial(asking, backend_and_thread)) == [(backend, threading.current_thread())]
        assert not turns.outcomes.keys() & set(waiting)
    turns.run_until(lambda: turns.outcomes.keys() >= set(waiting))
    assert [turns.outcomes[number] for number in waiting] == [None, None]


def test_what_asks_within_a_unit_of_work_is_a_part_of_it(turns: Turns) -> None:
    def outer() -> tuple[bool, bool]:
        with database.atomic() as unit:
            database.execute_sql("CREATE TEMPORARY TABLE of_the_unit (id int)")
            asking(database.execute_sql, "INSERT INTO of_the_unit VALUES (1)")
            is_open = not database.is_closed()
            unit.rollback()
        return is_open, database.in_transaction()

    assert turns.run(partial(asking, outer)) == [(True, False)]
    assert turns.run(database.is_closed) == [True]


@pytest.mark.timeout(60)
def test_a_loop_does_not_wait_for_a_connection_that_a_thread_is_making(
    turns: Turns, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()
    make = _Adapter.connect

    def connect(*given: Any, **named: Any) -> Any:
        begun.set()
        try:
            return make(*given, **named | {"connect_timeout": 30})
        finally:
            ended.set()

    monkeypatch.setattr(_Adapter, "connect", connect)
    with lock_held(server.url) as holder:
        waiting = [turns.begin(partial(asking, pass_lock)) for _ in range(2)]
        turns.loop.end_turn()
        with frozen(server.process.pid):
            third = turns.begin(partial(asking, pass_lock))
            turns.loop.end_turn()
            assert begun.wait(30)
            holder.rollback()
            turns.run_until(lambda: turns.outcomes.keys() >= set(waiting))
            assert turns.run(close_connections) == [None]
            assert not ended.is_set()
    turns.run_until(lambda: third in turns.outcomes)
    assert [turns.outcomes[number] for number in (*waiting, third)] == [None] * 3


@pytest.mark.timeout(60)
def test_a_server_that_freezes_is_given_up_by_the_call_that_waits_for_it_while_others_go_on(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ussd_server.models.connections.Connection.answer_seconds", 0.3)
    ((backend, _),) = turns.run(partial(asking, backend_and_thread))
    with frozen(backend):
        # The connection that lay idle longest is taken first.
        several = [turns.begin(partial(asking, backend_and_thread)) for _ in range(2)]
        turns.run_until(lambda: len(turns.outcomes.keys() & set(several)) == 1)
        turns.run_until(lambda: turns.outcomes.keys() >= set(several))
    (lost,) = (outcome for number in several if isinstance(outcome := turns.outcomes[number], Exception))
    assert isinstance(lost, OperationalError)
    backends = {backend for backend, _ in turns.run(*[partial(asking, backend_and_thread)] * 3)}
    assert backend not in backends, "it is never used again"


@pytest.mark.timeout(60)
def test_there_are_never_more_connections_than_there_may_be(
    turns: Turns, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long before those who wait for the lock give that up.
    monkeypatch.setattr(database.obj, "_wait_timeout", 0.2)
    with lock_held(server_url):
        calls = [turns.begin(partial(asking, pass_lock)) for _ in range(4)]
        # Three wait for the lock, and one, in a thread, for a connection, which it gives up after a while.
        turns.run_until(lambda: bool(turns.outcomes.keys() & set(calls)))
        assert [type(turns.outcomes[number]) for number in calls if number in turns.outcomes] == [
            MaxConnectionsExceeded
        ]
    turns.run_until(lambda: turns.outcomes.keys() >= set(calls))


@pytest.mark.timeout(60)
def test_connections_that_broke_while_idle_are_replaced_before_a_call_uses_them(
    turns: Turns, server: PostgresServer
) -> None:
    """After a restart of the server, and after one that ended by itself."""
    server.stop()
    server.start()
    (first,) = turns.run(partial(asking, backend_and_thread))
    (second,) = turns.run(partial(asking, backend_and_thread))
    assert first[0] == second[0], "the new connection is used again"
    with psycopg.connect(server.url) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (first[0],))
    (third,) = turns.run(partial(asking, backend_and_thread))
    assert third[0] != first[0]


def test_a_database_opened_later_never_gets_a_connection_to_another(server_url: str) -> None:
    for _ in range(20):
        open_database(server_url, 1)
        assert database.is_closed()
        database.connection().close()
