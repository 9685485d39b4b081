"""Conversations: run the menu engine and its actions, and write each step once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.menus.document.document import Document
from ussd_server.menus.engine.engine import enter, resume, start
from ussd_server.menus.engine.navigator import STANDARD, DisplayOptions, Turn
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.menus.documents import published_document
from ussd_server.services.sessions.lookup import CodeTarget, find_waiting
from ussd_server.services.sessions.sessions import Sessions, StepInput, state_of
from ussd_server.services.transactions.messages import TransactionStatus
from ussd_server.services.ussd.actions import ActionContext, Actions
from ussd_server.services.ussd.redials import Redial, Redials, facts_of

_LONGEST_NETWORK = 10


@dataclass(frozen=True, slots=True)
class DialRequest:
    """A dialled code, and the API key or the channel that it came by.

    `from_start` resumes nothing. `previous_id` is the session before it under the same gateway session id, if any.
    """

    phone_number: str
    service_code: str
    network: str
    entries: tuple[str, ...] = ()
    from_start: bool = False
    key_id: str | None = None
    channel_id: str | None = None
    provider_session_id: str | None = None
    previous_id: str | None = None


class Conversations:
    """Takes sessions from one screen to the next. None means: another step was faster, read the session again."""

    def __init__(self, sessions: Sessions, actions: Actions) -> None:
        self._sessions = sessions
        self._redials = Redials(sessions)
        self._actions = actions

    def begin(
        self,
        dial: DialRequest,
        target: CodeTarget,
        step_input: StepInput,
        request_id: str,
        display: DisplayOptions = STANDARD,
    ) -> UssdSession | None:
        """Begin a session and return it with its first screen; None when the same step was faster elsewhere."""
        if target.may_have_outcome and not dial.from_start:
            row = self._new_row(dial, target)
            outcome = find_waiting(row, step_input.received_at)
            if outcome is not None:
                turn = self._redials.outcome_turn(self._redial(row, dial, target, step_input, display), outcome)
                row.node, row.language = turn.state.node, turn.state.language
                if self._sessions.insert_announcing(row, turn, step_input, outcome):
                    return row
        row = self._new_row(dial, target)
        turn = self._first_turn(row, dial, target, step_input, display)
        row.node, row.language = turn.state.node, turn.state.language
        if turn.action is None:
            return row if self._sessions.insert_answered(row, turn, step_input) else None
        if not self._sessions.insert_claimed(row):
            return None
        return self._finish(row, turn, step_input, self.action_context(row, request_id), display)

    def _new_row(self, dial: DialRequest, target: CodeTarget) -> UssdSession:
        return self._sessions.new_row(
            dial.previous_id,
            client_id=target.client_id,
            menu_id=target.menu_id,
            menu_version=target.menu_version,
            key_id=dial.key_id,
            channel_id=dial.channel_id,
            provider_session_id=dial.provider_session_id,
            phone_number=dial.phone_number,
            service_code=dial.service_code,
            network=dial.network[:_LONGEST_NETWORK],
        )

    def _redial(
        self, row: UssdSession, dial: DialRequest, target: CodeTarget, step_input: StepInput, display: DisplayOptions
    ) -> Redial:
        document = published_document(row.menu_id, row.menu_version)
        given, has_entries = _given(document, row), bool(dial.entries)
        return Redial(row, document, step_input, target.language, given, display, has_entries=has_entries)

    def enter(
        self,
        row: UssdSession,
        entry: str,
        step_input: StepInput,
        action_context: ActionContext,
        display: DisplayOptions = STANDARD,
    ) -> UssdSession | None:
        """Answer an entry; None when another step was faster or the session has ended since."""
        turn = _turn_after(row, entry, display)
        if turn.action is not None:
            return self._finish(row, turn, step_input, action_context, display) if self._sessions.claim(row) else None
        return row if self._sessions.write(row, turn, step_input) else None

    def enter_cached(self, row: UssdSession, entry: str, step_input: StepInput, display: DisplayOptions) -> bool:
        """Answer an entry to a cached session. Returns False, and changes nothing, when the cached row was out of date.

        False also for an entry that needs an action: the session must be read before it is claimed.
        """
        turn = _turn_after(row, entry, display)
        return turn.action is None and self._sessions.write(row, turn, step_input, is_cached=True)

    def action_context(self, row: UssdSession, request_id: str) -> ActionContext:
        """Return the context for the actions of a step. A menu acts for its client, with all the client's rights."""
        caller = Caller(
            CallerKind.GATEWAY, client_id=row.client_id, grants=None, channel_id=row.channel_id, key_id=row.key_id
        )
        return ActionContext(
            RequestContext(caller, request_id),
            facts_of(row),
            _conversation(row),
            row.language,
            len(row.turns),
            row.transaction_id is not None,
        )

    def _finish(
        self,
        row: UssdSession,
        turn: Turn,
        step_input: StepInput,
        context: ActionContext,
        display: DisplayOptions,
    ) -> UssdSession | None:
        """Run the actions of a claimed step and write it; None when the session has ended since.

        Releases the claim of a step that was not written, unless it is unknown whether a payment was created.
        """
        token, is_written = row.working_token, False
        assert token is not None
        try:
            turn = self._run_actions(row, turn, context, display)
            is_written = self._sessions.write(row, turn, step_input, context.transaction_id)
        finally:
            if not is_written and not context.is_unsure:
                self._sessions.release(row.id, token, context.transaction_id)
        return row if is_written else None

    def _run_actions(self, row: UssdSession, turn: Turn, context: ActionContext, display: DisplayOptions) -> Turn:
        """Run the actions of a turn until it has a screen. Keeps the entry and the language that was chosen."""
        document = published_document(row.menu_id, row.menu_version)
        entered, chosen = turn, turn.language_chosen
        while turn.action is not None:
            turn = resume(document, turn.state, self._actions.run(turn.action, context), display)
            chosen = turn.language_chosen or chosen
        return replace(turn, language_chosen=chosen, entry_shown=entered.entry_shown, is_secret=entered.is_secret)

    def _first_turn(
        self, row: UssdSession, dial: DialRequest, target: CodeTarget, step_input: StepInput, display: DisplayOptions
    ) -> Turn:
        """Resume the subscriber's last session, or begin at the start."""
        redial = self._redial(row, dial, target, step_input, display)
        if target.last_session_id is not None and not dial.from_start:
            turn = self._redials.first_turn(redial, target.last_session_id)
            if turn is not None:
                return turn
        facts = facts_of(row)
        return start(redial.document, facts, target.language, given=redial.given, entries=dial.entries, channel=display)


