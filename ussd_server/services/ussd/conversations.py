"""Conversations: the engine led from screen to screen, its deeds done on the way, each step once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from peewee import JOIN, Select

from ussd_server.clock import Clock
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.database.compiled_queries import CompiledQuery, param
from ussd_server.menus.document.document import Document
from ussd_server.menus.engine.engine import enter, resume, start
from ussd_server.menus.engine.navigator import STANDARD, DisplayOptions
from ussd_server.menus.engine.state import Turn
from ussd_server.messages.transactions import TransactionStatus
from ussd_server.models.clients import Client
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import Menu, ServiceCode, SubscriberLanguage, UssdSession
from ussd_server.services.ussd.actions import ActionContext, Actions
from ussd_server.services.ussd.menus import published_document
from ussd_server.services.ussd.redials import FEWEST_TURNS_TO_RESUME, Redial, Redials, facts_of
from ussd_server.services.ussd.sessions import Arrived, Sessions, state_of

RESUME_SECONDS = 600
_LONGEST_NETWORK = 10


@dataclass(frozen=True, slots=True)
class Bound:
    """A service code that a menu answers: whose it is, and the version that new sessions get."""

    client_id: str
    menu_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known when a phone dials: who answers, the language it chose last, and a session it may continue."""

    bound: Bound
    language: str | None
    last_id: str | None


@dataclass(frozen=True, slots=True)
class Dialled:
    """A call from a phone: what was dialled, and by which way it came. One `from_start` continues nothing.

    `after` is the id of the session before it under the same gateway session id, if any.
    """

    phone_number: str
    service_code: str
    network: str
    entries: tuple[str, ...] = ()
    from_start: bool = False
    key_id: str | None = None
    channel_id: str | None = None
    provider_session_id: str | None = None
    after: str | None = None


class Conversations:
    """Takes conversations from one screen to the next. Where others may be faster, `None` means: look again."""

    def __init__(self, sessions: Sessions, actions: Actions, clock: Clock) -> None:
        self._sessions = sessions
        self._redials = Redials(sessions)
        self._deeds = actions
        self._clock = clock

    def open(
        self, dialled: Dialled, opening: Opening, arrived: Arrived, request_id: str, channel: DisplayOptions = STANDARD
    ) -> UssdSession | None:
        """Begin a session and show its first screen; None when the same call was faster elsewhere."""
        bound = opening.bound
        row = self._sessions.new_row(
            dialled.after,
            client_id=bound.client_id,
            menu_id=bound.menu_id,
            menu_version=bound.version,
            key_id=dialled.key_id,
            channel_id=dialled.channel_id,
            provider_session_id=dialled.provider_session_id,
            phone_number=dialled.phone_number,
            service_code=dialled.service_code,
            network=dialled.network[:_LONGEST_NETWORK],
        )
        turn = self._first_turn(row, dialled, opening, arrived, channel)
        row.node, row.language = turn.state.node, turn.state.language
        if turn.action is None:
            return row if self._sessions.insert_answered(row, turn, arrived) else None
        if not self._sessions.insert_claimed(row):
            return None
        return self._finish(row, turn, arrived, self.action_context(row, request_id), channel)

    def go_on(
        self,
        row: UssdSession,
        entry: str,
        arrived: Arrived,
        action_context: ActionContext,
        channel: DisplayOptions = STANDARD,
    ) -> UssdSession | None:
        """Answer an entry; None when somebody else answered it, or the session ended, in the meantime."""
        turn = _answer(row, entry, channel)
        if turn.action is not None:
            return self._finish(row, turn, arrived, action_context, channel) if self._sessions.claim(row) else None
        return row if self._sessions.write(row, turn, arrived) else None

    def go_on_from_memory(self, row: UssdSession, entry: str, arrived: Arrived, channel: DisplayOptions) -> bool:
        """Answer an entry to a session as it is remembered. False, and nothing is done, where that was not the truth.

        What needs a deed is not done from memory either: the row is as it was then, and otherwise spoiled.
        """
        turn = _answer(row, entry, channel)
        return turn.action is None and self._sessions.write(row, turn, arrived, is_remembered=True)

    def find_opening(self, service_code: str, client_id: str | None, phone_number: str) -> Opening | None:
        """Who answers a code, of one client or of any; None when nobody's menu does, or its client is disabled."""
        row = _OPENING.first(ServiceCode, **self.opening_values(service_code, phone_number))
        return None if row is None else opening_of(row, client_id)

    def opening_values(self, service_code: str, phone_number: str) -> dict[str, Any]:
        """What fills a query that `with_opening` made."""
        return {
            "dialled_code": service_code,
            "phone_number": phone_number,
            "continued_since": self._clock.now() - timedelta(seconds=RESUME_SECONDS),
        }

    def action_context(self, row: UssdSession, request_id: str) -> ActionContext:
        """The step about to be taken. The client's own menu acts for the client, so it may do what the client may."""
        caller = Caller(CallerKind.GATEWAY, client_id=row.client_id, grants=None, channel_id=row.channel_id)
        return ActionContext(
            RequestContext(caller, request_id),
            facts_of(row),
            row.language,
            len(row.turns),
            row.transaction_id is not None,
        )

    def _finish(
        self, row: UssdSession, turn: Turn, arrived: Arrived, action_context: ActionContext, channel: DisplayOptions
    ) -> UssdSession | None:
        """Do the deeds of a claimed step and write its answer; None when the session ended meanwhile.

        A claim whose step was not written is given back, but not when nobody knows whether a payment was recorded.
        """
        token, is_written = row.working_token, False
        assert token is not None
        try:
            turn = self._carry_out(row, turn, action_context, channel)
            is_written = self._sessions.write(row, turn, arrived, action_context.transaction_id)
        finally:
            if not is_written and not action_context.is_unsure:
                self._sessions.release(row.id, token, action_context.transaction_id)
        return row if is_written else None

    def _carry_out(self, row: UssdSession, turn: Turn, action_context: ActionContext, channel: DisplayOptions) -> Turn:
        """Do the deeds that a turn names until it has a screen; what was entered and chosen stays with it."""
        document = published_document(row.menu_id, row.menu_version)
        entered, chosen = turn, turn.language_chosen
        while turn.action is not None:
            turn = resume(document, turn.state, self._deeds.do(turn.action, action_context), channel)
            chosen = turn.language_chosen or chosen
        return replace(turn, language_chosen=chosen, entry_shown=entered.entry_shown, is_secret=entered.is_secret)

    def _first_turn(
        self, row: UssdSession, dialled: Dialled, opening: Opening, arrived: Arrived, channel: DisplayOptions
    ) -> Turn:
        """What follows from the last session of the phone, or the beginning."""
        document = published_document(row.menu_id, row.menu_version)
        given = _given(document, row)
        if opening.last_id is not None and not dialled.from_start:
            has_entries = bool(dialled.entries)
            redial = Redial(row, document, arrived, opening.language, given, channel, has_entries=has_entries)
            turn = self._redials.first_turn(redial, opening.last_id)
            if turn is not None:
                return turn
        return start(document, facts_of(row), opening.language, given=given, entries=dialled.entries, channel=channel)


