"""Search: whole values only, and each kind of object by an index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import Expression, fn

from ussd_server.context import CallerKind, RequestContext
from ussd_server.models.clients import AuditEvent, Client, User
from ussd_server.models.events import Event
from ussd_server.models.incoming import IncomingPayment
from ussd_server.models.keys import ApiKey
from ussd_server.models.payouts import Payout
from ussd_server.models.sending import Webhook
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import Menu, UssdSession
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.services.search.hits import (
    event_hit,
    gone_hit,
    incoming_hit,
    key_hit,
    menu_hit,
    payout_hit,
    person_hit,
    session_hit,
    transaction_hit,
    webhook_hit,
)
from ussd_server.services.search.messages import MOST_HITS, Search, SearchHit, SearchRecent, SearchReply
from ussd_server.services.search.recent import recent_hits
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, new_id_floor, phone_number

_MOST_CHANGES = 500
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of object.

    `grant` is what a caller needs to see it. `names` makes the conditions that an index answers for all clients
    together. `audited` begins the actions of the audit trail that change such an object. `reference` and `phone_number`
    are the columns whose index begins with the client, None without one. `is_named`: which rows
    a reference names, None for all. `may_be_gone`: its rows are removed.
    """

    name: str
    table: Any
    grant: str
    hit: Callable[[Any, str | None], SearchHit]
    names: Callable[[str], list[Expression]]
    audited: str | None = None
    reference: Any = None
    phone_number: Any = None
    is_named: Any = None
    may_be_gone: bool = False


_KINDS = (
    _Kind(
        "transaction",
        Transaction,
        "transactions:read",
        transaction_hit,
        lambda text: [
            *_by_id(text, Transaction.id, Transaction.provider_reference),
            Transaction.request_id == text,
            Transaction.provider_transaction_id == text,
            # A receipt is read out or copied by hand, and providers write them in capitals.
            *([Transaction.provider_transaction_id == text.upper()] if text != text.upper() else []),
        ],
        "transaction.",
        Transaction.reference,
        Transaction.phone_number,
    ),
    _Kind(
        "payout",
        Payout,
        "payouts:read",
        payout_hit,
        lambda text: _by_id(text, Payout.id),
        "payout.",
        Payout.reference,
        is_named=Payout.replaced_by.is_null(),
    ),
    _Kind(
        "session",
        UssdSession,
        "ussd:read",
        session_hit,
        lambda text: _by_id(text, UssdSession.id),
        phone_number=UssdSession.phone_number,
    ),
    _Kind("event", Event, "webhooks:read", event_hit, lambda text: _by_id(text, Event.id)),
    _Kind(
        "key",
        ApiKey,
        "api_keys:list",
        key_hit,
        lambda text: [*_by_id(text, ApiKey.id), ApiKey.apikey == text],
        "api_key.",
        may_be_gone=True,
    ),
    _Kind("menu", Menu, "menus:read", menu_hit, lambda _: [], "menu."),
    _Kind(
        "webhook",
        Webhook,
        "webhooks:read",
        webhook_hit,
        lambda text: _by_id(text, Webhook.id),
        "webhook.",
        may_be_gone=True,
    ),
    _Kind("person", User, "team:read", person_hit, lambda text: _by_id(text, User.id), "user."),
)
_TABLES = {kind.name: kind.table for kind in _KINDS}


class SearchService:
    """Finds objects by an id, also of a request that made or changed them, a reference, a receipt or a phone number."""

    def search(self, request: Search, context: RequestContext) -> SearchReply:
        """The caller's own objects, only of the kinds that it may read; at most 50.

        A space at the beginning is read as the plus of a phone number, which a query decodes so.
        """
        text = _typed(request.q)
        changes = _changes(text, AuditEvent.client_id == context.client_id)
        hits: list[SearchHit] = []
        for kind in _chosen(request):
            # Prevent the use of the index that is in order of time: it would read all of the client's rows.
            client_id = fn.COALESCE(kind.table.client_id, kind.table.client_id)
            is_shown = client_id == context.client_id
            if not context.may(kind.grant):
                if not (kind.table is Transaction and context.may("collection:read")):
                    continue
                is_shown &= Transaction.type == TransactionType.COLLECTION
            hits += _hits(kind, text, {context.client_id: None}, changes, is_shown, request)
        return SearchReply(tuple(hits[:MOST_HITS]))

    def find(self, request: Search, context: RequestContext) -> SearchReply:
        """The objects of all clients, for the operator.

        The cost grows with the number of clients, not with what they have.
        """
        context.require_operator()
        text = _typed(request.q)
        names: dict[str, str | None] = {client.id: client.name for client in Client.select(Client.id, Client.name)}
        changes = _changes(text, AuditEvent.client_id.is_null(False))
        hits = _incoming_hits(text, request) if request.kind in (None, "incoming") else []
        hits += [hit for kind in _chosen(request) for hit in _hits(kind, text, names, changes, None, request)]
        return SearchReply(tuple(hits[:MOST_HITS]))

    def recent(self, request: SearchRecent, context: RequestContext) -> SearchReply:
        """The caller's newest payments of an amount or with a part of a reference, and payees of payouts.

        For operators those of all clients.
        """
        is_operator = context.caller.kind is CallerKind.OPERATOR
        return SearchReply(tuple(recent_hits(request, context, None if is_operator else context.client_id)))

    def owner_of(self, kind: str, object_id: str, context: RequestContext) -> str:
        """The id of the client that an object belongs to, for operators.

        `kind` is one of a hit's. Raises NOT_FOUND for an unknown object and an unknown kind.
        """
        context.require_operator()
        table = _TABLES.get(kind)
        row = table.get_or_none(table.id == object_id) if table and is_id(object_id) else None
        if row is None:
            raise ServiceError(Code.NOT_FOUND, "Not found")
        return str(row.client_id)


