"""Applies migrations, and runs statements that are written once for both databases."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import psycopg
from peewee import OperationalError
from playhouse.migrations import Migration, Runner

from ussd_server.database.postgres import MIGRATION_LOCK_TIMEOUT_MS
from ussd_server.database.unit_of_work import database, dialect, release_connection

_DIRECTORY = Path(__file__).parent / "migrations"

SCHEMA = Path(__file__).parent / "schema"
"""The folder of the tables, and of the rules of each database."""

_ONLY = re.compile(r" -- (PostgreSQL|SQLite)$")
# Bodies of functions and triggers are indented.
_BETWEEN_STATEMENTS = re.compile(r";\n(?=\n|[A-Z]+ (?:TABLE|INDEX|UNIQUE|FUNCTION|TRIGGER|INTO)\b|--)")
# CONCURRENTLY waits for all earlier transactions and blocks none.
_BUILD_INDEX = f"""
SET lock_timeout = 0; -- PostgreSQL

DROP INDEX CONCURRENTLY IF EXISTS {{name}}; -- PostgreSQL

CREATE {{kind}} CONCURRENTLY {{name}} ON {{definition}}; -- PostgreSQL

CREATE {{kind}} {{name}} ON {{definition}}; -- SQLite

SET lock_timeout = {MIGRATION_LOCK_TIMEOUT_MS}; -- PostgreSQL
"""
_TRIES = 60
_PAUSE_SECONDS = 1


def migrate() -> list[str]:
    """Apply every migration that is missing, in order, each in one transaction; return the names of those applied now.

    Raises UnsupportedDatabaseError before anything is applied. Of two processes that start at once, one waits: for an
    advisory lock on PostgreSQL, for a lock file on SQLite.
    """
    try:
        dialect().check_version()
        with dialect().only_migration():
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
    migrations: list[Migration] = Runner(database, str(_DIRECTORY)).status()
    return migrations


def missing_migrations() -> list[str]:
    return [step.name for step in migrations() if step.applied is None]


def execute_statements(db: Any, text: str) -> None:
    """Run the statements of a text, which is written in PostgreSQL's types for both databases.

    A statement begins in the first column. A line that ends in `-- PostgreSQL` or `-- SQLite` is for that database
    only. In SQLite tables are strict; `-- by key` after a table makes it one without the hidden row number, so that
    REPLACE cannot overwrite its rows.
    """
    for statement in _BETWEEN_STATEMENTS.split(_for_this_database(text) + "\n"):
        if statement.strip():
            db.execute_sql(dialect().without_parameters(statement))


def _for_this_database(text: str) -> str:
    name = dialect().name
    lines = (line for line in text.splitlines() if (only := _ONLY.search(line)) is None or only[1] == name)
    return "\n".join(dialect().line_of_schema(_ONLY.sub("", line)) for line in lines)


def build_index(db: Any, name: str, definition: str, *, is_unique: bool = False) -> None:
    """Build an index; on PostgreSQL without blocking writers, in a migration with `atomic = False`.

    `definition` is the table with its columns. Removes an invalid index of an earlier attempt first.

    `execute_statements` drops an index that is not needed any more, on PostgreSQL `CONCURRENTLY` in such a migration.
    """
    kind = "UNIQUE INDEX" if is_unique else "INDEX"
    execute_statements(db, _BUILD_INDEX.format(kind=kind, name=name, definition=definition))
