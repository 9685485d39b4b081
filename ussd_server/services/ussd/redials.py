"""Redials: what a new session of a phone begins with when the one before it broke off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.variables import SessionFacts
from ussd_server.menus.engine.navigator import DisplayOptions
from ussd_server.menus.engine.resumption import announce, reopen
from ussd_server.menus.engine.state import Turn
from ussd_server.messages.transactions import TransactionStatus
from ussd_server.messages.ussd import EndReason, SessionStatus
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.ussd.menus import published_document
from ussd_server.services.ussd.sessions import Arrived, Sessions, may_be_paying, state_of

FEWEST_TURNS_TO_RESUME = 2
_BROKE_OFF = (SessionStatus.ACTIVE, SessionStatus.TIMED_OUT, SessionStatus.ENDED_BY_USER, SessionStatus.FAILED)
_OUTCOMES = {
    TransactionStatus.SUCCEEDED: "succeeded",
    TransactionStatus.REVERSED: "succeeded",
    TransactionStatus.FAILED: "failed",
}


@dataclass(frozen=True, slots=True)
class Redial:
    """A session about to begin: its row, its menu, and what its first screen may need.

    `language` is the one that the phone chose last, None when it never chose; `given` is for the menu's given
    variables.
    """

    row: UssdSession
    document: Document
    arrived: Arrived
    language: str | None
    given: Mapping[str, Any]
    channel: DisplayOptions
    has_entries: bool


class Redials:
    """Decides whether a new session goes on from the phone's last one."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def first_turn(self, redial: Redial, last_id: str) -> Turn | None:
        """The outcome of the last session's payment, or an offer to continue it; None when it begins afresh.

        Waits while a deed of the last session is being done, so that nothing before a payment is ever offered while
        the payment is being recorded. When that cannot be known in time, the payment is said to be processed.
        """
        last = self._last(redial, last_id)
        if last is None:
            return None
        if may_be_paying(last):
            return _announced(redial, last, "processing", 0)
        if redial.document.resume == "off" or not _is_dropped(last, redial.arrived):
            return None
        payment = _payment_of(last)
        if payment is not None:
            outcome = _OUTCOMES.get(TransactionStatus(payment.status), "processing")
            return _announced(redial, last, outcome, payment.amount_cents)
        # A session that ended with its last screen stands nowhere.
        if redial.has_entries or not last.state or not _is_far(last):
            return None
        begun_with = published_document(last.menu_id, last.menu_version)
        reopened = reopen(begun_with, state_of(last), facts_of(redial.row), redial.channel)
        if reopened is not None:
            redial.row.menu_version = last.menu_version
        return reopened

    def _last(self, redial: Redial, last_id: str) -> UssdSession | None:
        """The last session of this phone with this menu, None when it is in the hands of a client program.

        One that may be continued is ended first: an entry that comes late must not be answered in it any more.
        """
        row = redial.row
        for _ in self._sessions.attempts():
            last = UssdSession.get_by_id(last_id)
            if (last.menu_id, last.service_code) != (row.menu_id, row.service_code):
                return None
            if last.status == SessionStatus.ACTIVE and None in (last.channel_id, row.channel_id):
                return None
            if not self._sessions.is_worked_on(last):
                may_continue = redial.document.resume != "off" and _is_far(last) and not self._sessions.is_over(last)
                if not may_continue or self._sessions.give_way(last):
                    break
        return last


def facts_of(row: UssdSession) -> SessionFacts:
    """What a menu may know of a session."""
    return SessionFacts(row.phone_number, row.service_code, row.network, row.id)


def _announced(redial: Redial, last: UssdSession, outcome: str, amount_cents: int) -> Turn:
    language = redial.language or last.language
    facts = facts_of(redial.row)
    return announce(redial.document, facts, language, outcome, amount_cents, given=redial.given, channel=redial.channel)


def _is_dropped(last: UssdSession, arrived: Arrived) -> bool:
    """Whether a session broke off, or ended with a screen that the person did not see.

    A session under way counts as dropped when the same phone dials again through a gateway, which does not always
    tell that a call broke off. An answer given after the person dialled again was not seen.
    """
    unseen = last.end_reason == EndReason.NOT_DELIVERED or last.last_seen_at > arrived.at
    broke_off = last.status in _BROKE_OFF or (last.status == SessionStatus.COMPLETED and unseen)
    return broke_off and last.working_token is None


def _is_far(row: UssdSession) -> bool:
    return row.turn >= FEWEST_TURNS_TO_RESUME


def _payment_of(row: UssdSession) -> Transaction | None:
    """The last payment that a session ordered, also one that the session itself could not note down any more."""
    payment: Transaction | None = (
        Transaction.select(Transaction.status, Transaction.amount_cents)
        .where(Transaction.session_id == row.id, Transaction.confirmation.is_null(False))
        .order_by(Transaction.id.desc())
        .first()
    )
    return payment
