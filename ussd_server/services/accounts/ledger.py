"""The ledger and its fees: writes transfers; the database moves the balances, and refuses what breaks a rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from peewee import IntegrityError, Query

from ussd_server.context import RequestContext
from ussd_server.database.tables import CompiledQuery, param
from ussd_server.database.unit_of_work import dialect, for_update, unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.ledger import Account, Transfer
from ussd_server.models.operations import ReferenceKey
from ussd_server.models.transactions import Fee, Transaction
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.transactions.messages import LedgerEntry, TransactionStatus, TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds, new_id, written_amount

PROVIDER_ACCOUNT = "provider:{}"
FEES_ACCOUNT = "fees"
DEPOSITS_ACCOUNT = "deposits"
BANK_ACCOUNT = "bank"
SHORTFALL_ACCOUNT = "shortfall"

AMOUNT, FEE, LACKING = "amount", "fee", "shortfall"

_MOST_FEE_CENTS = 99_999_999
_WHOLE_BASIS_POINTS = 10_000
# Entries of the cache: some megabytes.
_MOST_READ = 20_000

Rows = Sequence[Mapping[str, Any]]


class Leg(NamedTuple):
    """One transfer to be written: from one account of a client to another, by the accounts' names."""

    kind: str
    purpose: str
    debit: str
    credit: str
    amount_cents: int
    hold_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """Money to be moved or held.

    `accounts` are all accounts of the legs (`id`, `client_id`, `name`, `kind`, `created_at`); missing ones are opened.
    `legs` are transfers that name their accounts as `debit` and `credit`. `spending` are sums that count towards the
    daily limits of keys (`key_id`, `day`, `cents`).
    """

    accounts: Rows
    legs: Rows
    spending: Rows = ()


class AnotherFeeError(Exception):
    """The terms of a fee are not those that are agreed now."""


class DailyLimitError(Exception):
    """More than an API key may pay in a day."""


class OverdraftError(Exception):
    """A debited account does not have that much available."""


def account_kind(name: str) -> str:
    """The kind of the account with this name. The account of a subscriber has a phone number as its name."""
    return "subscriber" if name.startswith("+") else name.partition(":")[0]


def _of_one() -> Query:
    """The transfers of a transaction with the names of their accounts, in their order."""
    debited, credited = Account.alias(), Account.alias()
    return (
        Transfer.select(Transfer, debited.name.alias("debit"), credited.name.alias("credit"))
        .join(debited, on=(debited.id == Transfer.debit_account_id))
        .switch(Transfer)
        .join(credited, on=(credited.id == Transfer.credit_account_id))
        .where(Transfer.transaction_id == param(Transfer.transaction_id))
        .order_by(Transfer.id)
    )


def _open_holds() -> Query:
    ended = Transfer.alias()
    of_ended = (ended.transaction_id == param(Transfer.transaction_id)) & ended.hold_id.is_null(False)
    return _of_one().where(Transfer.kind == "hold", Transfer.id.not_in(ended.select(ended.hold_id).where(of_ended)))


_OPEN_HOLDS = CompiledQuery(_open_holds)
_TRANSFERS = CompiledQuery(_of_one)
# The status change that writes each kind of transfer. A transaction has each of these statuses at most once.
_WRITTEN_WITH = {
    "hold": TransactionStatus.CREATED,
    "move": TransactionStatus.SUCCEEDED,
    "post": TransactionStatus.SUCCEEDED,
    "void": TransactionStatus.FAILED,
}


def holds_sandbox_money() -> bool:
    """Whether the sandbox's provider, or an operator of the sandbox, made up some of the money."""
    # By client, because the index of names begins with it.
    of_sandbox = Account.client_id.in_(Client.select(Client.id)) & (Account.name == PROVIDER_ACCOUNT.format("sandbox"))
    is_made_up = Account.select().where(of_sandbox, Account.balance_cents != 0).exists()
    return bool(is_made_up or ReferenceKey.select().where(ReferenceKey.credited_in_sandbox).exists())


def lock_accounts(client_id: str, names: Collection[str]) -> dict[str, int]:
    """Lock a client's accounts until the unit of work ends; return what each has available.

    In cents, by name; accounts that were never used are missing.
    """
    named = Account.select().where(Account.client_id == client_id, Account.name.in_(names))
    rows = for_update(named.order_by(Account.id))
    return {account.name: account.balance_cents - account.reserved_cents for account in rows}