def _incoming_hits(text: str, request: Search) -> list[SearchHit]:
    """What payers sent by themselves and what is not booked: by its receipt or the payer's number."""
    # With the providers, the unique index has the receipts.
    is_found = IncomingPayment.provider.in_(PROVIDER_NAMES) & (
        IncomingPayment.provider_transaction_id.in_({text, text.upper()})
    )
    if number := phone_number(text):
        is_found |= IncomingPayment.phone_number == number
    is_shown = _within(IncomingPayment, request, IncomingPayment.status != "booked")
    return [incoming_hit(row) for row in _newest(IncomingPayment, is_found, is_shown)]


def _changes(text: str, which: Expression) -> list[AuditEvent]:
    """What a request of this id did, newest first."""
    if not _REQUEST_ID.fullmatch(text):
        return []
    events = AuditEvent.select().where(AuditEvent.request_id == text, which)
    return list(events.order_by(AuditEvent.id.desc()).limit(_MOST_CHANGES))


def _hits(
    kind: _Kind,
    text: str,
    names: Mapping[str, str | None],
    changes: Sequence[AuditEvent],
    is_shown: Expression | None,
    request: Search,
) -> list[SearchHit]:
    """The objects of one kind, each once, newest first, at most 50. `names` are those of the clients by their id."""
    changed = {
        str(change.object_id): change
        for change in reversed(changes)
        if kind.audited and change.action.startswith(kind.audited) and is_id(change.object_id or "")
    }
    is_shown = _within(kind.table, request, is_shown)
    found = {row.id: row for row in _read(kind, text, [*names], [*changed], is_shown)}
    hits = {object_id: kind.hit(row, names.get(row.client_id)) for object_id, row in found.items()}
    if kind.may_be_gone and request.from_at is None and request.to_at is None:
        for object_id in changed.keys() - found.keys():
            change = changed[object_id]
            hits[object_id] = gone_hit(kind.name, change, names.get(change.client_id))
    return [hits[object_id] for object_id in sorted(hits, reverse=True)][:MOST_HITS]


def _read(
    kind: _Kind, text: str, client_ids: list[str], changed: list[str], is_shown: Expression | None
) -> Iterator[Any]:
    for condition in kind.names(text):
        yield from _newest(kind.table, condition, is_shown)
    if changed:
        yield from _newest(kind.table, kind.table.id.in_(changed), is_shown)
    number = phone_number(text)
    for client_id in client_ids:
        is_theirs = kind.table.client_id == client_id
        if kind.reference is not None:
            # Not in order: SQLite would read all of the client's rows for it. A reference names one or two.
            named = kind.table.select().where(is_theirs, kind.reference == text)
            yield from _shown(_shown(named, kind.is_named), is_shown)
        if kind.phone_number is not None and number:
            # The ways in which people write a number: +256772123456, 256772123456 or 0772123456.
            yield from _newest(kind.table, is_theirs & (kind.phone_number == number), is_shown)


def _chosen(request: Search) -> Iterator[_Kind]:
    return (kind for kind in _KINDS if request.kind in (None, kind.name))


def _within(table: Any, request: Search, is_shown: Expression | None) -> Expression | None:
    """The condition `is_shown`, and that the object was created within the period."""
    if request.from_at is not None:
        is_begun = table.id >= new_id_floor(request.from_at)
        is_shown = is_begun if is_shown is None else is_shown & is_begun
    if request.to_at is not None:
        is_before = table.id < new_id_floor(request.to_at)
        is_shown = is_before if is_shown is None else is_shown & is_before
    return is_shown


def _typed(text: str) -> str:
    return f"+{text[1:]}" if re.fullmatch(r" [0-9]+", text, re.ASCII) else text.strip()


def _newest(table: Any, condition: Expression, is_shown: Expression | None) -> list[Any]:
    return list(_shown(table.select().where(condition), is_shown).order_by(table.id.desc()).limit(MOST_HITS))


def _shown(rows: Any, is_shown: Expression | None) -> Any:
    return rows if is_shown is None else rows.where(is_shown)


def _by_id(text: str, *columns: Any) -> list[Expression]:
    return [column == text.lower() for column in columns] if is_id(text.lower()) else []
