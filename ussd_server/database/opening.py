"""Opens databases by their addresses, `sqlite:///...` or `postgresql://...`. Connects to nothing yet."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ussd_server.database.dialect import Dialect
from ussd_server.database.postgres import SETTINGS, Postgres, PostgresPool
from ussd_server.database.sqlite import LOCK_TIMEOUT_MS, Sqlite, SqlitePool
from ussd_server.database.unit_of_work import close_connections, database

_CONNECT_TIMEOUT_SECONDS = 2


def open_database(url: str, max_connections: int, pooler: str | None = None) -> None:
    """Bind all tables to the database at `url` (`sqlite:///...` or `postgresql://...`).

    Closes the idle connections of the database that was open before. Connects to nothing yet. Raises ValueError for any
    other kind of address. `pooler` is that of `postgres_pool`.
    """
    opened = database_at(url, max_connections, pooler)
    if database.obj is not None:
        close_connections()
    database.initialize(opened.pool)


def database_at(url: str, max_connections: int, pooler: str | None = None) -> Dialect:
    """Return the dialect of the database at `url`, with its connection pool.

    Of several PostgreSQL hosts, the pool connects to the one that takes writes.
    """
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        return Sqlite(sqlite_pool(url.removeprefix("sqlite:///"), max_connections))
    if scheme in ("postgresql", "postgres"):
        return Postgres(postgres_pool(url, max_connections, pooler, **writable_host(url)))
    raise ValueError("the database address must begin with sqlite:/// or postgresql://")


def postgres_pool(url: str, max_connections: int, pooler: str | None = None, **named: Any) -> Any:
    """Return a connection pool for PostgreSQL. Connects to nothing yet.

    `pooler` is how a pooler between lends its connections: for a `session`, or for a `transaction`, where a session has
    no settings and no prepared statements of its own.
    """
    if pooler is None:
        named["options"] = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    elif pooler == "transaction":
        named["prepare_threshold"] = None
    return PostgresPool(
        url,
        **named,
        pooler=pooler,
        max_connections=max_connections,
        timeout=_CONNECT_TIMEOUT_SECONDS,
        connect_timeout=_CONNECT_TIMEOUT_SECONDS,
        # Overrides PGCLIENTENCODING.
        client_encoding="UTF8",
    )


def connection_parts(url: str) -> dict[str, Any]:
    """Return the parameters in an address as PostgreSQL's client parses it; none for an address that it refuses."""
    try:
        return conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return {}  # connecting raises the error


def writable_host(url: str) -> dict[str, str]:
    """Return the option by which PostgreSQL's client chooses the host that takes writes, unless `url` has it."""
    parts = connection_parts(url)
    has_several = "," in str(parts.get("host", ""))
    return {"target_session_attrs": "read-write"} if has_several and "target_session_attrs" not in parts else {}


def sqlite_pool(path: str, max_connections: int) -> Any:
    """Return a connection pool for a file. Connects to nothing yet."""
    return SqlitePool(
        path,
        max_connections=max_connections,
        timeout=_CONNECT_TIMEOUT_SECONDS,
        check_same_thread=False,
        lock_type="IMMEDIATE",
        pragmas={
            "journal_mode": "wal",
            "synchronous": "full",
            "foreign_keys": 1,
            "busy_timeout": LOCK_TIMEOUT_MS,
        },
    )
