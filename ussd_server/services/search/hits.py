"""How each kind of object looks among the hits of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ussd_server.languages import gettext, ngettext, retold
from ussd_server.models.clients import AuditEvent, User
from ussd_server.models.keys import ApiKey
from ussd_server.models.movements import Movement
from ussd_server.models.payouts import Payout, PayoutItem
from ussd_server.models.sending import Event, Sms, Webhook
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import Menu, UssdSession
from ussd_server.services.payouts.messages import PayoutStates
from ussd_server.services.payouts.records import payout_views
from ussd_server.services.search.messages import SearchHit
from ussd_server.services.transactions.doubles import doubles_of
from ussd_server.services.transactions.history import explanation_of, views_of
from ussd_server.services.transactions.messages import TransactionView
from ussd_server.values import iso_milliseconds, written_amount

Names = Mapping[str, str | None]
"""The names of clients by their ids, where hits show them."""

_ENDINGS = {
    "active": "is waiting for an entry",
    "completed": "was completed",
    "timed_out": "timed out",
    "ended_by_user": "was ended by the subscriber",
    "ended_by_client": "was ended by the client",
    "invalidated": "ended because its API key was deleted",
    "failed": "failed",
}


_DELIVERIES = {
    "queued": "The message waits to be sent",
    "sent": "The message was sent; its delivery was not reported yet",
    "delivered": "The message was delivered",
    "failed": "The message was not delivered",
    "unknown": "The message may have been sent, and is not sent again",
}


def each_by(hit: Callable[[Any, str | None], SearchHit]) -> Callable[[Sequence[Any], Names], list[SearchHit]]:
    """Return the function that makes the hits of rows of which each is read alone."""
    return lambda rows, names: [hit(row, names.get(row.client_id)) for row in rows]


def transaction_hits(rows: Sequence[Transaction], names: Names) -> list[SearchHit]:
    """Transactions, with the explanation of where the money of each is."""
    doubles, views = doubles_of(rows), zip(rows, views_of(rows), strict=True)
    hits = (transaction_hit(row, view, names.get(row.client_id)) for row, view in views)
    return [replace(hit, possible_double=hit.id in doubles) for hit in hits]


def transaction_hit(row: Transaction, view: TransactionView, client: str | None) -> SearchHit:
    """A transaction, of which `view` is what is shown."""
    party = gettext(" of %(number)s", number=view.phone_number) if view.phone_number else ""
    kind, amount = gettext(view.type.value).capitalize(), written_amount(view.amount_cents)
    title = f"{kind} {view.reference}: {amount}{party}, {gettext(view.status)}"
    return SearchHit("transaction", row.id, client, title, explanation_of(row, view), row.created_at)


def payout_hits(rows: Sequence[Payout], names: Names) -> list[SearchHit]:
    """Payouts, and how many rows of each are in each state."""
    views = zip(rows, payout_views(rows), strict=True)
    return [_payout_hit(row, view, names.get(row.client_id)) for row, view in views]


def _payout_hit(row: Payout, view: PayoutStates, client: str | None) -> SearchHit:
    rows = ngettext("%(count)s row", "%(count)s rows", row.item_count) % {"count": row.item_count}
    named = gettext("Payout %(reference)s", reference=row.reference)
    title = f"{named}: {rows}, {written_amount(row.total_amount_cents)}, {gettext(row.status)}"
    states = ", ".join(f"{entry.count} {gettext(state.value)}" for state, entry in view.states.items())
    sentence = gettext("Rows by state: %(states)s.", states=states)
    return SearchHit("payout", row.id, client, title, sentence, row.created_at)


def payee_hit(row: PayoutItem, payout: Payout, clients: Names) -> SearchHit:
    """A row of a payout: its transaction where it has one, else the payout."""
    amount = "" if row.amount_cents is None else f", {written_amount(row.amount_cents)}"
    title = gettext("%(name)s%(amount)s to %(number)s", name=row.name, amount=amount, number=row.phone_number)
    sentence = gettext(
        "Line %(line)s of payout %(reference)s, %(status)s.",
        line=row.line,
        reference=payout.reference,
        status=gettext(payout.status),
    )
    kind, object_id = ("transaction", row.transaction_id) if row.transaction_id else ("payout", payout.id)
    return SearchHit(kind, object_id, clients.get(payout.client_id), title, sentence, payout.created_at)


def movement_hit(row: Movement) -> SearchHit:
    """Money that moved and that no payment uses, and why."""
    title = gettext(
        "%(amount)s from %(number)s, %(status)s",
        amount=written_amount(row.amount_cents),
        number=row.phone_number or gettext("an unknown number"),
        status=gettext(row.state),
    )
    sentence = gettext("Receipt %(receipt)s: %(why)s.", receipt=row.receipt or "-", why=retold(row.held_because or ""))
    return SearchHit("movement", row.id, None, title, sentence, row.created_at)


def session_hit(row: UssdSession, client: str | None) -> SearchHit:
    title = gettext("Session %(code)s of %(number)s", code=row.service_code, number=row.phone_number)
    paid = gettext("; it created transaction %(id)s", id=row.transaction_id) if row.transaction_id else ""
    ending = gettext(_ENDINGS[row.status])
    sentence = gettext(
        "The session %(ending)s after %(turn)s entries%(paid)s.", ending=ending, turn=row.turn, paid=paid
    )
    return SearchHit("session", row.id, client, title, sentence, row.created_at)


def message_hit(row: Sms, client: str | None) -> SearchHit:
    title = f"{gettext('Message to %(number)s', number=row.phone_number)}, {gettext(row.status)}"
    sentence = f"{gettext(_DELIVERIES[row.status])}: {row.text}"
    return SearchHit("message", row.id, client, title, sentence, row.created_at)


def event_hit(row: Event, client: str | None) -> SearchHit:
    sentence = f"Event {row.sequence} about {row.object_id}, written at {iso_milliseconds(row.created_at)}."
    return SearchHit("event", row.id, client, f"Event {row.type}", sentence, row.created_at)


def key_hit(row: ApiKey, client: str | None) -> SearchHit:
    """An API key, without its secret."""
    state = "is accepted" if row.is_active else "is disabled"
    if row.is_active and row.expires_at:
        verb = "expired at" if row.expires_at <= datetime.now(UTC) else "is accepted until"
        state = f"{verb} {iso_milliseconds(row.expires_at)}"
    title = f"API key {row.name} ({row.apikey})" if row.name else f"API key {row.apikey}"
    sentence = f"The key {state}; its scopes are {row.scopes or 'everything'}."
    return SearchHit("key", row.id, client, title, sentence, row.created_at)


def menu_hit(row: Menu, client: str | None) -> SearchHit:
    version = f"version {row.published_version} is published" if row.published_version else "it is not published"
    sentence = f"The draft was saved at {iso_milliseconds(row.draft_saved_at)}; {version}."
    return SearchHit("menu", row.name, client, f"Menu {row.name}", sentence, row.draft_saved_at)


def webhook_hit(row: Webhook, client: str | None) -> SearchHit:
    """A webhook, without its secret."""
    title = f"Webhook {row.url}" if row.url else "Callbacks of single transactions"
    state = "is active" if row.is_active else "is switched off"
    return SearchHit("webhook", row.id, client, title, f"The webhook {state}.", row.created_at)


def person_hit(row: User, client: str | None) -> SearchHit:
    state = "may sign in" if row.is_active else "is disabled"
    return SearchHit("person", row.id, client, f"Person {row.email}", f"The {row.role} {state}.", row.created_at)


def gone_hit(kind: str, change: AuditEvent, client: str | None) -> SearchHit:
    """An object that was removed, as the audit trail describes it."""
    sentence = f"It exists no more; {change.action} at {iso_milliseconds(change.created_at)}."
    return SearchHit(kind, str(change.object_id), client, f"Removed {kind}", sentence, change.created_at)
