"""Migrations: the lock around a run, and statements that are written once for both databases."""

from __future__ import annotations

import fcntl
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from peewee import OperationalError
from playhouse.migrations import Migration, Runner

from ussd_server.database.unit_of_work import database, dialect, is_postgres, release_connection

_DIRECTORY = Path(__file__).parent / "migrations"
# Any number works; all processes must use the same one.
_ADVISORY_LOCK = 7_256_256_165

SCHEMA = Path(__file__).parent / "schema"
"""The folder of the tables, and of the rules of each database."""

_SQLITE_TYPES = {"uuid": "text", "timestamptz": "text", "boolean": "integer", "bytea": "blob", "bigint": "integer"}
_TYPE = re.compile(rf"\b({'|'.join(_SQLITE_TYPES)})\b")
_ONLY = re.compile(r" -- (PostgreSQL|SQLite)$")
# Bodies of functions and triggers are indented.
_BETWEEN_STATEMENTS = re.compile(r";\n(?=\n|[A-Z]+ (?:TABLE|INDEX|UNIQUE|FUNCTION|TRIGGER|INTO)\b|--)")
_LOCK_TIMEOUT_MS = 1000
_TRIES = 60
_PAUSE_SECONDS = 1
_LOOK_AGAIN_SECONDS = 0.1


def migrate() -> list[str]:
    """Apply every migration that is missing, in order, each in one transaction; return the names of those applied now.

    Raises UnsupportedDatabaseError before anything is applied. Two processes that start at once wait for one another:
    PostgreSQL holds an advisory lock, SQLite a lock file.
    """
    try:
        dialect().check_version()
        with _one_at_a_time():
            return _apply()
    finally:
        release_connection()


def _apply() -> list[str]:
    """Apply missing migrations. A waiting DDL statement blocks all others, so it times out and is retried."""
    missing = missing_migrations()
    for tries_left in reversed(range(_TRIES)):
        try:
            Runner(database, str(_DIRECTORY)).up()
            break
        except OperationalError as error:
            if not tries_left or not isinstance(getattr(error, "orig", None), psycopg.errors.LockNotAvailable):
                raise
            time.sleep(_PAUSE_SECONDS)
    return missing


def migrations() -> list[Migration]:
    """Return the migrations in order: those of this code, and those that only the database knows.

    `applied` is None for one that the database does not have, `path` is None for one that this code does not have.
    """
    found: list[Migration] = Runner(database, str(_DIRECTORY)).status()
    return found


def missing_migrations() -> list[str]:
    """Return the names of migrations that this code needs and the database lacks."""
    return [step.name for step in migrations() if step.applied is None]


def execute_statements(db: Any, text: str) -> None:
    """Run the statements of a text, which is written in PostgreSQL's types for both databases.

    A statement begins in the first column. A line that ends in `-- PostgreSQL` or `-- SQLite` is for that database
    only. In SQLite tables are strict; `-- by key` after a table makes it one without the hidden row number, so that
    REPLACE cannot overwrite its rows.
    """
    for statement in _BETWEEN_STATEMENTS.split(_for_this_database(text) + "\n"):
        if statement.strip():
            # The PostgreSQL driver reads a single percent sign as the beginning of a placeholder.
            db.execute_sql(statement.replace("%", "%%") if is_postgres() else statement)


def _for_this_database(text: str) -> str:
    ours = "PostgreSQL" if is_postgres() else "SQLite"
    lines = [
        _ONLY.sub("", line) for line in text.splitlines() if (only := _ONLY.search(line)) is None or only[1] == ours
    ]
    if is_postgres():
        return "\n".join(line.removesuffix(" -- by key") for line in lines)
    endings = {");": ") STRICT;", "); -- by key": ") STRICT, WITHOUT ROWID;"}
    return "\n".join(endings.get(line) or _TYPE.sub(lambda found: _SQLITE_TYPES[found[0]], line) for line in lines)


def build_index(db: Any, name: str, definition: str, *, unique: bool = False) -> None:
    """Build an index; on PostgreSQL without blocking writers, in a migration with `atomic = False`.

    `definition` is the table with its columns. Removes an invalid index of an earlier attempt first.
    """
    kind = "UNIQUE INDEX" if unique else "INDEX"
    if not is_postgres():
        db.execute_sql(f"CREATE {kind} {name} ON {definition}")
        return
    # It waits for all earlier transactions and blocks none.
    db.execute_sql("SET lock_timeout = 0")
    db.execute_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    db.execute_sql(f"CREATE {kind} CONCURRENTLY {name} ON {definition}")
    db.execute_sql(f"SET lock_timeout = {_LOCK_TIMEOUT_MS}")


def drop_index(db: Any, name: str) -> None:
    """Remove an index that no statement needs any more, without blocking writers."""
    db.execute_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}" if is_postgres() else f"DROP INDEX {name}")


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    if is_postgres():
        # A second process may wait here for as long as the first one's migrations take.
        database.execute_sql("SET statement_timeout = 0")
        with dialect().without_timeouts():
            # Polls for the lock: a waiting statement would block an index that is built concurrently.
            while not database.execute_sql("SELECT pg_try_advisory_lock(%s)", (_ADVISORY_LOCK,)).fetchone()[0]:
                time.sleep(_LOOK_AGAIN_SECONDS)
            database.execute_sql(f"SET lock_timeout = {_LOCK_TIMEOUT_MS}")
            try:
                yield
            finally:
                database.execute_sql("SELECT pg_advisory_unlock(%s)", (_ADVISORY_LOCK,))
                database.manual_close()
    else:
        # The lock comes before the first connection: two that make a new file at once can fail on each other.
        path = Path(f"{database.obj.database}.migrating")
        try:
            path.touch()
        except OSError as error:
            raise OperationalError("unable to open database file") from error
        with path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
