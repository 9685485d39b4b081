"""Conversations: begin or resume a session, run the menu engine and its actions, and write each step once."""

from __future__ import annotations

from typing import Any

from ussd_server.context import RequestContext
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.variables import MAX_ITEMS
from ussd_server.menus.engine.actions import ActionOutcome, MenuAction, WaitAction
from ussd_server.menus.engine.engine import enter, finish, start
from ussd_server.menus.engine.navigator import STANDARD, DisplayOptions, SessionFacts, Turn
from ussd_server.menus.engine.resumption import announce, reopen
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.accounts.balances import transactions_of
from ussd_server.services.menus.documents import document_of, facts_of, published_document, reads_pin
from ussd_server.services.subscribers.pins import has_pin
from ussd_server.services.transactions.messages import TransactionStatus
from ussd_server.services.ussd.actions import ActionContext, Actions
from ussd_server.services.ussd.lookup import FEWEST_TURNS_TO_RESUME, OUTCOME_WORDS, CodeTarget, find_waiting, mark_shown
from ussd_server.services.ussd.messages import DROPPED_OFF, EndReason, SessionStatus
from ussd_server.services.ussd.sessions import Sessions, StepInput, may_be_paying, state_of
from ussd_server.values import KAMPALA, unchanging

_LONGEST_NETWORK = 10
_CUT_OFF = (SessionStatus.ACTIVE, *DROPPED_OFF)


@unchanging
class DialRequest:
    """A dialled code, where it leads, and the call that it came by: an API key's, or a channel's.

    `from_start` resumes nothing. `previous_id` is the session before it under the same gateway session id, if any.
    """

    phone_number: str
    service_code: str
    network: str
    target: CodeTarget
    input: StepInput
    context: RequestContext
    entries: tuple[str, ...] = ()
    display: DisplayOptions = STANDARD
    from_start: bool = False
    provider_session_id: str | None = None
    previous_id: str | None = None


