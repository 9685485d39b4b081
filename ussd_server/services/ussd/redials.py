"""Redials: what a new session shows first when the subscriber's last session was cut off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ussd_server.menus.document.document import Document
from ussd_server.menus.engine.navigator import DisplayOptions, SessionFacts, Turn
from ussd_server.menus.engine.resumption import announce, reopen
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.documents import published_document
from ussd_server.services.sessions.lookup import FEWEST_TURNS_TO_RESUME, OUTCOME_WORDS, WaitingOutcome
from ussd_server.services.sessions.messages import DROPPED_OFF, EndReason, SessionStatus
from ussd_server.services.sessions.sessions import Sessions, StepInput, may_be_paying, state_of
from ussd_server.services.transactions.messages import TransactionStatus

_CUT_OFF = (SessionStatus.ACTIVE, *DROPPED_OFF)


@dataclass(frozen=True, slots=True)
class Redial:
    """A session about to begin, and what its first screen may need.

    `language` is the one that the subscriber chose last, None for none; `given` fills the menu's given variables.
    """

    row: UssdSession
    document: Document
    input: StepInput
    language: str | None
    given: Mapping[str, Any]
    display: DisplayOptions
    has_entries: bool


class Redials:
    """Decides whether a new session resumes the subscriber's last one."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def outcome_turn(self, redial: Redial, outcome: WaitingOutcome) -> Turn:
        """Return the screen that shows the outcome of an earlier payment."""
        return announce(
            redial.document,
            facts_of(redial.row),
            redial.language or outcome.language,
            outcome.word,
            outcome.amount_cents,
            kind=outcome.kind,
            given=redial.given,
            channel=redial.display,
        )

    def first_turn(self, redial: Redial, last_id: str) -> Turn | None:
        """Return the outcome of the last session's payment or an offer to resume it; None to begin at the start.

        Waits for a step of the last session that is in progress, so that no screen before a payment is offered while
        the payment is being created. If that step takes too long, the screen says that the payment is being processed.
        """
        last = self._last(redial, last_id)
        if last is None:
            return None
        if may_be_paying(last):
            return _announced(redial, last, "processing", 0)
        if redial.document.resume == "off" or not _is_cut_off(last, redial.input):
            return None
        payment = _payment_of(last)
        if payment is not None:
            outcome = OUTCOME_WORDS.get(TransactionStatus(payment.status), "processing")
            return _announced(redial, last, outcome, payment.amount_cents)
        # A session that ended with its last screen has no state.
        if redial.has_entries or not last.state or not _is_resumable(last):
            return None
        document = published_document(last.menu_id, last.menu_version)
        reopened = reopen(document, state_of(last), facts_of(redial.row), redial.display)
        if reopened is not None:
            redial.row.menu_version = last.menu_version
        return reopened

    def _last(self, redial: Redial, last_id: str) -> UssdSession | None:
        """The last session of this phone with this menu; None when a client program holds it.

        A session that may be resumed is ended first, so that it answers no late entry.
        """
        row = redial.row
        for _ in self._sessions.attempts(lambda: redial.row.client_id):
            last = UssdSession.get_by_id(last_id)
            if (last.menu_id, last.service_code) != (row.menu_id, row.service_code):
                return None
            if last.status == SessionStatus.ACTIVE and None in (last.channel_id, row.channel_id):
                return None
            if not self._sessions.is_claimed(last):
                resumes = redial.document.resume != "off" and _is_resumable(last) and not self._sessions.is_over(last)
                if not resumes or self._sessions.endings.end_for_redial(last):
                    break
        return last


def facts_of(row: UssdSession) -> SessionFacts:
    """Return what a menu may know of a session."""
    return SessionFacts(row.phone_number, row.service_code, row.network, row.id)


def _announced(redial: Redial, last: UssdSession, outcome: str, amount_cents: int) -> Turn:
    language = redial.language or last.language
    facts = facts_of(redial.row)
    return announce(redial.document, facts, language, outcome, amount_cents, given=redial.given, channel=redial.display)


def _is_cut_off(last: UssdSession, step_input: StepInput) -> bool:
    """Whether a session was cut off, or ended with a screen that the subscriber did not see.

    An active session counts as cut off when its phone dials again, because gateways do not always report the end of a
    call. The subscriber did not see an answer that was given after dialling again.
    """
    unseen = last.end_reason == EndReason.NOT_DELIVERED or last.last_seen_at > step_input.received_at
    was_cut_off = last.status in _CUT_OFF or (last.status == SessionStatus.COMPLETED and unseen)
    return was_cut_off and last.working_token is None


def _is_resumable(row: UssdSession) -> bool:
    return row.turn >= FEWEST_TURNS_TO_RESUME


def _payment_of(row: UssdSession) -> Transaction | None:
    """The last payment that a session created, also one whose id the session row does not have."""
    payment: Transaction | None = (
        Transaction.select(Transaction.status, Transaction.amount_cents)
        .where(Transaction.session_id == row.id, Transaction.confirmation.is_null(False))
        .order_by(Transaction.id.desc())
        .first()
    )
    return payment
