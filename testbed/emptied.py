"""A PostgreSQL database that tests use one after another, emptied in between."""

from __future__ import annotations

from typing import LiteralString

import psycopg
from psycopg.sql import SQL, Identifier

from testbed.postgres import create_database, drop_database

_USES = 100
"""Deleted rows stay in the files; a new database costs less than reading past those of many tests."""

_STATE = """
    SELECT format('%s %s', sum(rows), max(newest)) FROM (
        SELECT count(*) AS rows, max(xmin::text::bigint) AS newest FROM pg_class
        UNION ALL SELECT count(*), max(xmin::text::bigint) FROM pg_attribute
        UNION ALL SELECT count(*), max(xmin::text::bigint) FROM pg_constraint
        UNION ALL SELECT count(*), max(xmin::text::bigint) FROM pg_trigger
        UNION ALL SELECT count(*), max(xmin::text::bigint) FROM pg_proc
        UNION ALL SELECT count(*), max(xmin::text::bigint) FROM pg_namespace
        UNION ALL SELECT count(*), max(xmin::text::bigint) FROM pg_statistic
        UNION ALL SELECT count(*), max(xmin::text::bigint) FROM pg_db_role_setting
            WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) AS catalogs"""

_CLOSE_OTHER_CONNECTIONS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""

# Triggers refuse to delete money; a replica runs none of them.
_EMPTY = """
    SET session_replication_role = replica;
    DO $$ DECLARE kept record; BEGIN
        FOR kept IN SELECT oid::regclass AS name FROM pg_class
            WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
        LOOP EXECUTE format('DELETE FROM %s', kept.name); END LOOP;
        FOR kept IN SELECT format('%I.%I', schemaname, sequencename)::regclass AS name FROM pg_sequences
            WHERE last_value IS NOT NULL
        LOOP PERFORM setval(kept.name, 1, false); END LOOP;
    END $$;
"""


class EmptiedDatabase:
    """A copy of a migrated database, as it was copied each time that it is taken."""

    def __init__(self, template_url: str) -> None:
        self._template_url = template_url
        self._connection: psycopg.Connection | None = None
        with psycopg.connect(template_url) as connection:
            self._rows = {table: _copy_out(connection, table) for table in _tables(connection)}

    def take(self) -> str:
        """Return the URL of the database."""
        if self._connection is None:
            self._url = create_database(self._template_url, self._template_url.rpartition("/")[2])
            self._connection = psycopg.connect(self._url, autocommit=True)
            self._state, self._uses = _state(self._connection), 0
        self._uses += 1
        return self._url

    def give_back(self) -> None:
        """Close all other connections and empty the database; drop one that a test has changed or cut off."""
        assert self._connection is not None
        try:
            self._connection.execute(_CLOSE_OTHER_CONNECTIONS)
            if self._uses < _USES and _state(self._connection) == self._state:
                self._empty(self._connection)
            else:
                self.drop()
        except psycopg.Error:
            self.drop()

    def _empty(self, connection: psycopg.Connection) -> None:
        connection.execute(_EMPTY)
        for table, rows in self._rows.items():
            _copy_in(connection, table, rows)

    def drop(self) -> None:
        """Drop the database, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            drop_database(self._template_url, self._url)


def _state(connection: psycopg.Connection) -> str:
    """Return what changes with each change of the schema, the settings or the statistics."""
    return str(_values(connection, _STATE)[0])


def _tables(connection: psycopg.Connection) -> list[str]:
    return _values(
        connection,
        "SELECT oid::regclass::text FROM pg_class "
        "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0",
    )


def _values(connection: psycopg.Connection, query: LiteralString) -> list[str]:
    return [value for (value,) in connection.execute(query)]


def _copy_out(connection: psycopg.Connection, table: str) -> bytes:
    with connection.cursor().copy(SQL("COPY {} TO STDOUT").format(Identifier(table))) as rows:
        return b"".join(rows)


def _copy_in(connection: psycopg.Connection, table: str, rows: bytes) -> None:
    with connection.cursor().copy(SQL("COPY {} FROM STDIN").format(Identifier(table))) as copy:
        copy.write(rows)
