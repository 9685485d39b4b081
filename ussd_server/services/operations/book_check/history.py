"""The rules of status histories, events and reviews: each transaction is compared with all that is written about it.

Rows may have been edited by hand, so a value may have a wrong type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from ussd_server.database.tables import fixed_columns
from ussd_server.database.unit_of_work import dialect, run_query
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FAILURES
from ussd_server.security.key_ring import Vault
from ussd_server.services.processing.outcomes import REVIEW_ELSEWHERE, REVIEW_RETRACTED
from ussd_server.services.transactions.messages import UNFINISHED, TransactionView
from ussd_server.services.webhooks.messages import EVENT_TYPES
from ussd_server.values import new_id_floor, shillings

MISSING = "is not there, and its status history or its events are"
BROKEN_HISTORY = "has a status history with a gap, an impossible step or another end than its status"
EVENTS_MISSING = "does not have one event for each step of its status history"
CONTRADICTED = "has an event that contradicts its status history"
FORGED = "has an event that shows something else than the transaction"
UNREPORTED_REVIEW = "has a review without an event of it, or such an event and no review"
UNDECIDED = "has a review that was closed without a decision or an outcome"

HISTORY_RULES = (MISSING, BROKEN_HISTORY, EVENTS_MISSING, CONTRADICTED, FORGED, UNREPORTED_REVIEW, UNDECIDED)

_NEEDS_REVIEW = "transaction.needs_review"
# Only known other types are left out, so an event whose type was changed counts as missing.
_OTHER_TYPES = ", ".join(f"'{name}'" for name in EVENT_TYPES if not name.startswith("transaction."))

FOLLOWERS: dict[str, set[str]] = {
    "created": {"submitted", "pending", "ambiguous", "succeeded", "failed"},
    "submitted": {"pending", "ambiguous", "succeeded", "failed"},
    "pending": {"ambiguous", "succeeded", "failed"},
    "ambiguous": {"pending", "succeeded", "failed"},
    "failed": {"succeeded"},
    "succeeded": {"reversed"},
    "reversed": {"succeeded"},
}
# Compared as numbers and as an object.
_NOT_AS_TEXT = ("amount_cents", "fee_cents", "metadata")
# The fields of a transaction that its events show and that never change.
_FIXED = (
    "request_id",
    *(
        name
        for name in fixed_columns(Transaction)
        if name in TransactionView.__annotations__ and name not in _NOT_AS_TEXT
    ),
)
_MOVING = (
    "client_id", "status", "failure_code", "late", "completed_at", "provider_transaction_id", "review_opened_at",
    "amount_cents", "fee_cents", "metadata", "same_money_as", "released_at",
)  # fmt: skip
_MOMENTS = (
    "created_at", "completed_at", "review_opened_at", "review_closed_at", "approved_at", "send_at", "needs_money_at",
    "withdrawn_at", "revoked_at",
)  # fmt: skip
_NUMBERS = (
    "sequence", "late", "amount_cents", "fee_cents", "item_count", "ready_count", "invalid_count",
    "total_amount_cents", "total_fee_cents", "round", "round_count", "round_amount_cents",
)  # fmt: skip


class _Step(NamedTuple):
    owner: str
    client_id: str
    created_at: str
    sequence: int
    status: str


class _EventRow(NamedTuple):
    owner: str
    client_id: str
    created_at: str
    type: str
    payload: str


def history_faults(low: str, high: str, _: Vault | None = None) -> Iterator[tuple[str, str]]:
    """Yield the id and the broken rule of every transaction within (low, high] whose history or events contradict it.

    Also of every one whose review nothing closed. The range is in memory: some 6 kB for each transaction.
    """
    bounds = {"low": low, "high": high}
    columns = ("id", *_FIXED, *_MOVING)
    rows = {row[0]: dict(zip(columns, row, strict=True)) for row in run_query(_ROWS.format(as_text(columns)), **bounds)}
    steps, events = defaultdict(list), defaultdict(list)
    for step in map(_Step._make, run_query(_STEPS.format(as_text(("transaction_id", *_Step._fields[1:]))), **bounds)):
        steps[step.owner].append(step)
    event_rows = run_query(_EVENTS.format(as_text(("object_id", *_EventRow._fields[1:])), _OTHER_TYPES), **bounds)
    for event in map(_EventRow._make, event_rows):
        events[event.owner].append(event)
    for owner in sorted(rows.keys() | steps.keys() | events.keys()):
        if owner in rows:
            yield from ((owner, rule) for rule in _broken(rows[owner], steps[owner], events[owner]))
        else:
            yield owner, MISSING
    yield from _undecided(low, high)


_ROWS = "SELECT {} FROM transactions WHERE id > :low AND id <= :high"
_STEPS = """SELECT {} FROM transaction_events
    WHERE transaction_id > :low AND transaction_id <= :high ORDER BY transaction_id, sequence"""
_EVENTS = """SELECT {} FROM events
    WHERE object_id > :low AND object_id <= :high AND type NOT IN ({})
    ORDER BY object_id, sequence, id"""


def as_text(columns: Sequence[str]) -> str:
    """Return the columns for a SELECT: times as events write them, numbers unchanged, all else as text."""
    ours = dialect()
    return ", ".join(
        name if name in _NUMBERS else ours.moment(name) if name in _MOMENTS else ours.text(name) for name in columns
    )


def _broken(row: dict[str, Any], steps: Sequence[_Step], events: Sequence[_EventRow]) -> Iterator[str]:
    statuses = [step.status for step in steps]
    if (
        [step.sequence for step in steps] != [*range(1, len(steps) + 1)]
        or statuses[:1] != ["created"]
        or statuses[-1] != row["status"]
        or any(after not in FOLLOWERS.get(before, ()) for before, after in pairwise(statuses))
    ):
        yield BROKEN_HISTORY
    changes = [event for event in events if event.type != _NEEDS_REVIEW]
    reviews = [event.created_at for event in events if event.type == _NEEDS_REVIEW]
    if row["review_opened_at"] != (reviews[-1] if reviews else None):
        yield UNREPORTED_REVIEW
    if len(changes) != len(steps):
        yield EVENTS_MISSING
    elif any(
        (event.type, event.created_at) != (f"transaction.{step.status}", step.created_at)
        or {event.client_id, step.client_id} != {row["client_id"]}
        for step, event in zip(steps, changes, strict=True)
    ):
        yield CONTRADICTED
    if _is_forged(row, events):
        yield FORGED


def _is_forged(row: dict[str, Any], events: Sequence[_EventRow]) -> bool:
    """Return whether an event shows a value that the transaction cannot have had then."""
    try:
        metadata = row["metadata"] and orjson.loads(row["metadata"])
        stored = [orjson.loads(event.payload) for event in events]
    except ValueError:
        return True
    if not all(isinstance(each, dict) for each in stored):
        return True
    amounts = {name: shillings(row[f"{name}_cents"]) for name in ("amount", "fee")}
    fixed = {"transaction_id": row["id"], "metadata": metadata} | amounts | {name: row[name] for name in _FIXED}
    outcome, payload = _Outcome(), dict[str, Any]()
    for event, changed in zip(events, stored, strict=True):
        # The first event keeps no nulls, a later one what differs from the first.
        payload = dict.fromkeys(fixed) | stored[0] | changed
        outcome = outcome.after(event)
        if not payload.items() >= fixed.items() or not outcome.is_shown_by(payload):
            return True
        refunded = payload.get("refunded_amount")
        collected = amounts["amount"] if row["type"] == "collection" else 0
        is_whole = outcome.status == "reversed" and row["released_at"] is None
        if refunded is not None and not _may_be_refunded(refunded, event, outcome, collected, is_whole=is_whole):
            return True
    return bool(events) and not _ends_with(row, outcome, payload)


def _may_be_refunded(
    refunded: object, event: _EventRow, outcome: _Outcome, collected: float, *, is_whole: bool
) -> bool:
    """Return whether an event may show that so much of what was collected was refunded; `is_whole`: all of it was."""
    if is_whole:
        return refunded == collected
    if outcome.was_reversed or (event.type == _NEEDS_REVIEW and outcome.status == "succeeded"):
        return isinstance(refunded, int | float) and 0 <= refunded <= collected
    return refunded == 0


class _Outcome(NamedTuple):
    """The outcome of a transaction according to its events up to one of them."""

    status: str | None = None
    completed_at: str | None = None
    is_late: bool = False
    has_failed: bool = False
    was_reversed: bool = False

    def after(self, event: _EventRow) -> _Outcome:
        if event.type == _NEEDS_REVIEW:
            return self
        status = event.type.removeprefix("transaction.")
        is_completed = status in ("succeeded", "failed") and self.status != "reversed"
        return _Outcome(
            status,
            event.created_at if is_completed else self.completed_at,
            self.is_late or (self.has_failed and status == "succeeded"),
            self.has_failed or status == "failed",
            self.was_reversed or status == "reversed",
        )

    def is_shown_by(self, payload: dict[str, Any]) -> bool:
        """Return whether an event with this payload may have been written at this point."""
        return (
            (payload.get("status"), payload.get("completed_at"), payload.get("late"))
            == (self.status, self.completed_at, self.is_late)
            and (payload.get("failure") is not None) == (self.status == "failed")
            and (self.status != "failed" or _failure_code(payload) in FAILURES)
        )


def _ends_with(row: dict[str, Any], outcome: _Outcome, payload: dict[str, Any]) -> bool:
    """Return whether a transaction has the outcome of its events, and the provider's number that the last one shows."""
    if (row["completed_at"], row["failure_code"], row["late"]) != (
        outcome.completed_at,
        _failure_code(payload),
        outcome.is_late,
    ):
        return False
    if payload.get("same_money_as") not in (None, row["same_money_as"]):
        return False
    receipt, number = payload.get("provider_transaction_id"), row["provider_transaction_id"]
    # A provider may send its transaction id after the outcome, but never two of them.
    is_settled = outcome.status not in UNFINISHED and row["review_opened_at"] is None
    return receipt is None or receipt == number or (number is not None and not is_settled)