def _turn_after(row: UssdSession, entry: str, display: DisplayOptions) -> Turn:
    return enter(published_document(row.menu_id, row.menu_version), state_of(row), entry, display)


def _conversation(row: UssdSession) -> tuple[str, ...]:
    """The names of a conversation that outlast its row: a gateway repeats them after our database lost it."""
    if row.channel_id is None or row.provider_session_id is None:
        return (row.id,)
    return (row.channel_id, row.provider_session_id, row.phone_number)


def _given(document: Document, row: UssdSession) -> dict[str, Any]:
    """The given variables of a menu: `statement`, the subscriber's latest payments, newest first."""
    declared = document.variables.get("statement")
    if declared is None or not declared.given:
        return {}
    is_theirs = (Transaction.phone_number == row.phone_number) | (Transaction.to_phone_number == row.phone_number)
    latest = (
        Transaction.select()
        .where(Transaction.client_id == row.client_id, is_theirs, Transaction.status == TransactionStatus.SUCCEEDED)
        .order_by(Transaction.id.desc())
        .limit(declared.max_items)
    )
    return {
        "statement": [
            {
                "date": payment.created_at.strftime("%d/%m"),
                "type": payment.type,
                "amount": payment.amount_cents // 100,
                "reference": payment.provider_transaction_id or payment.id[-8:],
            }
            for payment in latest
        ]
    }
