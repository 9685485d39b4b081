"""Postings: entries of the ledger, written all or none. The database opens accounts and moves balances."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import psycopg
from peewee import IntegrityError

from ussd_server.database.unit_of_work import database, is_postgres

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """Money to be moved or held.

    `accounts` are all that the legs name (`id`, `client_id`, `name`, `kind`, `created_at`), opened where they are
    missing; `legs` are transfers that name their accounts as `debit` and `credit`.
    """

    accounts: Rows
    legs: Rows


class AnotherFeeError(Exception):
    """The terms of a fee are not those that are agreed now."""


class OverdraftError(Exception):
    """A debited account does not have that much available."""


def write_postings(postings: Postings) -> None:
    """Write legs, all or none; call inside the unit of work that makes the change. Raises OverdraftError."""
    document = (orjson.dumps(postings).decode(),)
    with named_refusals():
        if is_postgres():
            database.execute_sql("SELECT ledger_post(%s::jsonb)", document)
            return
        for statement in POST:
            database.execute_sql(statement, document)


@contextmanager
def named_refusals() -> Iterator[None]:
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


_ACCOUNT_ID = "SELECT id FROM ledger_accounts WHERE client_id = value ->> 'client_id' AND name = value ->> '{}'"
# The statements for SQLite do what `ledger_post` in the migrations does.
POST = (
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