class Conversations:
    """Takes sessions from one screen to the next. None means: another step was faster, read the session again."""

    def __init__(self, sessions: Sessions, actions: Actions) -> None:
        self._sessions, self._provider_states = sessions, sessions.provider_states
        self._actions = actions

    def begin(self, dial: DialRequest) -> UssdSession | None:
        """Begin a session and return it with its first screen; None when the same step was faster elsewhere."""
        if dial.target.may_have_outcome and not dial.from_start:
            row = self._new_row(dial)
            outcome = find_waiting(row, dial.input.received_at)
            if outcome is not None:
                turn = self._announced(row, dial, outcome.language, outcome.word, outcome.amount_cents, outcome.kind)
                if self._sessions.insert_announcing(row, turn, dial.input, outcome):
                    return row
        row = self._new_row(dial)
        turn = self._resumed(row, dial) or self._started(row, dial)
        if turn.action is None:
            is_written = self._sessions.insert_answered(row, turn, dial.input)
            return self._told(row, dial.input) if is_written else None
        row.node, row.language = turn.state.node, turn.state.language
        if not self._sessions.insert_claimed(row):
            return None
        return self._finish(row, turn, dial.input, dial.context, dial.display)

    def _new_row(self, dial: DialRequest) -> UssdSession:
        return self._sessions.new_row(
            dial.previous_id,
            client_id=dial.target.client_id,
            menu_id=dial.target.menu_id,
            menu_version=dial.target.menu_version,
            key_id=dial.context.caller.key_id,
            channel_id=dial.context.caller.channel_id,
            provider_session_id=dial.provider_session_id,
            phone_number=dial.phone_number,
            service_code=dial.service_code,
            network=dial.network[:_LONGEST_NETWORK],
        )

    def _resumed(self, row: UssdSession, dial: DialRequest) -> Turn | None:
        """Return the outcome of the last session's payment or an offer to resume it; None to begin at the start.

        Waits for a step of the last session that is in progress, so that no screen before a payment is offered while
        the payment is being created. If that step takes too long, the screen says that the payment is being processed.
        """
        last = None if dial.from_start else self._last(row, dial.target.last_session_id)
        if last is None:
            return None
        if may_be_paying(last):
            return self._announced(row, dial, last.language, "processing")
        was_unseen = last.end_reason == EndReason.NOT_DELIVERED
        if (document_of(row).resume == "off" and not was_unseen) or not _is_cut_off(last, dial.input):
            return None
        payment = _payment_of(last)
        if payment is not None:
            outcome = OUTCOME_WORDS.get(TransactionStatus(payment.status), "pending")
            dial.input.effects.told_id = payment.id if outcome != "pending" else None
            return self._announced(row, dial, last.language, outcome, payment.amount_cents, payment.type)
        # A session that ended with its last screen has no state.
        if dial.entries or not last.state or not _is_resumable(last):
            return None
        state = state_of(last, self._provider_states)
        reopened = reopen(document_of(last), state, self._facts(row, last.menu_version), dial.display)
        if reopened is not None:
            row.menu_version = last.menu_version
        return reopened

    def _last(self, row: UssdSession, last_id: str | None) -> UssdSession | None:
        """The last session of this phone with this menu; None without one, and when a client program holds it.

        Phones resume what phones entered, and programs what programs did. A session that may be resumed is ended first,
        so that it answers no late entry.
        """
        if last_id is None:
            return None
        for _ in self._sessions.attempts(lambda: row.client_id):
            last = UssdSession.get_by_id(last_id)
            if (last.menu_id, last.service_code) != (row.menu_id, row.service_code):
                return None
            if (last.channel_id is None) is not (row.channel_id is None):
                return None
            if last.status == SessionStatus.ACTIVE and row.channel_id is None:
                return None
            if not self._sessions.is_claimed(last):
                may_resume = document_of(row).resume != "off" and _is_resumable(last)
                if not may_resume or self._sessions.is_over(last) or self._sessions.endings.end_for_redial(last):
                    break
        return last

    def enter(
        self,
        row: UssdSession,
        entry: str,
        step_input: StepInput,
        context: RequestContext,
        display: DisplayOptions = STANDARD,
    ) -> UssdSession | None:
        """Answer an entry by the rights of `context`; None when another step was faster or the session has ended."""
        turn = self._turn_after(row, entry, display)
        if turn.action is not None:
            return self._finish(row, turn, step_input, context, display) if self._sessions.claim(row) else None
        return row if self._sessions.write(row, turn, step_input) else None

    def enter_cached(self, row: UssdSession, entry: str, step_input: StepInput, display: DisplayOptions) -> bool:
        """Answer an entry to a cached session. Returns False, and changes nothing, when the cached row was out of date.

        False also for an entry that needs an action: the session must be read before it is claimed.
        """
        turn = self._turn_after(row, entry, display)
        return turn.action is None and self._sessions.write(row, turn, step_input, is_cached=True)

    def _turn_after(self, row: UssdSession, entry: str, display: DisplayOptions) -> Turn:
        document = published_document(row.menu_id, row.menu_version)
        return enter(document, self._sessions.state_of(row), entry, display)

    def _finish(
        self,
        row: UssdSession,
        turn: Turn,
        step_input: StepInput,
        context: RequestContext,
        display: DisplayOptions,
    ) -> UssdSession | None:
        """Run the actions of a claimed step and write it; None when the session has ended since.

        Releases the claim of a step that was not written, unless it is unknown whether a payment was created.
        """
        token, is_written, effects = row.working_token, False, step_input.effects
        assert token is not None
        action_context = ActionContext(context, step_input, row)

        def run(action: MenuAction) -> ActionOutcome:
            if isinstance(action, WaitAction):
                self._sessions.hold(row, step_input.waits_until)
            return self._actions.run(action, action_context)

        try:
            turn = finish(document_of(row), turn, run, display)
            is_written = self._sessions.write(row, turn, step_input, effects.transaction_id)
        finally:
            if not is_written and not effects.is_unsure:
                self._sessions.release(row.id, token, effects.transaction_id)
        return self._told(row, step_input) if is_written else None

    @staticmethod
    def _told(row: UssdSession, step_input: StepInput) -> UssdSession:
        """Note the payment whose outcome the screen of a written step tells; return its session."""
        if step_input.effects.told_id is not None:
            mark_shown(step_input.effects.told_id, row.id, row.last_seen_at)
        return row

    def _facts(self, row: UssdSession, menu_version: int | None = None) -> SessionFacts:
        """The facts of a session that begins, with the PIN's where its menu asks for it."""
        is_asked = reads_pin(row.menu_id, menu_version or row.menu_version)
        pin = has_pin(row.client_id, row.phone_number) if is_asked else None
        return facts_of(row, self._provider_states, pin)

    def _started(self, row: UssdSession, dial: DialRequest) -> Turn:
        document, language = document_of(row), dial.target.language
        values = _given_values(document, row, dial.context)
        return start(document, self._facts(row), language, values=values, entries=dial.entries, channel=dial.display)

    def _announced(
        self,
        row: UssdSession,
        dial: DialRequest,
        language: str,
        outcome: str,
        amount_cents: int = 0,
        kind: str = "collection",
    ) -> Turn:
        """The outcome of a payment, in the language that the subscriber chose last, else in `language`."""
        document = document_of(row)
        return announce(
            document,
            self._facts(row),
            dial.target.language or language,
            outcome,
            amount_cents,
            kind=kind,
            values=_given_values(document, row, dial.context),
            channel=dial.display,
        )


