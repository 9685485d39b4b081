"""Readiness: whether the service can answer requests."""

from __future__ import annotations

from ussd_server.database.schema import missing_migrations
from ussd_server.database.unit_of_work import database_fault
from ussd_server.runtime import Runtime
from ussd_server.services.operations.messages import Readiness
from ussd_server.status import Code, ServiceError


class HealthService:
    """Checks the parts that a request needs."""

    def __init__(self, runtime: Runtime) -> None:
        self._limiter = runtime.limiter
        self._is_migrated = False

    def check(self) -> Readiness:
        """Return the state of the parts. Raises SERVICE_UNAVAILABLE (503) when the database cannot be used.

        Redis is optional: without it every process applies its own share of the limits.
        """
        if fault := database_fault():
            raise ServiceError(Code.SERVICE_UNAVAILABLE, f"The database is {fault}", retry_after_seconds=1)
        # A migrated database stays migrated, so only the first probes check it.
        self._is_migrated = self._is_migrated or not missing_migrations()
        if not self._is_migrated:
            raise ServiceError(Code.SERVICE_UNAVAILABLE, "The database is not migrated", retry_after_seconds=5)
        self._limiter.peek("access-token", "health")
        return Readiness("ready", database="up", redis="away" if self._limiter.is_away() else "up")
