"""Messages about the state of the installation: health, measures and what the operator sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from ussd_server.languages import gettext, marked
from ussd_server.services.webhooks.messages import LateWebhook

_CHECKED = marked(
    {
        "schema": "the schema",
        "clients": "clients",
        "accounts": "accounts",
        "transactions": "transactions",
        "movements": "movements",
        "movement_uses": "uses of movements",
        "api_keys": "API keys",
        "bank_accounts": "bank accounts",
        "prefixes": "prefixes of payment codes",
        "payment_codes": "payment codes",
        "keys": "daily sums of API keys",
        "approval_rules": "approval rules",
        "payouts": "payouts",
        "events": "events",
        "deliveries": "deliveries",
        "closed_days": "closed days",
        "past_days": "past days",
        "sessions": "sessions",
    }
)


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A background worker: its start and last heartbeat. `state` is `running`, `silent` or `taken_over`."""

    worker_id: str
    started_at: datetime
    seen_at: datetime
    state: str


@dataclass(frozen=True, slots=True)
class SystemView:
    """The state of the parts. `database_fault` is `away`, `read-only`, `full` or None, `redis` is `up` or `away`."""

    database: str
    database_fault: str | None
    redis: str
    missing_migrations: tuple[str, ...]
    workers: tuple[WorkerView, ...]
    queues: tuple[Measure, ...]
    late_webhooks: tuple[LateWebhook, ...]


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One result of the doctor; `mend` says what to do, None when nothing is wrong."""

    part: str
    found: str
    mend: str | None = None


@dataclass(frozen=True, slots=True)
class BoundedCheck:
    """The result of a book check: rows by table, sentences of violations, and the mark where the next check continues.

    `mark` is None when everything was checked.
    """

    rows: dict[str, int]
    violations: tuple[str, ...]
    mark: str | None


@dataclass(frozen=True, slots=True)
class LastDoctor:
    """What the doctor found last, on which machine. `operator` ran it in the console, None at the command line."""

    ended_at: datetime
    machine: str
    operator: str | None
    findings: tuple[DoctorFinding, ...]


@dataclass(frozen=True, slots=True)
class LastCheck:
    """What the last check found: rows by table, and at most 100 sentences of violations.

    `is_complete` unless it was ended before everything was checked.
    """

    ended_at: datetime
    machine: str
    operator: str | None
    rows: dict[str, int]
    violations: tuple[str, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class LastExaminations:
    """The last doctor and the last check; None for what never ran."""

    doctor: LastDoctor | None
    check: LastCheck | None


@dataclass(frozen=True, slots=True)
class Health:
    """The process is alive."""

    status: Annotated[str, "`alive`."]
    version: Annotated[str, "The version of the service."]


@dataclass(frozen=True, slots=True)
class Readiness:
    """The service is ready, with the state of its parts."""

    status: Annotated[str, "`ready`."]
    database: Annotated[str, "`up`."]
    redis: Annotated[str, "`up`, or `away` while Redis is unreachable and every web process limits calls by itself."]


@dataclass(frozen=True, slots=True)
class Measure:
    """One number for monitoring: name, meaning, labels and value.

    A name that ends in `_total` is a counter; any other is a gauge. Names end with their unit.
    """

    name: str
    meaning: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def rows_in_words(rows: Mapping[str, int]) -> str:
    """What was checked, by part: each part with its number of rows."""
    words = {part: gettext(_CHECKED.get(part, part)) for part in rows}
    return ", ".join(words[part] + (f" {count:,}" if part != "schema" else "") for part, count in rows.items())
