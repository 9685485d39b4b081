"""Connections to the database: a frozen server is given up, and one that is back is used again."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from peewee import OperationalError
from playhouse.pool import MaxConnectionsExceeded

from testbed.postgres import PostgresServer, temporary_server
from tests.support.eventually import eventually
from ussd_server.database.opening import open_database
from ussd_server.database.postgres import _Adapter
from ussd_server.database.unit_of_work import close_connections, database, database_fault, dialect

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL of these tests' own: only its owner may freeze it."""
    with temporary_server() as server:
        yield server


@pytest.fixture
def server_url(server: PostgresServer) -> str:
    return server.url


@pytest.fixture
def pool(server_url: str) -> Iterator[ThreadPoolExecutor]:
    """Threads that share two connections, which are there already, and may make a third."""
    open_database(server_url, 3)
    with ThreadPoolExecutor(4) as pool:
        with lock_held(server_url):
            waiting = [pool.submit(pass_lock) for _ in range(2)]
            eventually(lambda: len(database.obj._in_use) == 2)
        for each in waiting:
            each.result(PATIENCE_SECONDS)
        yield pool
    close_connections()


@pytest.fixture
def backend(server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The process of PostgreSQL that serves this thread's connection, on which an answer is awaited for 1.5 s."""
    open_database(server_url, 2)
    monkeypatch.setattr("ussd_server.database.postgres.Connection.answer_seconds", 1.5)
    yield database.execute_sql("SELECT pg_backend_pid()").fetchone()[0]
    close_connections()


@contextmanager
def frozen(process_id: int) -> Iterator[None]:
    os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process_id, signal.SIGCONT)


def test_a_frozen_server_is_given_up_and_its_connection_is_never_used_again(backend: int) -> None:
    with frozen(backend), pytest.raises(OperationalError), database.atomic():
        database.execute_sql("SELECT 1")
    close_connections()
    assert database_fault() is None
    assert database.execute_sql("SELECT pg_backend_pid()").fetchone()[0] != backend


def test_threads_do_not_queue_behind_a_server_that_takes_connections_and_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        open_database(f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/postgres", 16)
        began_at = time.monotonic()
        with ThreadPoolExecutor(16) as threads:
            faults = list(threads.map(lambda _: database_fault(), range(16)))
    assert faults == ["away"] * 16
    assert time.monotonic() - began_at < 20, "sixteen in turn would take 32 seconds"


def test_a_server_that_refuses_a_statement_keeps_its_connection(backend: int) -> None:
    with pytest.raises(OperationalError, match="cancel"):
        # As when the statement took too long.
        database.execute_sql("DO $$BEGIN RAISE 'cancelled' USING ERRCODE = 'query_canceled'; END$$")
    assert database.execute_sql("SELECT pg_backend_pid()").fetchone()[0] == backend


def test_a_statement_that_may_take_long_is_waited_for(backend: int) -> None:
    began_at = time.monotonic()
    with dialect().without_timeouts():
        database.execute_sql("SELECT pg_sleep(2)")
    assert time.monotonic() - began_at >= 2
    with pytest.raises(OperationalError):
        database.execute_sql("SELECT pg_sleep(7)")


def ask_backend() -> int:
    """The process of PostgreSQL that serves a request."""
    (found,) = database.execute_sql("SELECT pg_backend_pid()").fetchone()
    return int(found)


def pass_lock() -> None:
    """Wait until the lock of these tests is free."""
    with database.atomic():
        database.execute_sql("SELECT pg_advisory_xact_lock(1)")


@contextmanager
def lock_held(server_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Hold the lock of these tests, until the block or its transaction ends."""
    with psycopg.connect(server_url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(1)")
        yield holder


def test_a_statement_and_a_transaction_return_their_connection(pool: ThreadPoolExecutor) -> None:
    assert database.execute_sql("SELECT generate_series(1, 3)").fetchall() == [(1,), (2,), (3,)]
    assert database.is_closed()
    with database.atomic() as unit:
        database.execute_sql("CREATE TEMPORARY TABLE of_the_unit (id int)")
        with database.atomic():
            database.execute_sql("INSERT INTO of_the_unit VALUES (1)")
        assert database.execute_sql("SELECT count(*) FROM of_the_unit").fetchone() == (1,)
        unit.rollback()
    assert database.is_closed()
    with pytest.raises(psycopg.errors.DivisionByZero), database.atomic(), database.obj.atomic():
        database.connection().execute("SELECT 1 / 0")
    assert database.is_closed()
    assert pool.submit(ask_backend).result(PATIENCE_SECONDS) == ask_backend()


def test_no_thread_waits_for_a_connection_that_another_is_making(
    pool: ThreadPoolExecutor, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
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
        waiting = [pool.submit(pass_lock) for _ in range(2)]
        eventually(lambda: len(database.obj._in_use) == 2)
        with frozen(server.process.pid):
            third = pool.submit(pass_lock)
            assert begun.wait(30)
            # It waits to make one too, and takes what is returned first.
            waiting.append(pool.submit(pass_lock))
            eventually(lambda: bool(database.obj._pool_available._waiters))
            holder.rollback()
            for each in waiting:
                each.result(PATIENCE_SECONDS)
            close_connections()
            assert not ended.is_set()
    third.result(PATIENCE_SECONDS)


def test_a_server_that_freezes_is_given_up_by_the_request_that_waits_for_it_while_others_go_on(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ussd_server.database.postgres.Connection.answer_seconds", 1.5)
    backend = ask_backend()
    with frozen(backend):
        # The connection that lay idle longest is taken first.
        outcomes = [pool.submit(ask_backend) for _ in range(2)]
        lost = [each.exception(PATIENCE_SECONDS) for each in outcomes]
    assert [type(each) for each in lost if each is not None] == [OperationalError]
    assert backend not in {ask_backend() for _ in range(3)}, "it is never used again"


def test_there_are_never_more_connections_than_there_may_be(
    pool: ThreadPoolExecutor, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Much shorter than the timeout of the threads that wait for the lock.
    monkeypatch.setattr(database.obj, "_wait_timeout", 0.2)
    with lock_held(server_url):
        calls = [pool.submit(pass_lock) for _ in range(4)]
        # Three wait for the lock, and one for a connection, which it gives up after a while.
        eventually(lambda: any(each.done() for each in calls))
        assert [type(each.exception()) for each in calls if each.done()] == [MaxConnectionsExceeded]
    assert sum(each.exception(PATIENCE_SECONDS) is None for each in calls) == 3


def test_connections_that_broke_while_idle_are_replaced_before_a_call_uses_them(
    pool: ThreadPoolExecutor, server: PostgresServer
) -> None:
    """After a restart of the server, and after one that ended by itself."""
    server.stop()
    server.start()
    first = ask_backend()
    assert ask_backend() == first, "the new connection is used again"
    with psycopg.connect(server.url) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (first,))
    assert pool.submit(ask_backend).result(PATIENCE_SECONDS) != first


def test_a_database_opened_later_never_gets_a_connection_to_another(server_url: str) -> None:
    for _ in range(20):
        open_database(server_url, 1)
        assert database.is_closed()
        database.connection().close()
