"""Search: for whole values each kind of object by an index; for amounts and words the newest objects only."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

from peewee import Expression, ModelSelect, fn

from ussd_server.context import CallerKind, RequestContext
from ussd_server.models.clients import AuditEvent, Client
from ussd_server.models.movements import IN, OUT, Movement, MovementReceipt
from ussd_server.models.payouts import Payout, PayoutItem
from ussd_server.models.transactions import Transaction
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.services.pages import of_period
from ussd_server.services.search.hits import (
    Names,
    gone_hit,
    movement_hit,
    payee_hit,
    transaction_hits,
)
from ussd_server.services.search.kinds import SEARCHED_KINDS, SearchedKind
from ussd_server.services.search.messages import (
    HITS_OF_A_KIND,
    MOST_HITS,
    RECENT_PAYMENTS,
    Search,
    SearchHit,
    SearchRecent,
    SearchReply,
    without_repeats,
)
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import comparable_receipt, is_id, phone_number, without_marks

_MOST_CHANGES = 500
_MOST_PAYOUTS = 100
_MOST_PAYEES = 20
_MOST_WORDS = 8
_DIGITS = re.compile(r"\+?[0-9]+", re.ASCII)
_BETWEEN_DIGITS = re.compile(r"[\s()./-]")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


_TABLES = {kind.name: kind.table for kind in SEARCHED_KINDS}
_IS_COLLECTION = Transaction.type == TransactionType.COLLECTION


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
            rows = _rows(kind.table, request).where(client_id == context.client_id)
            if not context.may(kind.grant):
                if not (kind.table is Transaction and context.may("collection:read")):
                    continue
                rows = rows.where(_IS_COLLECTION)
            hits += _hits(kind, text, {context.client_id: None}, changes, rows, request)
        return SearchReply(tuple(hits[:MOST_HITS]))

    def find(self, request: Search, context: RequestContext) -> SearchReply:
        """The objects of all clients, for the operator.

        The cost grows with the number of clients, not with what they have.
        """
        context.require_operator()
        text = _typed(request.q)
        names: Names = {client.id: client.name for client in Client.select(Client.id, Client.name)}
        changes = _changes(text, AuditEvent.client_id.is_null(False))
        hits = _movement_hits(text, request) if request.kind in (None, "movement") else []
        for kind in _chosen(request):
            hits += _hits(kind, text, names, changes, _rows(kind.table, request), request)
        return SearchReply(tuple(hits[:MOST_HITS]))

    def recent(self, request: SearchRecent, context: RequestContext) -> SearchReply:
        """The caller's newest objects with all words of a text, and payments of an amount, these first.

        For operators those of all clients. Searched are the newest 10,000 of each kind, and rows of payouts.
        """
        client_id = None if context.caller.kind is CallerKind.OPERATOR else context.client_id
        names: Names = {} if client_id else {each.id: each.name for each in Client.select(Client.id, Client.name)}
        others = [] if request.text is None else _objects_with(request.text, request, client_id, names, context)
        may_see_all = context.may("transactions:read")
        hits: list[SearchHit] = []
        if request.kind in (None, "transaction") and (may_see_all or context.may("collection:read")):
            payments = _recent_payments(request, client_id)
            rows = payments if may_see_all else payments.where(_IS_COLLECTION)
            hits = transaction_hits(list(rows.limit(MOST_HITS - len(others))), names)
        return SearchReply(without_repeats([*hits, *others]))

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


def _movement_hits(text: str, request: Search) -> list[SearchHit]:
    """Movements without a use by a payment, by receipt or the other side's number."""
    receipts = MovementReceipt.select(MovementReceipt.movement_id).where(
        MovementReceipt.account.in_((*PROVIDER_NAMES, "bank")),
        MovementReceipt.direction.in_((IN, OUT)),
        MovementReceipt.receipt == comparable_receipt(text),
        MovementReceipt.movement_id.is_null(False),
    )
    is_meant = Movement.id.in_(receipts)
    if number := phone_number(text):
        is_meant |= Movement.phone_number == number
    rows = _rows(Movement, request).where(is_meant, Movement.transaction_id.is_null())
    return [movement_hit(row) for row in _newest(rows)]


