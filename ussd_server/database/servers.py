"""The servers of PostgreSQL: what the primary has used up, its standbys, and a read replica.

Lists that may be some seconds old are read from the replica while its lag is small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from peewee import ProgrammingError

from ussd_server.database.dialect import UnsupportedDatabaseError
from ussd_server.database.opening import postgres_pool
from ussd_server.database.unit_of_work import DATABASE_ERRORS, database, is_postgres
from ussd_server.threads import CachedValue

_CHECK_SECONDS = 1.0
# Workers write every ten seconds. A replica that has replayed nothing for longer is cut off.
_LONGEST_SILENCE_SECONDS = 30

# The lag in seconds; 0 when the replica has replayed all that it received and its connection is up.
_LAG = """
    SELECT CASE WHEN NOT pg_is_in_recovery() THEN NULL
        WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND age < %s
            AND EXISTS (SELECT pid FROM pg_stat_wal_receiver) THEN 0
        ELSE age END
    FROM extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) AS age"""

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


class Replica:
    """One replica. A read checks its lag when the last check is a second old."""

    def __init__(
        self, url: str, max_connections: int, most_lag_seconds: float, on_change: Callable[[bool], None]
    ) -> None:
        """`on_change(away)` is called when it falls behind by more than `most_lag_seconds` or comes back."""
        self._database = postgres_pool(url, max_connections)
        self._most_lag_seconds = most_lag_seconds
        self._away = CachedValue(self._is_too_far_behind, _CHECK_SECONDS, False, on_change)

    @property
    def is_away(self) -> bool:
        """Return whether the last check or read failed, or found too much lag."""
        return self._away.value

    def rows(self, query: Any) -> list[Any] | None:
        """Return the rows of a SELECT on the replica; None when the caller must use the primary."""
        if self._away.refresh():
            return None
        try:
            return list(query.clone().bind(self._database))
        except (*DATABASE_ERRORS, ProgrammingError, UnsupportedDatabaseError):
            # After a migration the replica may lack the table or the column for a moment.
            self._away.set(True)
            self.close()
            return None
        finally:
            self._release()

    def lag_seconds(self) -> float | None:
        """Return the lag in seconds; None when the server is away or not a replica."""
        try:
            (lag,) = self._database.execute_sql(_LAG, (_LONGEST_SILENCE_SECONDS,)).fetchone()
        except (*DATABASE_ERRORS, UnsupportedDatabaseError):
            self.close()
            return None
        finally:
            self._release()
        return None if lag is None else float(lag)

    def close(self) -> None:
        self._release()
        self._database.close_idle()

    def _release(self) -> None:
        if not self._database.is_closed():
            self._database.close()

    def _is_too_far_behind(self) -> bool:
        lag = self.lag_seconds()
        return lag is None or lag > self._most_lag_seconds


def rows_that_may_lag(query: Any, replica: Replica | None) -> list[Any]:
    """Return the rows of a SELECT from the replica while its lag is small, else from the primary."""
    rows = None if replica is None else replica.rows(query)
    return list(query) if rows is None else rows
