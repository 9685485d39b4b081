"""What a step begins with: its session, the menu of a dialled code, and the outcome of a payment that waits for a dial.

Each outcome is shown once, within an hour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from peewee import JOIN, Select, fn

from ussd_server.database.tables import CompiledQuery, param
from ussd_server.models.clients import Client
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import Channel, Menu, ServiceCode, ShownOutcome, SubscriberLanguage, UssdSession
from ussd_server.services.transactions.messages import TransactionStatus
from ussd_server.services.ussd.messages import EndReason
from ussd_server.values import new_id_floor, unchanging

RESUME_WITHIN = timedelta(minutes=10)
FEWEST_TURNS_TO_RESUME = 2
WAITS = timedelta(hours=1)
# A session that ended within the hour may have begun this much earlier.
_LONGEST_SESSION = timedelta(hours=1)
OUTCOME_WORDS = {
    TransactionStatus.SUCCEEDED: "succeeded",
    TransactionStatus.REVERSED: "succeeded",
    TransactionStatus.FAILED: "failed",
}


@unchanging
class CodeTarget:
    """Where a dialled code leads: its client and the menu version for new sessions.

    `language` is the one that the subscriber chose last, `last_session_id` a session that may be resumed: a phone's for
    a phone, a program's for a program.
    `may_have_outcome`: the subscriber has lately paid in a session.
    """

    client_id: str
    menu_id: str
    menu_version: int
    language: str | None
    last_session_id: str | None
    may_have_outcome: bool


@unchanging
class SessionLookup:
    """The last session under a gateway's session id, if any, and what decides whether the step is answered.

    `target` is for a step that dials: None when no menu answers the code.
    """

    row: UssdSession | None
    channel_is_active: bool
    client_is_active: bool
    target: CodeTarget | None = None


def find_session(channel_id: str, provider_session_id: str, phone_number: str) -> SessionLookup:
    """Read the session of a step, in one query."""
    row = _SESSION.first(UssdSession, **_names(channel_id, provider_session_id, phone_number))
    if row is None:
        return SessionLookup(None, channel_is_active=False, client_is_active=False)
    session = row if row.id is not None else None
    return SessionLookup(session, bool(row.channel_is_active), bool(row.client_is_active))


def find_dial(
    channel_id: str, provider_session_id: str, phone_number: str, code: str, client_id: str | None, now: datetime
) -> SessionLookup:
    """Read the session of a step that dials and the target of its code. `client_id` None: codes of every client.

    Only a dial that repeats a gateway's session id takes a second query, for the session.
    """
    names = _names(channel_id, provider_session_id, phone_number)
    row = _DIAL.first(Channel, **names, dialled_code=code, **_since(now))
    target = _target_of(row, client_id)
    if row is not None and row.dialled_session_id is not None:
        return replace(find_session(**names), target=target)
    is_open = row is not None and bool(row.channel_is_active)
    return SessionLookup(None, is_open, client_is_active=False, target=target)


def find_target(
    code: str, client_id: str | None, phone_number: str, now: datetime, *, is_phone: bool
) -> CodeTarget | None:
    """Return where a code of a client, or of any client for None, leads; None without a menu or an active client.

    `is_phone`: a phone dials it, by a channel; else a client's program, by the API.
    """
    row = (_TARGET_OF_PHONE if is_phone else _TARGET_OF_PROGRAM).first(
        ServiceCode, dialled_code=code, phone_number=phone_number, **_since(now)
    )
    return _target_of(row, client_id)


def _since(now: datetime) -> dict[str, Any]:
    return {"resumable_since": now - RESUME_WITHIN, "paid_since": oldest_session_id(now)}


def _names(channel_id: str, provider_session_id: str, phone_number: str) -> dict[str, str]:
    return {"channel_id": channel_id, "provider_session_id": provider_session_id, "phone_number": phone_number}


def _target_of(row: Any, client_id: str | None) -> CodeTarget | None:
    if row is None or row.owner_id is None or row.target_version is None:
        return None
    owner_id = str(row.owner_id)
    if client_id not in (None, owner_id):
        return None
    last_id = None if row.last_id is None else str(row.last_id)
    return CodeTarget(
        owner_id, str(row.target_menu_id), row.target_version, row.chosen_language, last_id, row.paid_id is not None
    )


def _select_session() -> Any:
    return (
        Channel.select(
            Channel.is_active.alias("channel_is_active"), Client.is_active.alias("client_is_active"), UssdSession
        )
        .join(UssdSession, JOIN.LEFT_OUTER, on=_is_of_step(Channel.id))
        .join(Client, JOIN.LEFT_OUTER, on=(Client.id == UssdSession.client_id))
        .where(_IS_CHANNEL)
        .order_by(UssdSession.id.desc())
        .limit(1)
    )


def _select_dial() -> Any:
    session = UssdSession.select(UssdSession.id).where(_is_of_step(param(Channel.id, "channel_id"))).limit(1)
    return _with_target(
        Channel.select(Channel.is_active.alias("channel_is_active"), session.alias("dialled_session_id"))
        .join(ServiceCode, JOIN.LEFT_OUTER, on=_IS_DIALLED)
        .where(_IS_CHANNEL),
        is_phone=True,
    )


def _select_code() -> Any:
    return ServiceCode.select(ServiceCode.code).where(_IS_DIALLED)


def _is_of_step(channel_id: Any) -> Any:
    return (
        (UssdSession.channel_id == channel_id)
        & (UssdSession.provider_session_id == param(UssdSession.provider_session_id, "provider_session_id"))
        & (UssdSession.phone_number == param(UssdSession.phone_number, "phone_number"))
    )


def _with_target(rows: Any, *, is_phone: bool) -> Any:
    """Add the columns of a target to a query that has joined the service code, or none."""
    owner, last = Client.alias("owner"), UssdSession.alias("last")
    newest = (
        last.select(last.id, last.turn, last.last_seen_at, last.working_token, last.end_reason)
        .where(
            last.client_id == owner.id,
            last.phone_number == param(UssdSession.phone_number, "phone_number"),
            last.channel_id.is_null(not is_phone),
        )
        .order_by(last.id.desc())
        .limit(1)
        .alias("newest")
    )
    is_recent = newest.c.last_seen_at >= param(UssdSession.last_seen_at, "resumable_since")
    is_resumable = (
        (newest.c.turn >= FEWEST_TURNS_TO_RESUME)
        | newest.c.working_token.is_null(False)
        | (newest.c.end_reason == EndReason.NOT_DELIVERED)
    )
    resumable = Select([newest], [newest.c.id]).where(is_recent, is_resumable)
    paying = UssdSession.alias("paying")
    paid = (
        paying.select(paying.id)
        .where(
            paying.client_id == owner.id,
            paying.phone_number == param(UssdSession.phone_number, "phone_number"),
            paying.id >= param(UssdSession.id, "paid_since"),
            paying.channel_id.is_null(not is_phone),
            paying.transaction_id.is_null(False) | paying.working_token.is_null(False),
        )
        .limit(1)
    )
    return (
        rows.select_extend(
            paid.alias("paid_id"),
            owner.id.alias("owner_id"),
            Menu.id.alias("target_menu_id"),
            Menu.published_version.alias("target_version"),
            SubscriberLanguage.language.alias("chosen_language"),
            resumable.alias("last_id"),
        )
        .join(Menu, JOIN.LEFT_OUTER, on=(Menu.id == ServiceCode.menu_id))
        .join(owner, JOIN.LEFT_OUTER, on=(owner.id == ServiceCode.client_id) & owner.is_active)
        .join(
            SubscriberLanguage,
            JOIN.LEFT_OUTER,
            on=(SubscriberLanguage.client_id == owner.id)
            & (SubscriberLanguage.phone_number == param(UssdSession.phone_number, "phone_number")),
        )
    )


_IS_CHANNEL = Channel.id == param(Channel.id, "channel_id")
_IS_DIALLED = ServiceCode.code == param(ServiceCode.code, "dialled_code")
_SESSION = CompiledQuery(_select_session)
_DIAL = CompiledQuery(_select_dial)
_TARGET_OF_PHONE = CompiledQuery(lambda: _with_target(_select_code(), is_phone=True))
_TARGET_OF_PROGRAM = CompiledQuery(lambda: _with_target(_select_code(), is_phone=False))


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
    """Return the oldest outcome that waits for a dial of the code of `row` by its phone; None while it is pending.

    What a phone paid is shown to the phone, what a program paid to the program.
    """
    was_shown = ShownOutcome.select(ShownOutcome.transaction_id).where(ShownOutcome.transaction_id == Transaction.id)
    payment: Any = (
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
            UssdSession.channel_id.is_null(row.channel_id is None),
            UssdSession.id >= oldest_session_id(now),
            UssdSession.service_code == row.service_code,
            UssdSession.last_seen_at >= now - WAITS,
            Transaction.confirmation.is_null(False),
            Transaction.status.in_(list(OUTCOME_WORDS)),
            ~fn.EXISTS(was_shown),
        )
        .order_by(Transaction.id)
        .objects()
        .first()
    )
    if payment is None:
        return None
    word = OUTCOME_WORDS[TransactionStatus(payment.status)]
    return WaitingOutcome(payment.id, str(payment.paid_in), payment.spoken, word, payment.type, payment.amount_cents)


def mark_shown(transaction_id: str, session_id: str, now: datetime) -> bool:
    """Note that the outcome of a payment is shown, by a session or for it. False when it was shown before."""
    row = {"transaction_id": transaction_id, "session_id": session_id, "shown_at": now}
    return bool(ShownOutcome.insert(row).on_conflict_ignore().as_rowcount().execute())
