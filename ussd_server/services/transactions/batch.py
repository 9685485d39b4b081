"""Batches: new transactions with their history, events and money, written together or not at all.

The document's lists are rows for tables. The dialect writes them: one round trip to PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain

import orjson

from ussd_server.database.unit_of_work import dialect
from ussd_server.models.events import Event
from ussd_server.models.transactions import StatusChange, Transaction
from ussd_server.services.accounts.postings import Postings, Rows, named_refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Postings):
    """What is inserted together.

    `settled` are the ids of transactions that are succeeded as soon as their legs are written. `fees` are the terms
    from which the fees of the transactions were computed.
    """

    transactions: Rows
    changes: Rows
    events: Rows
    settled: list[str]
    fees: Rows


def merged(batches: Sequence[Batch]) -> Batch:
    """One batch of several, in their order."""
    parts = (part.name for part in fields(Batch))
    return Batch(**{part: list(chain.from_iterable(getattr(batch, part) for batch in batches)) for part in parts})


def document_of(batch: Batch) -> str:
    """The batch in JSON, as `transactions_record` takes it (`database/schema/postgres/batches.sql`)."""
    return orjson.dumps(
        {
            "accounts": batch.accounts, "legs": batch.legs, "transactions": batch.transactions,
            "changes": batch.changes, "events": batch.events, "settled": batch.settled, "fees": batch.fees,
        }
    ).decode()  # fmt: skip


def write_batch(batch: Batch) -> None:
    """Write a batch, all of it or nothing, as a transaction of its own or in the unit of work that is open.

    Raises OverdraftError, AnotherFeeError, and IntegrityError for a name that is taken.
    """
    with named_refusals():
        dialect().record_transactions(document_of(batch), _COLUMNS)


_COLUMNS = {
    "transactions": list(Transaction._meta.columns),
    "changes": list(StatusChange._meta.columns),
    "events": list(Event._meta.columns),
}
