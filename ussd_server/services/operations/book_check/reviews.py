"""The rule of reviews: each that was closed has the decision or the outcome that closed it.

Rows may have been edited by hand, so a value may have a wrong type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from ussd_server.services.operations.book_check.history import as_text
from ussd_server.services.settlement.outcomes import REVIEW_RETRACTED
from ussd_server.values import new_id_floor

UNDECIDED = "has a review that was closed without a decision or an outcome"

_COLUMNS = ("id", "client_id", "status", "review_reason", "review_note", "review_opened_at", "review_closed_at")
_CLOSED = "SELECT {} FROM transactions WHERE id > :low AND id <= :high AND review_closed_at IS NOT NULL ORDER BY id"
_OUTCOME = "SELECT 1 FROM transaction_events WHERE transaction_id = :low AND created_at = :closed_at"
# The ids of audit events begin with their milliseconds, so the index of a client finds those of one moment.
_DECISION = """SELECT 1 FROM audit_events WHERE client_id = :client_id AND id >= :low AND id < :high
    AND object_id = :object_id AND action IN ('transaction.reviewed', 'transaction.settled')"""


def review_faults(low: str, high: str, run: Callable[..., list[tuple[Any, ...]]]) -> Iterator[tuple[str, str]]:
    """Yield the id and the broken rule of every transaction within (low, high] whose review nothing closed.

    A second failure reported by the provider closes a review too, and is recorded nowhere else.
    """
    for row_id, client_id, status, reason, note, opened_at, closed_at in run(
        _CLOSED.format(as_text(_COLUMNS)), low=low, high=high
    ):
        is_denied = status == "failed" and reason == REVIEW_RETRACTED
        if opened_at is None or not (
            is_denied
            or run(_OUTCOME, low=row_id, closed_at=closed_at)
            or (note is not None and _has_decision(row_id, client_id, closed_at, run))
        ):
            yield row_id, UNDECIDED


def _has_decision(row_id: str, client_id: str, closed_at: str, run: Callable[..., list[tuple[Any, ...]]]) -> bool:
    try:
        moment = datetime.fromisoformat(closed_at)
    except ValueError:
        return False
    first, end = (new_id_floor(moment + timedelta(milliseconds=ms)) for ms in (0, 1))
    return bool(run(_DECISION, low=first, high=end, client_id=client_id, object_id=row_id))