def _changes(text: str, which: Expression) -> list[AuditEvent]:
    """The objects that a request made or changed, newest first."""
    if not _REQUEST_ID.fullmatch(text):
        return []
    events = AuditEvent.select().where(AuditEvent.request_id == text, which)
    return list(events.order_by(AuditEvent.id.desc()).limit(_MOST_CHANGES))


def _hits(
    kind: SearchedKind,
    text: str,
    names: Names,
    changes: Sequence[AuditEvent],
    rows: ModelSelect[Any],
    request: Search,
) -> list[SearchHit]:
    """The objects of one kind among `rows`, each once, newest first, at most 50. `names` are those of the clients."""
    changed = {
        str(change.object_id): change
        for change in reversed(changes)
        if kind.audited and change.action.startswith(kind.audited) and is_id(change.object_id or "")
    }
    objects = {row.id: row for row in _read(kind, text, [*names], [*changed], rows)}
    hits = dict(zip(objects, kind.hits(list(objects.values()), names), strict=True))
    if kind.may_be_gone and request.from_at is None and request.to_at is None:
        for object_id in changed.keys() - objects.keys():
            change = changed[object_id]
            hits[object_id] = gone_hit(kind.name, change, names.get(change.client_id))
    return [hits[object_id] for object_id in sorted(hits, reverse=True)][:MOST_HITS]


def _read(
    kind: SearchedKind, text: str, client_ids: list[str], changed: list[str], rows: ModelSelect[Any]
) -> Iterator[Any]:
    for condition in kind.names(text):
        yield from _newest(rows.where(condition))
    if changed:
        yield from _newest(rows.where(kind.table.id.in_(changed)))
    number = phone_number(text)
    for client_id in client_ids:
        theirs = rows.where(kind.table.client_id == client_id)
        if kind.reference is not None:
            # Not in order: SQLite would read all of the client's rows for it. A reference names one or two.
            named = theirs.where(kind.reference == text)
            yield from named if kind.is_named is None else named.where(kind.is_named)
        if kind.phone_number is not None and number:
            # The ways in which people write a number: +256772123456, 256772123456 or 0772123456.
            yield from _newest(theirs.where(kind.phone_number == number))


def _chosen(request: Search) -> Iterator[SearchedKind]:
    return (kind for kind in SEARCHED_KINDS if request.kind in (None, kind.name))


def _rows(table: Any, request: Search) -> Any:
    return of_period(table.select(), table, request.from_at, request.to_at)


def _typed(text: str) -> str:
    text = without_marks(text)
    return f"+{text[1:]}" if re.fullmatch(r" [0-9]+", text, re.ASCII) else text.strip()


def _newest(rows: ModelSelect[Any]) -> list[Any]:
    return list(rows.order_by(rows.model.id.desc()).limit(MOST_HITS))


def _recent_payments(request: SearchRecent, client_id: str | None) -> Any:
    """The payments of an amount, or with the words of a text, among the newest of a client; None for all clients."""
    receipt = fn.COALESCE(Transaction.provider_receipt, Transaction.provider_transaction_id)
    texts = (Transaction.reference, Transaction.description, Transaction.phone_number, receipt, Transaction.metadata)
    columns = (Transaction.id, Transaction.type, Transaction.amount_cents, Transaction.phone_number)
    recent = Transaction.select(*columns, _joined(texts).alias("texts"))
    inner = _newest_of(recent, Transaction, request, client_id).alias("recent")
    meanings = [] if request.amount_cents is None else [inner.c.amount_cents == request.amount_cents]
    if request.text is not None:
        meanings += [*_has_digits(inner.c.phone_number, request.text), _has_words(inner.c.texts, request.text)]
    payments = Transaction.select().join(inner, on=(inner.c.id == Transaction.id)).where(reduce(operator.or_, meanings))
    surest_first = [each.desc() for each in meanings[:-1]]
    return payments.order_by(*surest_first, Transaction.id.desc())


