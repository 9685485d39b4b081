"""A read replica. Lists that may be some seconds old are read from it while its lag is small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from peewee import ProgrammingError

from ussd_server.database.connections import UnsupportedDatabaseError
from ussd_server.database.connections.postgres import postgres_pool
from ussd_server.database.unit_of_work import DATABASE_TROUBLE
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
        except (*DATABASE_TROUBLE, ProgrammingError, UnsupportedDatabaseError):
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
        except (*DATABASE_TROUBLE, UnsupportedDatabaseError):
            self.close()
            return None
        finally:
            self._release()
        return None if lag is None else float(lag)

    def close(self) -> None:
        """Close all idle connections."""
        self._release()
        self._database.close_idle()

    def _release(self) -> None:
        if not self._database.is_closed():
            self._database.close()

    def _is_too_far_behind(self) -> bool:
        lag = self.lag_seconds()
        return lag is None or lag > self._most_lag_seconds


_replica: Replica | None = None


def use_replica(replica: Replica | None) -> None:
    """Read lists that may lag from `replica` from now on; None: from the primary."""
    global _replica
    _replica = replica


def rows_that_may_lag(query: Any) -> list[Any]:
    """Return the rows of a SELECT from the replica while its lag is small, else from the primary."""
    found = None if _replica is None else _replica.rows(query)
    return list(query) if found is None else found
