"""Messages of trials: what is tried, and the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

REPORT_FORMAT = 1


@dataclass(frozen=True, slots=True)
class TryProvider:
    """Try a connection with the phone of a person who approves one payment and declines another.

    `wrong_number` is no wallet of this provider; None: one that begins as its numbers do.
    """

    connection: str
    phone_number: str
    amount_cents: int
    wrong_number: str | None = None


@dataclass(slots=True)
class TrialStep:
    """One step: what was expected and what came.

    `took_ms` are its calls. `forms` are those of receipts and moments, with 9 for a digit and A for a letter.
    `callback_seconds` is when the callback came after the payment was sent, None for none.
    """

    step: str
    expected: str
    came: str = ""
    ok: bool = False
    took_ms: list[int] = field(default_factory=list)
    unknown_fields: list[str] = field(default_factory=list)
    unknown_codes: list[str] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    callback_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TrialReport:
    """What came of a trial. `calls` are its HTTP exchanges without secrets and numbers, which `simulators` answer from.

    `clock_difference_seconds` is by how much the provider's clock is ahead of ours, None where it states no time.
    """

    format: int
    provider: str
    connection: str
    version: str
    made_at: datetime
    amount_cents: int
    clock_difference_seconds: float | None
    steps: list[TrialStep]
    calls: list[dict[str, Any]]

    @property
    def is_as_expected(self) -> bool:
        return all(step.ok for step in self.steps)
