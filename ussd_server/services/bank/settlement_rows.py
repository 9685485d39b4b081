"""The rows of settlements: which wait, the bank account that each keeps, and the row of a line of the file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from peewee import fn

from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import AuditEvent, Client
from ussd_server.models.ledger import BankAccount
from ussd_server.models.transactions import Transaction
from ussd_server.services.bank.files import bad_line, names_account
from ussd_server.services.bank.messages import DueSettlement, SettlementLine
from ussd_server.services.transactions.messages import SUCCESSFUL, TransactionStatus, TransactionType
from ussd_server.services.transactions.transactions import SETTLEMENT
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, written_amount

IS_SETTLEMENT = Transaction.type == TransactionType.SETTLEMENT
WAITS = IS_SETTLEMENT & (Transaction.status == TransactionStatus.CREATED)
PROPOSED, RECORDED, CANCELLED = (
    "transaction.settlement_proposed",
    "transaction.settled_to_bank",
    "transaction.settlement_cancelled",
)
_DECISIONS = (PROPOSED, RECORDED, CANCELLED)
_IF_PAID = " If the bank has paid it, use `settlements record --paid`."


def settled_since(client_id: str, until: datetime) -> int:
    """What was reserved or paid for the bank since a moment, or waited for the bank then, and did not come back."""
    since = Transaction.completed_at.is_null() | (Transaction.completed_at >= until)
    settled = Transaction.status.in_((TransactionStatus.CREATED, TransactionStatus.SUCCEEDED))
    sums = Transaction.select(fn.SUM(Transaction.amount_cents))
    return int(sums.where(Transaction.client_id == client_id, IS_SETTLEMENT, settled, since).scalar() or 0)


def operators_of(rows: Collection[Transaction]) -> dict[str, list[str]]:
    """The names of the operators who recorded or cancelled each settlement; of one that waits, who proposed it."""
    events = AuditEvent.select(AuditEvent.object_id, AuditEvent.decided_by).where(
        AuditEvent.client_id.in_({row.client_id for row in rows}),
        AuditEvent.action.in_(_DECISIONS),
        AuditEvent.object_id.in_([row.id for row in rows]),
    )
    # No name has a comma.
    decided = {event.object_id: (event.decided_by or "").split(", ") for event in events.order_by(AuditEvent.id)}
    return {row.id: [name for name in decided.get(row.id, ()) if name] for row in rows}


def account_parts(account: BankAccount | DueSettlement | SettlementLine) -> dict[str, str]:
    """The parts of a bank account, which a settlement keeps in its metadata."""
    return {"bank": str(account.bank), "number": str(account.number), "name": str(account.name)}


def locked_settlement(settlement_id: str) -> Transaction:
    """A settlement, locked. NOT_FOUND for an unknown one."""
    if is_id(settlement_id):
        rows = for_update(Transaction.select().where(Transaction.id == settlement_id, IS_SETTLEMENT))
        if row := rows.first():
            found: Transaction = row
            return found
    raise ServiceError(Code.NOT_FOUND, "Settlement not found")


def settlement_of(line: SettlementLine) -> Transaction | None:
    """The settlement of a line, locked: recorded as the line says, or to be recorded so. Raises INVALID_REQUEST.

    None for one that the database does not know, where the line says that the bank has paid it all the same.
    """
    row = _settlement_named(line)
    if row is None and line.is_paid:
        return None
    if row is None or row.client_id != line.client_id:
        raise line_refusal(f"settlement_id: Is not a settlement of the client.{_IF_PAID if row is None else ''}")
    if row.amount_cents != line.amount_cents:
        raise line_refusal(f"amount: The settlement is of {written_amount(row.amount_cents)}.")
    if row.status in SUCCESSFUL and row.provider_transaction_id == line.bank_reference:
        return row
    if row.status in SUCCESSFUL:
        raise line_refusal(f"bank_reference: The settlement was recorded as {row.provider_transaction_id}.")
    if row.status != TransactionStatus.CREATED and not line.is_paid:
        raise line_refusal(f"settlement_id: The settlement was cancelled.{_IF_PAID}")
    if not row.metadata or not names_account(line, **row.metadata):
        raise line_refusal("number: Is not the bank account of the settlement.")
    return row


def _settlement_named(line: SettlementLine) -> Transaction | None:
    """The settlement with the id of a line, or the one that was booked under it after the database had lost it."""
    by_id = Transaction.id == line.settlement_id
    by_name = (Transaction.client_id == line.client_id) & (Transaction.reference == f"{SETTLEMENT}{line.settlement_id}")
    row: Transaction | None = for_update(Transaction.select().where(IS_SETTLEMENT, by_id | by_name)).first()
    return row


def require_own_account(line: SettlementLine) -> None:
    """INVALID_REQUEST for a line of an unknown client, or with a bank account that is none of the client's."""
    account: Any = BankAccount.get_or_none(BankAccount.client_id == line.client_id)
    if account is None or account.number is None or not names_account(line, **account_parts(account)):
        raise line_refusal("number: Is not the bank account of the client.")


def confirmed_accounts() -> Any:
    """The confirmed bank accounts of active clients, with these clients, by the clients' names."""
    return (
        BankAccount.select(BankAccount, Client)
        .join(Client, on=(Client.id == BankAccount.client_id), attr="client")
        .where(BankAccount.confirmed_at.is_null(False), Client.is_active)
        .order_by(Client.name, Client.id)
    )


def line_refusal(problem: str) -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, problem)


@contextmanager
def refusals_of(line: SettlementLine) -> Iterator[None]:
    """Name the line in what is refused."""
    try:
        yield
    except ServiceError as refusal:
        raise bad_line(line.line, refusal.message) from None
