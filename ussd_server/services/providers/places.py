"""Payments that wait because the settings no longer have the place to which they were sent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from peewee import fn

from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Direction
from ussd_server.services.providers.providers import Providers
from ussd_server.services.transactions.messages import UNFINISHED


def waiting_elsewhere(providers: Providers) -> Mapping[str, Counter[str]]:
    """How many unfinished payments wait for each place that the settings do not have, by provider."""
    rows: Any = (
        Transaction.select(Transaction.provider, Transaction.type, Transaction.sent_to, fn.COUNT(Transaction.id))
        # Such a payment is always due again; the condition finds the index.
        .where(
            Transaction.due_at.is_null(False), Transaction.status.in_(UNFINISHED), Transaction.sent_to.is_null(False)
        )
        .group_by(Transaction.provider, Transaction.type, Transaction.sent_to)
    )
    waiting: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, kind, place, count in rows.tuples():
        if providers.of_payment(name, place, Direction(kind)) is None:
            waiting[name][place] += count
    return waiting
