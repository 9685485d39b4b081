"""Messages about the state of the installation, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ussd_server.messages.health import Measure


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A background worker: its start and last heartbeat. `state` is `running`, `silent` or `taken_over`."""

    worker_id: str
    started_at: datetime
    seen_at: datetime
    state: str


@dataclass(frozen=True, slots=True)
class SystemView:
    """The state of the parts: the database's kind, Redis (`up` or `away`), missing migrations, workers, queues."""

    database: str
    redis: str
    missing_migrations: tuple[str, ...]
    workers: tuple[WorkerView, ...]
    queues: tuple[Measure, ...]


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One result of the doctor; `mend` says what to do, None when nothing is wrong."""

    part: str
    found: str
    mend: str | None


@dataclass(frozen=True, slots=True)
class BoundedCheck:
    """What a check of the books found in a few seconds: rows by table, sentences, and where the next one goes on.

    `mark` is None when everything was checked.
    """

    rows: dict[str, int]
    violations: tuple[str, ...]
    mark: str | None
