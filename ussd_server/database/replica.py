"""A replica of the database: lists that may lag are read from it, while it is near enough to the present."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from peewee import ProgrammingError

from ussd_server.cached_value import CachedValue
from ussd_server.database.connections import postgres_at
from ussd_server.database.unit_of_work import DATABASE_TROUBLE

_CHECK_SECONDS = 1.0
# Workers write every ten seconds: a replica that has replayed nothing for longer than this hears of nothing any more.
_LONGEST_SILENCE_SECONDS = 30

# How far a replica is behind, in seconds: nothing, when it has replayed all that came and is still being sent to.
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
        self._database = postgres_at(url, max_connections)
        self._most_lag_seconds = most_lag_seconds
        self._away = CachedValue(self._is_too_far_behind, _CHECK_SECONDS, False, on_change)

    @property
    def is_away(self) -> bool:
        """Whether the last check or read failed, or found the replica too far behind."""
        return self._away.value

    def rows(self, query: Any) -> list[Any] | None:
        """What a SELECT finds on the replica; None when it must be asked of the primary."""
        if self._away.refresh():
            return None
        try:
            return list(query.clone().bind(self._database))
        except (*DATABASE_TROUBLE, ProgrammingError):
            # After a migration it may not know the table or the column yet.
            self._away.set(True)
            self.close()
            return None
        finally:
            self._release()

    def lag_seconds(self) -> float | None:
        """How far it is behind, None while nobody can tell: it is away, or no replica."""
        try:
            (lag,) = self._database.execute_sql(_LAG, (_LONGEST_SILENCE_SECONDS,)).fetchone()
        except DATABASE_TROUBLE:
            self.close()
            return None
        finally:
            self._release()
        return None if lag is None else float(lag)

    def close(self) -> None:
        """Close every connection that nobody is using."""
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
    """Read what may lag from `replica` from now on; None reads everything from the primary."""
    global _replica
    _replica = replica


def rows_that_may_lag(query: Any) -> list[Any]:
    """What a SELECT finds: on the replica while that is near enough to the present, else on the primary."""
    found = None if _replica is None else _replica.rows(query)
    return list(query) if found is None else found