def lacking_cents(client_id: str, account: str, outside: str, cents: int) -> int:
    """What a client's account lacks of a sum that left to `outside`: its shortfall. Locks all accounts of the entry."""
    names = {account, outside, FEES_ACCOUNT, SHORTFALL_ACCOUNT}
    available = lock_accounts(client_id, names).get(account, 0)
    return max(0, cents - max(0, available))


def legs_of(row: Transaction, kind: str, debited: str, credited: str, lacking: int = 0) -> list[Leg]:
    """The legs of a payment, `move` or `hold`: its amount between two accounts, and its fee from its own.

    `lacking` is what its own account lacks, which the shortfall lends it before.
    """
    legs = [Leg("move", LACKING, SHORTFALL_ACCOUNT, row.account, lacking)] if lacking else []
    legs.append(Leg(kind, AMOUNT, debited, credited, row.amount_cents))
    if row.fee_cents:
        legs.append(Leg(kind, FEE, row.account, FEES_ACCOUNT, row.fee_cents))
    return legs


def postings_of(client_id: str, transaction_id: str, legs: Collection[Leg], now: datetime) -> Postings:
    """The legs of one transaction as the database takes them."""
    created_at = iso_milliseconds(now)
    names = dict.fromkeys(name for leg in legs for name in (leg.debit, leg.credit))
    return Postings(
        accounts=[
            {
                "id": new_id(now),
                "client_id": client_id,
                "name": name,
                "kind": account_kind(name),
                "created_at": created_at,
            }
            for name in names
        ],
        legs=[
            {
                "id": new_id(now),
                "client_id": client_id,
                "transaction_id": transaction_id,
                "created_at": created_at,
                **leg._asdict(),
            }
            for leg in legs
        ],
    )


def write_postings(postings: Postings) -> None:
    """Write legs, all or none; call inside the unit of work that makes the change.

    Raises OverdraftError and DailyLimitError.
    """
    document = orjson.dumps(postings).decode()
    with named_refusals():
        dialect().post(document)


@contextmanager
def named_refusals() -> Iterator[None]:
    """Raise OverdraftError, DailyLimitError and AnotherFeeError for the constraints that mean them."""
    try:
        yield
    except IntegrityError as error:
        match dialect().broken_rule(error):
            case "no_overdraft":
                raise OverdraftError from None
            case "daily_limit_reached":
                raise DailyLimitError from None
            case "another_fee_was_agreed":
                raise AnotherFeeError from None
        raise


def write_entry(client_id: str, transaction_id: str, legs: Collection[Leg], now: datetime) -> None:
    """Write the transfers of one transaction, all or none; opens missing accounts.

    Call inside a unit of work. Raises OverdraftError when a debited account has too little available; the unit of work
    must then end.
    """
    write_postings(postings_of(client_id, transaction_id, legs, now))


def holds_of(transaction_id: str) -> list[Leg]:
    """The open holds of a transaction, each as the leg that it was written by; `hold_id` is its id."""
    holds = _OPEN_HOLDS.rows(Transfer, transaction_id=transaction_id)
    return [Leg(hold.kind, hold.purpose, hold.debit, hold.credit, hold.amount_cents, hold.id) for hold in holds]


def entries_of(transaction_id: str, provider: str | None) -> dict[str, tuple[LedgerEntry, ...]]:
    """The entries of a transaction, by the status with which they were written. The provider's account has its name."""
    entries: dict[str, tuple[LedgerEntry, ...]] = {}
    moved = set()
    for transfer in _TRANSFERS.rows(Transfer, transaction_id=transaction_id):
        # What moves a second time moves back.
        is_back = transfer.purpose in moved or (transfer.purpose == LACKING and AMOUNT in moved)
        status = TransactionStatus.REVERSED if is_back else _WRITTEN_WITH[transfer.kind]
        if transfer.kind in ("move", "post"):
            moved.add(transfer.purpose)
        entries[status] = entries.get(status, ()) + _entries(transfer, provider)
    return entries


