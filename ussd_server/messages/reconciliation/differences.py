"""What the comparison of a statement found, and the review of differences."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Verdict(StrEnum):
    """What the comparison found for a line, or for a transaction that the statement lacks (wire contract 13)."""

    MATCHED = "matched"
    AMOUNT_DIFFERS = "amount_differs"
    STATUS_DIFFERS = "status_differs"
    NOT_OURS = "not_ours"
    NOT_THEIRS = "not_theirs"
    REVERSAL = "reversal"
    FEE = "fee"


MAY_DIFFER = tuple(verdict for verdict in Verdict if verdict not in (Verdict.MATCHED, Verdict.FEE))
"""The verdicts that differences have. Of reversals, only those that no refund of ours explains are differences."""


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """The result for one line; `line` is None for a transaction that the statement lacks.

    `reference` is our name for the payment at the provider. `ours` and `theirs` are what was compared: statuses for
    `status_differs`, else cents with a sign, positive for money to us; None on a side that has nothing.
    `is_difference` says whether an operator must look at it. `dated` and `party` are as in the statement.
    """

    line: int | None
    verdict: Verdict
    provider_id: str | None
    reference: str | None
    transaction_id: str | None
    ours: int | str | None
    theirs: int | str | None
    is_difference: bool
    dated: str | None = None
    party: str | None = None


@dataclass(frozen=True, slots=True)
class ListDifferences:
    """Request for a page of differences: those of one statement in its order, or else the open ones, newest first.

    With `verdict` only those of a statement that have it.
    """

    statement_id: str | None = None
    cursor: str | None = None
    limit: int = 50
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class DifferenceView:
    """A difference and its review; `statement_id`, `file_name` and the line are of the first statement that had it.

    `reason` and `ended_by` say how the review ended; they and `ended_at` are None while it is open.
    """

    difference_id: str
    provider: str
    statement_id: str
    file_name: str
    line: int | None
    verdict: Verdict
    provider_id: str | None
    reference: str | None
    transaction_id: str | None
    ours: int | str | None
    theirs: int | str | None
    dated: str | None
    party: str | None
    opened_at: datetime
    ended_at: datetime | None
    ended_by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class DifferencePage:
    """A page of differences and the cursor of the next one."""

    items: tuple[DifferenceView, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class EndDifference:
    """Request to end the review of a difference. `reason` is 1 to 200 characters, `by` the name of the operator."""

    difference_id: str
    reason: str
    by: str = "operator"


@dataclass(frozen=True, slots=True)
class ConcludeFromStatement:
    """Request to conclude a payment that succeeded for the provider, and is unfinished or failed here.

    `by` and `second` are the names of two different people.
    """

    difference_id: str
    reason: str
    by: str
    second: str
