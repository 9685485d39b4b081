"""Batches: new transactions with their history, events and money, written together or not at all.

Both databases take the same document; its lists are rows for tables. PostgreSQL has a function for it, which is one
round trip and a transaction by itself; on SQLite it is a handful of statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import orjson
import psycopg
from peewee import IntegrityError

from ussd_server.database.columns import Table
from ussd_server.database.unit_of_work import database, is_postgres, unit_of_work
from ussd_server.models.events import Event
from ussd_server.models.transactions import StatusChange, Transaction

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """Money to be moved or held.

    `accounts` are all that the legs name (`id`, `client_id`, `name`, `kind`, `created_at`), opened where they are
    missing; `legs` are transfers that name their accounts as `debit` and `credit`.
    """

    accounts: Rows
    legs: Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Postings):
    """What is inserted together.

    `settled` are the ids of transactions that are succeeded as soon as their legs are written. `fees` are the terms
    from which the fees of the transactions were computed.
    """

    transactions: Rows
    history: Rows
    events: Rows
    settled: list[str]
    fees: Rows


class AnotherFeeError(Exception):
    """The terms of a fee are not those that are agreed now."""


class OverdraftError(Exception):
    """A debited account does not have that much available."""


def merged(batches: Sequence[Batch]) -> Batch:
    """One batch of several, in their order."""
    parts = (part.name for part in fields(Batch))
    return Batch(**{part: list(chain.from_iterable(getattr(batch, part) for batch in batches)) for part in parts})


def document_of(batch: Batch) -> str:
    """The batch as the database takes it, in JSON; the functions in the migrations name the history `story`."""
    return orjson.dumps(
        {
            "accounts": batch.accounts, "legs": batch.legs, "transactions": batch.transactions, "story": batch.history,
            "events": batch.events, "settled": batch.settled, "fees": batch.fees,
        }
    ).decode()  # fmt: skip


def write_batch(batch: Batch) -> None:
    """Write a batch, all of it or nothing, as a transaction of its own or in the unit of work that is open.

    Raises OverdraftError, AnotherFeeError, and IntegrityError for a name that is taken.
    """
    document = (document_of(batch),)
    with _named_refusals():
        if is_postgres():
            database.execute_sql("SELECT transactions_record(%s::jsonb)", document)
            return
        with unit_of_work():
            if database.execute_sql(_OTHER_TERMS, document).fetchone() is not None:
                raise AnotherFeeError
            for statement in (*_INSERTS, *_POST, _SETTLE):
                database.execute_sql(statement, document)


def write_postings(postings: Postings) -> None:
    """Write legs, all or none; call inside the unit of work that makes the change. Raises OverdraftError."""
    document = (orjson.dumps(postings).decode(),)
    with _named_refusals():
        if is_postgres():
            database.execute_sql("SELECT ledger_post(%s::jsonb)", document)
            return
        for statement in _POST:
            database.execute_sql(statement, document)


@contextmanager
def _named_refusals() -> Iterator[None]:
    """Raise OverdraftError and AnotherFeeError for the constraints that mean them."""
    try:
        yield
    except IntegrityError as error:
        match _rule(error):
            case "no_overdraft":
                raise OverdraftError from None
            case "another_fee_was_agreed":
                raise AnotherFeeError from None
        raise


def _rule(error: IntegrityError) -> str:
    """The rule that was broken, by its name. The whole text may also quote values of the client."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, psycopg.Error):
        return cause.diag.constraint_name or cause.diag.message_primary or ""
    return str(error)


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
_INSERTS = (_insert(Transaction, "transactions"), _insert(StatusChange, "story"), _insert(Event, "events"))
_ACCOUNT_ID = "SELECT id FROM ledger_accounts WHERE client_id = value ->> 'client_id' AND name = value ->> '{}'"
_POST = (
    f"""INSERT INTO ledger_accounts (id, client_id, name, kind, currency, balance_cents, reserved_cents, created_at)
    SELECT min(value ->> 'id'), value ->> 'client_id', value ->> 'name', value ->> 'kind', 'UGX', 0, 0,
        value ->> 'created_at'
    FROM json_each(?, '$.accounts') WHERE NOT EXISTS ({_ACCOUNT_ID.format("name")}) GROUP BY 2, 3""",
    f"""INSERT INTO ledger_transfers (id, client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id,
        amount_cents, hold_id, created_at)
    SELECT value ->> 'id', value ->> 'client_id', value ->> 'transaction_id', value ->> 'kind', value ->> 'purpose',
        ({_ACCOUNT_ID.format("debit")}), ({_ACCOUNT_ID.format("credit")}), value ->> 'amount_cents',
        value ->> 'hold_id', value ->> 'created_at'
    FROM json_each(?, '$.legs') ORDER BY key""",
)
_SETTLE = """UPDATE transactions SET status = 'succeeded', completed_at = created_at, due_at = NULL
    WHERE id IN (SELECT value FROM json_each(?, '$.settled'))"""
