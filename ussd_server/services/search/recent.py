"""Search by what no index has: amounts, parts of references and names, within the newest payments only."""

from __future__ import annotations

from typing import Any

from ussd_server.context import RequestContext
from ussd_server.models.clients import Client
from ussd_server.models.payouts import Payout, PayoutItem
from ussd_server.models.transactions import Transaction
from ussd_server.services.pages import of_period
from ussd_server.services.search.hits import payee_hit, transaction_hit
from ussd_server.services.search.messages import MOST_HITS, RECENT_PAYMENTS, SearchHit, SearchRecent
from ussd_server.services.transactions.messages import TransactionType

_MOST_PAYOUTS = 100


def recent_hits(request: SearchRecent, context: RequestContext, client_id: str | None) -> list[SearchHit]:
    """The hits among the newest 10,000 payments and rows of payouts of a client; None for those of all clients."""
    names = {} if client_id else {client.id: client.name for client in Client.select(Client.id, Client.name)}
    hits = []
    if request.kind in (None, "transaction") and (may := _may_see_payments(context)) is not None:
        hits += [transaction_hit(row, names.get(row.client_id)) for row in _payments(request, client_id, may)]
    if request.kind in (None, "payout") and request.part and context.may("payouts:read"):
        payouts = _recent_payouts(request, client_id)
        hits += [payee_hit(row, payouts[row.payout_id], names) for row in _payees(request.part, list(payouts))]
    return hits[:MOST_HITS]


def _may_see_payments(context: RequestContext) -> Any:
    """A condition for the payments that the caller may see; None for none."""
    if context.may("transactions:read"):
        return Transaction.id.is_null(False)
    return Transaction.type == TransactionType.COLLECTION if context.may("collection:read") else None


def _payments(request: SearchRecent, client_id: str | None, may: Any) -> list[Transaction]:
    columns = (Transaction.id, Transaction.type, Transaction.reference, Transaction.amount_cents)
    recent = Transaction.select(*columns)
    if client_id is not None:
        recent = recent.where(Transaction.client_id == client_id)
    # LIMIT within the subquery bounds what is read, whatever matches.
    newest = of_period(recent, Transaction, request.from_at, request.to_at)
    inner = newest.order_by(Transaction.id.desc()).limit(RECENT_PAYMENTS).alias("recent")
    if request.amount_cents is not None:
        is_meant = inner.c.amount_cents == request.amount_cents
    else:
        is_meant = inner.c.reference.contains(request.part)
    found = Transaction.select().join(inner, on=(inner.c.id == Transaction.id)).where(is_meant, may)
    return list(found.order_by(Transaction.id.desc()).limit(MOST_HITS))


def _recent_payouts(request: SearchRecent, client_id: str | None) -> dict[str, Payout]:
    """The newest payouts that have 10,000 rows together."""
    recent = Payout.select().where(Payout.replaced_by.is_null())
    if client_id is not None:
        recent = recent.where(Payout.client_id == client_id)
    newest = of_period(recent, Payout, request.from_at, request.to_at).order_by(Payout.id.desc()).limit(_MOST_PAYOUTS)
    found: dict[str, Payout] = {}
    rows = 0
    for payout in newest:
        rows += payout.item_count
        if found and rows > RECENT_PAYMENTS:
            break
        found[payout.id] = payout
    return found


def _payees(part: str, payout_ids: list[str]) -> list[PayoutItem]:
    if not payout_ids:
        return []
    # The index of named rows has these conditions.
    is_named = PayoutItem.name.is_null(False) & PayoutItem.is_ready
    rows = PayoutItem.select().where(PayoutItem.payout_id.in_(payout_ids), is_named, PayoutItem.name.contains(part))
    return list(rows.order_by(PayoutItem.payout_id.desc(), PayoutItem.line).limit(MOST_HITS))
