"""The state of the installation, as operators see it in the console."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from ussd_server.context import RequestContext
from ussd_server.database.schema import missing_migrations
from ussd_server.database.unit_of_work import database_fault, dialect
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.operations.book_check.check import MarkError, check_ranges
from ussd_server.services.operations.book_check.examinations import (
    MOST_VIOLATIONS,
    keep_check,
    keep_doctor,
    last_examinations,
)
from ussd_server.services.operations.gauges import Gauges
from ussd_server.services.operations.messages import (
    BoundedCheck,
    DoctorFinding,
    LastExaminations,
    Readiness,
    SystemView,
)
from ussd_server.services.runtime import Runtime
from ussd_server.services.webhooks.lateness import late_webhooks
from ussd_server.status import Code, ServiceError

_CHECK_SECONDS = 5.0
_ROWS_IN_A_RANGE = 2000
_DOCTOR_SECONDS = 60.0
_LATE = timedelta(minutes=1)
_MOST_LATE_WEBHOOKS = 20
_FAULTS = {
    "away": "The database is away",
    "read-only": "The database is read-only",
    "full": "No room left on the database's disk",
}


class SystemService:
    """Shows the parts, workers, queues and settings; runs the doctor and a check of the books on demand."""

    def __init__(self, runtime: Runtime, settings: Mapping[str, str], gauges: Gauges) -> None:
        """`settings` are those that may be shown."""
        self._clock, self._limiter, self._vault = runtime.clock, runtime.limiter, runtime.vault
        self._heartbeat = runtime.heartbeat
        self._settings = settings
        self._gauges = gauges

    def has_worker(self, context: RequestContext) -> bool:
        """Whether a background worker sent its heartbeat within seven seconds."""
        context.require_operator()
        return any(worker.state == "running" for worker in self._heartbeat.workers())

    def show(self, context: RequestContext) -> SystemView:
        """The state of the parts now. A queue is a gauge without labels."""
        context.require_operator()
        self._limiter.peek("access-token", "system")
        return SystemView(
            database=dialect().name,
            database_fault=database_fault(),
            redis="away" if self._limiter.is_away() else "up",
            missing_migrations=tuple(missing_migrations()),
            workers=self._heartbeat.workers(),
            queues=tuple(measure for measure in self._gauges.read() if not measure.labels),
            late_webhooks=tuple(late_webhooks(self._clock.now() - _LATE)[:_MOST_LATE_WEBHOOKS]),
        )

    def settings(self, context: RequestContext) -> Mapping[str, str]:
        """The settings in force, by their environment variables, without secrets."""
        context.require_operator()
        return self._settings

    def check(self, mark: str | None, context: RequestContext) -> BoundedCheck:
        """Check the books for five seconds, from the beginning or after `mark`. INVALID_REQUEST for a wrong mark."""
        context.require_operator()
        is_whole, until = mark is None, time.monotonic() + _CHECK_SECONDS
        rows, violations = Counter[str](), list[str]()
        try:
            for checked in check_ranges(mark, _ROWS_IN_A_RANGE, self._clock.now(), self._vault):
                rows[checked.part] += checked.rows
                violations += map(str, checked.violations[: MOST_VIOLATIONS - len(violations)])
                mark = checked.mark
                if time.monotonic() > until:
                    break
        except MarkError:
            raise ServiceError(Code.INVALID_REQUEST, "Begin the check anew.") from None
        outcome, now = BoundedCheck(dict(rows), tuple(violations), mark), self._clock.now()
        write_audit_event("system.checked", context, now, client_id=None)
        keep_check(outcome, now, is_whole=is_whole, operator=context.caller.operator)
        return outcome

    def last(self, context: RequestContext) -> LastExaminations:
        """The last results of the doctor and of the check, from the console or the command line."""
        context.require_operator()
        return last_examinations()

    def doctor(self, context: RequestContext) -> tuple[DoctorFinding, ...]:
        """Run `ussd-server doctor` on this machine. Raises SERVICE_UNAVAILABLE when it does not end within a minute.

        It opens databases of its own, so it runs as a process of its own.
        """
        context.require_operator()
        write_audit_event("system.examined", context, self._clock.now(), client_id=None)
        command = [sys.executable, "-m", "ussd_server.cli", "doctor", "--json"]
        try:
            ran = subprocess.run(command, capture_output=True, timeout=_DOCTOR_SECONDS, check=False)  # noqa: S603
            report = json.loads(ran.stdout)["findings"]
            findings = tuple(DoctorFinding(each["part"], each["found"], each["mend"]) for each in report)
        except (subprocess.TimeoutExpired, OSError, ValueError, KeyError):
            raise ServiceError(
                Code.SERVICE_UNAVAILABLE, "The doctor did not end. Run `ussd-server doctor` at the server."
            ) from None
        keep_doctor(findings, self._clock.now(), context.caller.operator)
        return findings


class HealthService:
    def __init__(self, runtime: Runtime) -> None:
        self._limiter = runtime.limiter
        self._is_migrated = False

    def check(self) -> Readiness:
        """Return the state of the parts. Raises SERVICE_UNAVAILABLE (503) when the database cannot be used.

        Redis is optional: without it every process applies its own share of the limits.
        """
        if fault := database_fault():
            raise ServiceError(Code.SERVICE_UNAVAILABLE, _FAULTS[fault], retry_after_seconds=1)
        # A migrated database stays migrated, so only the first probes check it.
        self._is_migrated = self._is_migrated or not missing_migrations()
        if not self._is_migrated:
            raise ServiceError(Code.SERVICE_UNAVAILABLE, "The database is not migrated", retry_after_seconds=5)
        self._limiter.peek("access-token", "health")
        return Readiness("ready", database="up", redis="away" if self._limiter.is_away() else "up")