def _objects_with(
    text: str, request: SearchRecent, client_id: str | None, names: Names, context: RequestContext
) -> list[SearchHit]:
    """Objects beside payments with the words of a text, some of each kind, and rows of payouts by their payees."""
    hits: list[SearchHit] = []
    for kind in SEARCHED_KINDS:
        if kind.parts and request.kind in (None, kind.name) and context.may(kind.grant):
            recent = kind.table.select(kind.table.id, _joined(kind.parts).alias("texts"))
            inner = _newest_of(recent, kind.table, request, client_id).alias("recent")
            rows = kind.table.select().join(inner, on=(inner.c.id == kind.table.id))
            named = rows.where(_has_words(inner.c.texts, text))
            newest = (named if kind.is_named is None else named.where(kind.is_named)).order_by(kind.table.id.desc())
            hits += kind.hits(list(newest.limit(HITS_OF_A_KIND)), names)
    if request.kind in (None, "payout") and context.may("payouts:read"):
        payouts = _recent_payouts(request, client_id)
        hits += [payee_hit(row, payouts[row.payout_id], names) for row in _payees(text, list(payouts))]
    return hits


def _newest_of(rows: Any, table: Any, request: SearchRecent, client_id: str | None) -> Any:
    """The newest 10,000 rows of a client, as a subquery: its LIMIT bounds what is read, whatever matches."""
    if client_id is not None:
        rows = rows.where(table.client_id == client_id)
    return of_period(rows, table, request.from_at, request.to_at).order_by(table.id.desc()).limit(RECENT_PAYMENTS)


def _joined(texts: Iterable[Any]) -> Any:
    first, *others = (fn.COALESCE(each.cast("text"), "") for each in texts)
    joined: Any = first
    for each in others:
        joined = joined.concat(" ").concat(each)
    return joined


def _has_words(texts: Any, text: str) -> Any:
    return reduce(operator.and_, (texts.contains(word) for word in text.split()[:_MOST_WORDS]))


def _has_digits(number: Any, text: str) -> list[Any]:
    """Whether a phone number has the digits of a text, which may begin as people in Uganda write numbers: 0772 …

    Nothing for a text that is no number.
    """
    digits = _BETWEEN_DIGITS.sub("", text)
    if not _DIGITS.fullmatch(digits):
        return []
    begins = number.startswith(f"+256{digits[1:]}")
    return [number.contains(digits) | begins if digits.startswith("0") else number.contains(digits)]


def _recent_payouts(request: SearchRecent, client_id: str | None) -> dict[str, Payout]:
    """The newest payouts that have 10,000 rows together."""
    recent = Payout.select().where(Payout.replaced_by.is_null())
    if client_id is not None:
        recent = recent.where(Payout.client_id == client_id)
    newest = of_period(recent, Payout, request.from_at, request.to_at).order_by(Payout.id.desc()).limit(_MOST_PAYOUTS)
    payouts: dict[str, Payout] = {}
    rows = 0
    for payout in newest:
        rows += payout.item_count
        if payouts and rows > RECENT_PAYMENTS:
            break
        payouts[payout.id] = payout
    return payouts


def _payees(text: str, payout_ids: list[str]) -> list[PayoutItem]:
    if not payout_ids:
        return []
    # The index of named rows has these conditions.
    is_named = PayoutItem.name.is_null(False) & PayoutItem.is_ready
    rows = PayoutItem.select().where(PayoutItem.payout_id.in_(payout_ids), is_named, _has_words(PayoutItem.name, text))
    return list(rows.order_by(PayoutItem.payout_id.desc(), PayoutItem.line).limit(_MOST_PAYEES))