def _entries(transfer: Any, provider: str | None) -> tuple[LedgerEntry, ...]:
    cents, purpose = transfer.amount_cents, transfer.purpose
    debit, credit = (
        PROVIDER_ACCOUNT.format(provider) if account_kind(name) == "provider" else name
        for name in (transfer.debit, transfer.credit)
    )
    if transfer.kind == "hold":
        return (LedgerEntry(debit, -cents, f"{purpose}_reserved"),)
    if transfer.kind == "void":
        return (LedgerEntry(debit, cents, f"{purpose}_released"),)
    return LedgerEntry(debit, -cents, purpose), LedgerEntry(credit, cents, purpose)


def end_holds(holds: Collection[Leg], kind: str) -> list[Leg]:
    """The legs that end holds: `post` moves what they reserved, `void` releases it."""
    return [hold._replace(kind=kind) for hold in holds]


def fee_cents(agreed: FeeTerms, amount_cents: int) -> int:
    """The fee of an amount: the fixed part plus the share.

    A share is rounded to whole cents, halves up. A fee is never more than the amount, so that a collection can always
    pay its own fee.
    """
    share_cents = (amount_cents * agreed.share_basis_points + _WHOLE_BASIS_POINTS // 2) // _WHOLE_BASIS_POINTS
    return min(agreed.fixed_cents + share_cents, amount_cents)


def agreed_fee(client_id: str, kind: TransactionType) -> FeeTerms:
    """The fee that is agreed with a client for a type of transaction; zeros without an agreement."""
    row = Fee.get_or_none(Fee.client_id == client_id, Fee.type == kind) or Fee(fixed_cents=0, share_basis_points=0)
    return FeeTerms(client_id, kind, row.fixed_cents, row.share_basis_points)


class FeeBook:
    """A cache of fees, as this process read them last.

    The database checks the fee of each new transaction (AnotherFeeError): then forget it, and compute the fee again.
    """

    def __init__(self) -> None:
        self._read: dict[tuple[str, TransactionType], FeeTerms] = {}

    def find(self, client_id: str, kind: TransactionType) -> FeeTerms:
        """The fee that was agreed with a client for a type of transaction when it was read."""
        fee = self._read.get((client_id, kind))
        if fee is None:
            if len(self._read) >= _MOST_READ:
                self._read.clear()
            fee = self._read[client_id, kind] = agreed_fee(client_id, kind)
        return fee

    def forget(self, client_id: str, kind: TransactionType) -> None:
        """Drop this fee, so that its next use reads it again."""
        self._read.pop((client_id, kind), None)


def set_fee(fee: FeeTerms, context: RequestContext, now: datetime) -> FeeTerms:
    """Agree a fee for transactions created from now on; zeros end it. The client's audit trail shows it.

    Raises NOT_FOUND for an unknown client, and INVALID_REQUEST for a deposit, a settlement or a correction, which are
    free, and for parts out of their bounds.
    """
    context.require_operator()
    if fee.type in (TransactionType.DEPOSIT, TransactionType.SETTLEMENT, TransactionType.CORRECTION):
        raise ServiceError(Code.INVALID_REQUEST, f"type: A {fee.type} is free.")
    if not 0 <= fee.fixed_cents <= _MOST_FEE_CENTS:
        raise ServiceError(Code.INVALID_REQUEST, "fixed: Must be 0 or more and less than 1000000 shillings.")
    if not 0 <= fee.share_basis_points <= _WHOLE_BASIS_POINTS:
        raise ServiceError(Code.INVALID_REQUEST, "share_basis_points: Must be 0 to 10000.")
    parts = {"fixed_cents": fee.fixed_cents, "share_basis_points": fee.share_basis_points}
    try:
        with unit_of_work():
            Fee.put({"client_id": fee.client_id, "type": fee.type}, parts)
            write_audit_event(
                "fee.agreed",
                context,
                now,
                client_id=fee.client_id,
                reason=f"{fee.type}: {written_amount(fee.fixed_cents)} and {fee.share_basis_points / 100:g} percent",
            )
    except IntegrityError:
        raise ServiceError(Code.NOT_FOUND, "Client not found") from None
    return fee


def list_fees(context: RequestContext) -> tuple[FeeTerms, ...]:
    """Every fee that was agreed, by client and type."""
    context.require_operator()
    rows = Fee.select().order_by(Fee.client_id, Fee.type)
    return tuple(
        FeeTerms(row.client_id, TransactionType(row.type), row.fixed_cents, row.share_basis_points) for row in rows
    )
