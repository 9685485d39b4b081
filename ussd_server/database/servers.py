"""The servers of PostgreSQL: what the primary has used up, and its standbys."""

from __future__ import annotations

from typing import NamedTuple

from ussd_server.database.unit_of_work import database, is_postgres

_STANDBYS = """
    SELECT (SELECT count(*) FROM pg_stat_replication), current_setting('synchronous_standby_names') <> ''
        AND current_setting('synchronous_commit') NOT IN ('off', 'local')"""
_LOAD = """
    WITH written AS (
        SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS lsn)
    SELECT (SELECT max(pg_wal_lsn_diff(lsn, replay_lsn))::bigint FROM pg_stat_replication),
        (SELECT coalesce(max(pg_wal_lsn_diff(lsn, restart_lsn)), 0)::bigint FROM pg_replication_slots),
        (SELECT sum(numbackends) FROM pg_stat_database)::float / current_setting('max_connections')::integer,
        (SELECT max(age(datfrozenxid)) FROM pg_database),
        (SELECT current_setting('archive_mode') <> 'off'
            AND coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) FROM pg_stat_archiver)
    FROM written"""


class Standbys(NamedTuple):
    """The standbys of a server. `are_synchronous`: one of them has each commit before the client gets its reply."""

    number: int
    are_synchronous: bool


class ServerLoad(NamedTuple):
    """What a server has used up. `standby_lag_bytes`: None without a standby, or without the right to see it."""

    standby_lag_bytes: int | None
    slot_bytes: int
    connections_share: float
    id_age: int
    is_archive_failing: bool


def present_standbys() -> Standbys | None:
    """Return the standbys that the server has now; None on SQLite."""
    return Standbys(*database.execute_sql(_STANDBYS).fetchone()) if is_postgres() else None


def server_load() -> ServerLoad | None:
    """Return what the server has used up; None on SQLite."""
    return ServerLoad(*database.execute_sql(_LOAD).fetchone()) if is_postgres() else None