def _failure_code(payload: dict[str, Any]) -> str | None:
    failure = payload.get("failure")
    code = failure.get("code") if isinstance(failure, dict) else None
    return code if isinstance(code, str) else None


_OF_REVIEW = ("id", "client_id", "status", "review_reason", "review_note", "review_opened_at", "review_closed_at")
_CLOSED = "SELECT {} FROM transactions WHERE id > :low AND id <= :high AND review_closed_at IS NOT NULL ORDER BY id"
_OUTCOME = "SELECT 1 FROM transaction_events WHERE transaction_id = :low AND created_at = :closed_at"
# The ids of audit events begin with their milliseconds, so the index of a client finds those of one moment.
_DECISION = """SELECT 1 FROM audit_events WHERE client_id = :client_id AND id >= :low AND id < :high
    AND object_id = :object_id AND action IN ('transaction.reviewed', 'transaction.settled')"""


def _undecided(low: str, high: str) -> Iterator[tuple[str, str]]:
    """Yield the transactions whose review was closed by no decision and no outcome.

    A second failure reported by the provider closes a review too, and so does a place that the settings have again;
    neither is recorded elsewhere.
    """
    closed = list(run_query(_CLOSED.format(as_text(_OF_REVIEW)), low=low, high=high))
    for row_id, client_id, status, reason, note, opened_at, closed_at in closed:
        is_denied = (status == "failed" and reason == REVIEW_RETRACTED) or reason == REVIEW_ELSEWHERE
        if opened_at is None or not (
            is_denied
            or _exists(_OUTCOME, low=row_id, closed_at=closed_at)
            or (note is not None and _has_decision(row_id, client_id, closed_at))
        ):
            yield row_id, UNDECIDED


def _has_decision(row_id: str, client_id: str, closed_at: str) -> bool:
    try:
        moment = datetime.fromisoformat(closed_at)
    except ValueError:
        return False
    first, end = (new_id_floor(moment + timedelta(milliseconds=ms)) for ms in (0, 1))
    return _exists(_DECISION, low=first, high=end, client_id=client_id, object_id=row_id)


def _exists(query: str, **values: str) -> bool:
    return run_query(query, **values).fetchone() is not None
