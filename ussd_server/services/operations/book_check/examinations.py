"""Stores the last results of the doctor and of the check for the console."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.operations import Examination
from ussd_server.services.operations.messages import (
    BoundedCheck,
    DoctorFinding,
    LastCheck,
    LastDoctor,
    LastExaminations,
)

MOST_VIOLATIONS = 100
_FULL_EVERY = timedelta(days=30)
# Most payments are final within hours. A review, a late outcome and a refund may change one weeks later.
_MAY_CHANGE_FOR = timedelta(days=31)


def keep_doctor(findings: Sequence[DoctorFinding], now: datetime, operator: str | None = None) -> None:
    """Store what the doctor found on this machine, in place of the last result."""
    _keep("doctor", {"findings": [[each.part, each.found, each.mend] for each in findings]}, now, operator)


def keep_check(
    checked: BoundedCheck,
    now: datetime,
    *,
    is_whole: bool,
    operator: str | None = None,
    since: datetime | None = None,
) -> None:
    """Store the result of a check, in place of the last one. `is_whole`: the check began at the beginning.

    A partial check is stored only if it found a violation, because it proves nothing about the rest. `since` is that of
    `check_ranges`.
    """
    is_complete = is_whole and checked.mark is None
    if is_complete or checked.violations:
        violations = list(checked.violations[:MOST_VIOLATIONS])
        result = {"rows": checked.rows, "violations": violations, "is_complete": is_complete}
        _keep("check", result, now, operator)
        if is_complete and since is None and not violations:
            _keep("full_check", result, now, operator)


def recent_since(now: datetime) -> datetime | None:
    """Return the time since which a check has to look: None for all, once a month and after a violation."""
    kept = {row.kind: row for row in Examination.select()}
    if "full_check" not in kept or kept["check"].result["violations"]:
        return None
    last_full: datetime = kept["full_check"].ended_at
    return None if now - last_full > _FULL_EVERY else last_full - _MAY_CHANGE_FOR


def last_examinations() -> LastExaminations:
    """The last result of each kind, None for a kind that never ran."""
    kept = {row.kind: row for row in Examination.select()}
    return LastExaminations(
        _last_doctor(kept["doctor"]) if "doctor" in kept else None,
        _last_check(kept["check"]) if "check" in kept else None,
    )


def _last_doctor(row: Examination) -> LastDoctor:
    findings = tuple(DoctorFinding(*each) for each in row.result["findings"])
    return LastDoctor(row.ended_at, row.machine, row.operator, findings)


def _last_check(row: Examination) -> LastCheck:
    result = row.result
    return LastCheck(
        row.ended_at, row.machine, row.operator, result["rows"], tuple(result["violations"]), result["is_complete"]
    )


def _keep(kind: str, result: Mapping[str, Any], now: datetime, operator: str | None) -> None:
    columns = {"ended_at": now, "machine": socket.gethostname(), "operator": operator, "result": result}
    with unit_of_work():
        Examination.put({"kind": kind}, columns)