def _answer(row: UssdSession, entry: str, channel: DisplayOptions) -> Turn:
    return enter(published_document(row.menu_id, row.menu_version), state_of(row), entry, channel)


def with_opening(rows: Any) -> Any:
    """Add to a query that has the service code `dialled_code`, or none, what `opening_of` reads."""
    owner, last = Client.alias("owner"), UssdSession.alias("last")
    newest = (
        last.select(last.id, last.turn, last.last_seen_at, last.working_token)
        .where(last.client_id == owner.id, last.phone_number == param(UssdSession.phone_number))
        .order_by(last.id.desc())
        .limit(1)
        .alias("newest")
    )
    lately = newest.c.last_seen_at >= param(UssdSession.last_seen_at, "continued_since")
    matters = (newest.c.turn >= FEWEST_TURNS_TO_RESUME) | newest.c.working_token.is_null(False)
    continued = Select([newest], [newest.c.id]).where(lately, matters)
    return (
        rows.select_extend(
            owner.id.alias("owner_id"),
            Menu.id.alias("bound_menu_id"),
            Menu.published_version.alias("bound_version"),
            SubscriberLanguage.language.alias("spoken"),
            continued.alias("last_id"),
        )
        .join(Menu, JOIN.LEFT_OUTER, on=(Menu.id == ServiceCode.menu_id))
        .join(owner, JOIN.LEFT_OUTER, on=(owner.id == ServiceCode.client_id) & owner.is_active)
        .join(
            SubscriberLanguage,
            JOIN.LEFT_OUTER,
            on=(SubscriberLanguage.client_id == owner.id)
            & (SubscriberLanguage.phone_number == param(UssdSession.phone_number)),
        )
    )


def opening_of(row: Any, client_id: str | None) -> Opening | None:
    """The opening in a row that `with_opening` found; None when nobody answers, or not a given `client_id`."""
    if row.owner_id is None or row.bound_version is None or str(row.owner_id) != (client_id or str(row.owner_id)):
        return None
    bound = Bound(str(row.owner_id), str(row.bound_menu_id), row.bound_version)
    return Opening(bound, row.spoken, None if row.last_id is None else str(row.last_id))


_OPENING = CompiledQuery(
    lambda: with_opening(
        ServiceCode.select(ServiceCode.code).where(ServiceCode.code == param(ServiceCode.code, "dialled_code"))
    )
)


def _given(document: Document, row: UssdSession) -> dict[str, Any]:
    """What a menu is given when a session begins: `statement`, the latest payments of the person, newest first."""
    declared = document.variables.get("statement")
    if declared is None or not declared.given:
        return {}
    mine = (Transaction.phone_number == row.phone_number) | (Transaction.to_phone_number == row.phone_number)
    latest = (
        Transaction.select()
        .where(Transaction.client_id == row.client_id, mine, Transaction.status == TransactionStatus.SUCCEEDED)
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
