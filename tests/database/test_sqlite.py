"""SQLite connections of several threads: none waits for another except for the write lock."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from peewee import IntegrityError

from tests.support.cooperative import run_cooperatively
from ussd_server.database.opening import open_database
from ussd_server.database.unit_of_work import close_connections, database, release_connection

PATIENCE_SECONDS = 60


@pytest.fixture
def names(tmp_path: Path) -> Iterator[None]:
    """A database with one table, `names`, in which `taken` is taken."""
    open_database(f"sqlite:///{tmp_path}/names.db", 2)
    database.execute_sql("CREATE TABLE names (name text PRIMARY KEY)")
    insert("taken")
    yield
    close_connections()


def insert(name: str) -> None:
    database.execute_sql("INSERT INTO names VALUES (?)", (name,))


@pytest.mark.timeout(60)
def test_a_failure_freed_by_the_thread_that_holds_the_write_lock_delays_no_process(names: None, tmp_path: Path) -> None:
    """The garbage collector frees what one thread left behind on any other thread. Another process holds the lock."""
    failures: list[IntegrityError] = []
    waits = threading.Event()

    def fail() -> None:
        try:
            insert("taken")
        except IntegrityError as failure:
            failures.append(failure)

    def wait_for_the_lock() -> None:
        # Called at the beginning of each statement, when SQLite has locked the connection.
        database.connection().set_trace_callback(lambda _: waits.set())
        insert("free")
        release_connection()

    with (
        ThreadPoolExecutor(1) as other,
        closing(sqlite3.connect(tmp_path / "names.db", isolation_level=None)) as holder,
    ):
        other.submit(fail).result(PATIENCE_SECONDS)
        holder.execute("BEGIN IMMEDIATE")
        done = other.submit(wait_for_the_lock)
        assert waits.wait(PATIENCE_SECONDS)
        failures.clear()
        holder.execute("COMMIT")
        done.result(PATIENCE_SECONDS)
    assert [name for (name,) in database.execute_sql("SELECT name FROM names ORDER BY name")] == ["free", "taken"]


def test_long_reads_hold_up_no_write_in_a_cooperative_process(tmp_path: Path) -> None:
    """Each read ends when the writes were made or given up."""
    assert run_cooperatively(
        """
        import json, sys
        import gevent
        from ussd_server.database.opening import open_database
        from ussd_server.database.unit_of_work import close_connections, database, unit_of_work

        open_database(f"sqlite:///{sys.argv[1]}/names.db", 16)
        database.execute_sql("CREATE TABLE names (name text PRIMARY KEY)")
        has_written = wrote = False

        def read():
            database.connect()
            database.connection().set_progress_handler(lambda: has_written, 1000)
            try:
                database.execute_sql(
                    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n WHERE x < 0")
            except Exception:
                pass
            finally:
                database.close()

        reads = [gevent.spawn(read) for _ in range(8)]
        gevent.sleep(0.2)
        with gevent.Timeout(10, False):
            with unit_of_work():
                database.execute_sql("INSERT INTO names SELECT 'one'")
            database.execute_sql("INSERT INTO names VALUES ('two')")
            wrote = True
        has_written = True
        gevent.joinall(reads)
        close_connections()
        print(json.dumps(wrote))
        """,
        tmp_path,
    )
