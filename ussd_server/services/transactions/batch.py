"""Batches: new transactions with their history, events and money, written together or not at all.

Both databases take the same document; its lists are rows for tables. PostgreSQL has a function for it, which is one
round trip and a transaction by itself; on SQLite it is a handful of statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain

import orjson

from ussd_server.database.columns import Table
from ussd_server.database.unit_of_work import database, is_postgres, unit_of_work
from ussd_server.models.events import Event
from ussd_server.models.transactions import StatusChange, Transaction
from ussd_server.services.accounts.postings import POST, AnotherFeeError, Postings, Rows, named_refusals


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
    document = (document_of(batch),)
    with named_refusals():
        if is_postgres():
            database.execute_sql("SELECT transactions_record(%s::jsonb)", document)
            return
        with unit_of_work():
            if database.execute_sql(_OTHER_TERMS, document).fetchone() is not None:
                raise AnotherFeeError
            for statement in (*_INSERTS, *POST, _SETTLE):
                database.execute_sql(statement, document)


def _insert(table: type[Table], part: str) -> str:
    columns = list(table._meta.columns)
    values = (f"value ->> '{column}'" for column in columns)
    return (
        f"INSERT INTO {table._meta.table_name} ({', '.join(columns)}) "
        f"SELECT {', '.join(values)} FROM json_each(?, '$.{part}')"
    )


# The statements for SQLite do what the functions in the migrations do.
_TERMS = "coalesce((SELECT {0} FROM fees WHERE client_id = value ->> 'client_id' AND type = value ->> 'type'), 0)"
_OTHER_TERMS = f"""SELECT 1 FROM json_each(?, '$.fees')
    WHERE value ->> 'fixed_cents' <> {_TERMS.format("fixed_cents")}
        OR value ->> 'share_basis_points' <> {_TERMS.format("share_basis_points")}"""
_INSERTS = (_insert(Transaction, "transactions"), _insert(StatusChange, "changes"), _insert(Event, "events"))
_SETTLE = """UPDATE transactions SET status = 'succeeded', completed_at = created_at, due_at = NULL
    WHERE id IN (SELECT value FROM json_each(?, '$.settled'))"""
