"""The ledger: writes entries of transfers; the database moves the balances, and refuses what may not be."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

import orjson
from peewee import IntegrityError

from ussd_server.models.base import database, for_update, is_postgres, iso_milliseconds, new_id
from ussd_server.models.ledger import Account, Transfer
from ussd_server.models.transactions import Transaction

PROVIDER_ACCOUNT = "provider:{}"
FEES_ACCOUNT = "fees"
DEPOSITS_ACCOUNT = "deposits"
SHORTFALL_ACCOUNT = "shortfall"

AMOUNT, FEE = "amount", "fee"


class OverdraftError(Exception):
    """The debited account does not have that much available."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One transfer to be written: from one account to another, by the accounts' ids."""

    kind: str
    purpose: str
    debit_account_id: str
    credit_account_id: str
    amount_cents: int
    hold_id: str | None = None


def account_kind(name: str) -> str:
    """The kind of the account of that name: a client's subscribers are named by their phone numbers."""
    if name.startswith("+"):
        return "subscriber"
    return name.partition(":")[0]


def find_account(client_id: str, name: str) -> Account | None:
    """A client's account, None when it was never used."""
    return Account.get_or_none(Account.client_id == client_id, Account.name == name)


def open_accounts(client_id: str, names: Collection[str], now: datetime) -> dict[str, str]:
    """The ids of a client's accounts by their names; those never used are opened empty. Call inside a unit of work."""
    named = Account.select(Account.name, Account.id).where(Account.client_id == client_id, Account.name.in_(names))
    found = {account.name: account.id for account in named}
    # In one order, because somebody who opens the same accounts at the same time is waited for.
    missing = sorted(set(names) - set(found))
    if missing:
        Account.insert_many(
            {
                "id": new_id(now), "client_id": client_id, "name": name, "kind": account_kind(name), "currency": "UGX",
                "balance_cents": 0, "reserved_cents": 0, "created_at": now,
            }
            for name in missing
        ).on_conflict_ignore().execute()  # fmt: skip
        found = {account.name: account.id for account in named.clone()}
    return found


def lock_accounts(account_ids: Iterable[str]) -> dict[str, int]:
    """Keep accounts as they are until the unit of work ends; gives what each has beyond its reservations, in cents."""
    rows = for_update(Account.select().where(Account.id.in_(set(account_ids))).order_by(Account.id))
    return {account.id: account.balance_cents - account.reserved_cents for account in rows}


def legs_of(row: Transaction, kind: str, debited: str, credited: str, *, fee_from: str, now: datetime) -> list[Leg]:
    """The legs of a payment, `move` or `hold`: its amount between two accounts, and its fee, all by account name."""
    accounts = open_accounts(row.client_id, {debited, credited, *([FEES_ACCOUNT] if row.fee_cents else [])}, now)
    legs = [Leg(kind, AMOUNT, accounts[debited], accounts[credited], row.amount_cents)]
    if row.fee_cents:
        legs.append(Leg(kind, FEE, accounts[fee_from], accounts[FEES_ACCOUNT], row.fee_cents))
    return legs


def write_entry(client_id: str, transaction_id: str, legs: Iterable[Leg], now: datetime) -> None:
    """Write the transfers of one transaction, all or none, in one round trip. Call inside a unit of work.

    Raises OverdraftError when a debited account has too little available; the unit of work must then end.
    """
    rows = [
        {
            "id": new_id(now),
            "client_id": client_id,
            "transaction_id": transaction_id,
            "kind": leg.kind,
            "purpose": leg.purpose,
            "debit_account_id": leg.debit_account_id,
            "credit_account_id": leg.credit_account_id,
            "amount_cents": leg.amount_cents,
            "hold_id": leg.hold_id,
            "created_at": iso_milliseconds(now),
        }
        for leg in legs
    ]
    try:
        if is_postgres():
            database.execute_sql("SELECT ledger_write(%s::jsonb)", (orjson.dumps(rows).decode(),))
        else:
            Transfer.insert_many([row | {"created_at": now} for row in rows]).execute()
    except IntegrityError as error:
        if _is_overdraft(error):
            raise OverdraftError from None
        raise


def holds_of(transaction_id: str) -> list[Transfer]:
    """The open holds of a transaction."""
    ended = Transfer.alias()
    return list(
        Transfer.select()
        .where(
            Transfer.transaction_id == transaction_id,
            Transfer.kind == "hold",
            Transfer.id.not_in(
                ended.select(ended.hold_id).where(ended.transaction_id == transaction_id, ended.hold_id.is_null(False))
            ),
        )
        .order_by(Transfer.id)
    )


def end_holds(holds: Iterable[Transfer], kind: str) -> list[Leg]:
    """The legs that end holds: `post` moves what they reserved, `void` releases it."""
    return [
        Leg(kind, hold.purpose, hold.debit_account_id, hold.credit_account_id, hold.amount_cents, hold_id=hold.id)
        for hold in holds
    ]


def _is_overdraft(error: IntegrityError) -> bool:
    """Whether the refusal came from the rule that nothing available goes below zero."""
    return "no_overdraft" in str(error)
