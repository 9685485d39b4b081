"""Whether the service can do its work now."""

from __future__ import annotations

from ussd_server.database.schema import missing_migrations
from ussd_server.database.unit_of_work import is_reachable
from ussd_server.limits.limiter import Limiter
from ussd_server.messages.health import Health
from ussd_server.status import Code, ServiceError


class HealthService:
    """Looks at the parts that a call needs."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._is_migrated = False

    def check(self) -> Health:
        """The parts as they are. SERVICE_UNAVAILABLE (503) that names the part without which no call can be answered.

        Redis is not such a part: while it is away every worker limits its own share.
        """
        if not is_reachable():
            raise ServiceError(Code.SERVICE_UNAVAILABLE, "The database is away", retry_after_seconds=1)
        # A database that was migrated once stays migrated, so this is not asked at every probe.
        self._is_migrated = self._is_migrated or not missing_migrations()
        if not self._is_migrated:
            raise ServiceError(Code.SERVICE_UNAVAILABLE, "The database is not migrated", retry_after_seconds=5)
        self._limiter.peek("access-token", "health")
        return Health(database="up", redis="away" if self._limiter.away else "up")
