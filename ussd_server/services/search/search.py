"""Search: whole values only, and each kind of object by an index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from peewee import Expression

from ussd_server.context import RequestContext
from ussd_server.database.ids import is_id
from ussd_server.messages.search import MOST_HITS, Search, SearchHit, SearchReply
from ussd_server.messages.transactions import TransactionType
from ussd_server.models.clients import Client
from ussd_server.models.events import Event
from ussd_server.models.keys import ApiKey
from ussd_server.models.payouts import Payout
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.search.hits import event_hit, key_hit, payout_hit, session_hit, transaction_hit
from ussd_server.status import Code, ServiceError

_PHONE_NUMBER = re.compile(r"(?:\+?256|0)([0-9]{9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of object.

    `grant` is what a caller needs to see it. `names` makes the conditions that an index answers for all clients
    together. `reference` and `phone_number` are the columns whose index begins with the client, None without one.
    """

    table: Any
    grant: str
    hit: Callable[[Any, str | None], SearchHit]
    names: Callable[[str], list[Expression]]
    reference: Any = None
    phone_number: Any = None


_KINDS = (
    _Kind(
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
        Transaction.reference,
        Transaction.phone_number,
    ),
    _Kind(Payout, "payouts:read", payout_hit, lambda text: _by_id(text, Payout.id), Payout.reference),
    _Kind(
        UssdSession,
        "ussd:read",
        session_hit,
        lambda text: _by_id(text, UssdSession.id),
        phone_number=UssdSession.phone_number,
    ),
    _Kind(Event, "webhooks:read", event_hit, lambda text: _by_id(text, Event.id)),
    _Kind(
        ApiKey,
        "api_keys:list",
        key_hit,
        lambda text: [*_by_id(text, ApiKey.id), ApiKey.apikey == text],
    ),
)

_TABLES: dict[str, Any] = {
    "transaction": Transaction,
    "payout": Payout,
    "session": UssdSession,
    "event": Event,
    "key": ApiKey,
}


class SearchService:
    """Finds objects by an id, also of the request that created them, a reference, a receipt or a phone number."""

    def search(self, request: Search, context: RequestContext) -> SearchReply:
        """The caller's own objects, only of the kinds that it may read; at most 50.

        A space at the beginning is read as the plus of a phone number, which a query decodes so.
        """
        text = _typed(request.q)
        hits = [
            kind.hit(row, None)
            for kind in _KINDS
            for row in self._rows(kind, text, [context.client_id])
            if row.client_id == context.client_id and _may_see(kind, row, context)
        ]
        return SearchReply(tuple(hits[:MOST_HITS]))

    def find(self, request: Search, context: RequestContext) -> SearchReply:
        """The objects of all clients, for the operator.

        The cost grows with the number of clients, not with what they have.
        """
        context.require_operator()
        text = _typed(request.q)
        names = {client.id: client.name for client in Client.select(Client.id, Client.name)}
        hits: list[SearchHit] = []
        for kind in _KINDS:
            hits += [kind.hit(row, names.get(row.client_id)) for row in self._rows(kind, text, list(names))]
        return SearchReply(tuple(hits[:MOST_HITS]))

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

    def _rows(self, kind: _Kind, text: str, client_ids: list[str]) -> list[Any]:
        """The rows of one kind, each once, newest first."""
        found = {row.id: row for row in self._read(kind, text, client_ids)}
        return [found[row_id] for row_id in sorted(found, reverse=True)][:MOST_HITS]

    def _read(self, kind: _Kind, text: str, client_ids: list[str]) -> Iterator[Any]:
        for condition in kind.names(text):
            yield from _newest(kind.table, condition)
        number = _PHONE_NUMBER.fullmatch(text)
        for client_id in client_ids:
            is_theirs = kind.table.client_id == client_id
            if kind.reference is not None:
                # Not in order: SQLite would read all of the client's rows for it. A reference names one or two.
                yield from kind.table.select().where(is_theirs, kind.reference == text)
            if kind.phone_number is not None and number:
                # Found as people write it: +256772123456, 256772123456 or 0772123456.
                yield from _newest(kind.table, is_theirs & (kind.phone_number == f"+256{number[1]}"))


def _typed(text: str) -> str:
    return f"+{text[1:]}" if re.fullmatch(r" [0-9]+", text, re.ASCII) else text.strip()


def _may_see(kind: _Kind, row: Any, context: RequestContext) -> bool:
    if context.may(kind.grant):
        return True
    return isinstance(row, Transaction) and row.type == TransactionType.COLLECTION and context.may("collection:read")


def _newest(table: Any, condition: Any) -> list[Any]:
    return list(table.select().where(condition).order_by(table.id.desc()).limit(MOST_HITS))


def _by_id(text: str, *columns: Any) -> list[Expression]:
    return [column == text.lower() for column in columns] if is_id(text.lower()) else []