def _is_cut_off(last: UssdSession, step_input: StepInput) -> bool:
    """Whether a session was cut off, or ended with a screen that the subscriber did not see.

    An active session counts as cut off when its phone dials again, because gateways do not always report the end of a
    call. The subscriber did not see an answer that was given after dialling again. A step in progress leaves open where
    the session stands, but not what it has paid.
    """
    unseen = last.end_reason == EndReason.NOT_DELIVERED or last.last_seen_at > step_input.received_at
    was_cut_off = last.status in _CUT_OFF or (last.status == SessionStatus.COMPLETED and unseen)
    return was_cut_off and (last.working_token is None or last.transaction_id is not None)


def _is_resumable(row: UssdSession) -> bool:
    return row.turn >= FEWEST_TURNS_TO_RESUME


def _payment_of(row: UssdSession) -> Transaction | None:
    """The last payment that a session created, also one whose id the session row does not have."""
    payment: Transaction | None = (
        Transaction.select(Transaction.id, Transaction.status, Transaction.type, Transaction.amount_cents)
        .where(Transaction.session_id == row.id, Transaction.confirmation.is_null(False))
        .order_by(Transaction.id.desc())
        .first()
    )
    return payment


def _given_values(document: Document, row: UssdSession, context: RequestContext) -> dict[str, Any]:
    """The given variables of a menu: `statement`, the subscriber's latest payments, newest first.

    Empty for a key that may not read payments.
    """
    declared = document.variables.get("statement")
    if declared is None or not declared.given or not context.may("transactions:read"):
        return {}
    is_theirs = (Transaction.phone_number == row.phone_number) | (Transaction.to_phone_number == row.phone_number)
    of_client = Transaction.client_id == row.client_id
    # No index has `to_phone_number`: money that was sent to the number is found by the account that it moved on.
    ids = transactions_of(row.phone_number, of_client)
    latest = (
        Transaction.select()
        .where(of_client, Transaction.id.in_(ids), is_theirs, Transaction.status == TransactionStatus.SUCCEEDED)
        .order_by(Transaction.id.desc())
        .limit(MAX_ITEMS)
    )
    return {
        "statement": [
            {
                "date": payment.created_at.astimezone(KAMPALA).strftime("%d/%m"),
                "type": payment.type,
                "amount": payment.amount_cents // 100,
                "reference": payment.provider_transaction_id or payment.id[-8:],
            }
            for payment in latest
        ]
    }
