"""The way to the database: a server that froze is given up, and one that is back is used again."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from peewee import OperationalError

from tests.postgres_server import PostgresServer
from ussd_server.models.base import close_connections, database, is_reachable, open_database, unhurried


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    """A PostgreSQL of these tests' own: only its owner may freeze it."""
    with TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder))
        yield server.url
        server.stop()


@pytest.fixture
def backend(server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The process of PostgreSQL that serves this thread's connection, on which an answer is awaited for 0.3 s."""
    open_database(server_url, 2)
    monkeypatch.setattr("ussd_server.models.base._Connection.answer_seconds", 0.3)
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
