"""Edits as at the database prompt: drop every trigger, edit, and create the triggers again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ussd_server.database.unit_of_work import database, is_postgres, unit_of_work


@contextmanager
def without_triggers() -> Iterator[None]:
    """A unit of work in which no trigger runs."""
    with unit_of_work():
        if is_postgres():
            database.execute_sql("SET LOCAL session_replication_role = replica")
            yield
            return
        triggers = database.execute_sql("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            database.execute_sql(f"DROP TRIGGER {name}")
        yield
        for _, definition in triggers:
            database.execute_sql(definition)
