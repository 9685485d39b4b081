"""Outcomes of payments that wait for the subscriber's next dial: each is shown once, within an hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from peewee import fn

from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import ShownOutcome, UssdSession
from ussd_server.services.transactions.messages import TransactionStatus
from ussd_server.values import new_id_floor

WAITS = timedelta(hours=1)
# A session that ended within the hour may have begun this much earlier.
_LONGEST_SESSION = timedelta(hours=1)
OUTCOME_WORDS = {
    TransactionStatus.SUCCEEDED: "succeeded",
    TransactionStatus.REVERSED: "succeeded",
    TransactionStatus.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class WaitingOutcome:
    """The outcome of a payment: `succeeded` or `failed`. `session_id` and `language` are those of its session."""

    transaction_id: str
    session_id: str
    language: str
    word: str
    kind: str
    amount_cents: int


def oldest_session_id(now: datetime) -> str:
    """Return the lowest id of a session whose payment's outcome may still wait."""
    return new_id_floor(now - WAITS - _LONGEST_SESSION)


def find_waiting(row: UssdSession, now: datetime) -> WaitingOutcome | None:
    """Return the oldest outcome that waits for a dial of the code of `row` by its phone; None while it is pending."""
    shown = ShownOutcome.select(ShownOutcome.transaction_id).where(ShownOutcome.transaction_id == Transaction.id)
    found: Any = (
        Transaction.select(
            Transaction.id,
            Transaction.status,
            Transaction.type,
            Transaction.amount_cents,
            UssdSession.id.alias("paid_in"),
            UssdSession.language.alias("spoken"),
        )
        .join(UssdSession, on=(Transaction.session_id == UssdSession.id))
        .where(
            UssdSession.client_id == row.client_id,
            UssdSession.phone_number == row.phone_number,
            UssdSession.id >= oldest_session_id(now),
            UssdSession.service_code == row.service_code,
            UssdSession.last_seen_at >= now - WAITS,
            Transaction.confirmation.is_null(False),
            Transaction.status.in_(list(OUTCOME_WORDS)),
            ~fn.EXISTS(shown),
        )
        .order_by(Transaction.id)
        .objects()
        .first()
    )
    if found is None:
        return None
    word = OUTCOME_WORDS[TransactionStatus(found.status)]
    return WaitingOutcome(found.id, str(found.paid_in), found.spoken, word, found.type, found.amount_cents)


def mark_shown(outcome: WaitingOutcome, now: datetime) -> bool:
    """Note that an outcome is shown, in the unit of work that inserts the session. False when it was shown before."""
    row = {"transaction_id": outcome.transaction_id, "session_id": outcome.session_id, "shown_at": now}
    return bool(ShownOutcome.insert(row).on_conflict_ignore().as_rowcount().execute())
