"""Books incoming payments: which code takes a payment, and the collection that it becomes."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.tables import find_row
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import Client
from ussd_server.models.incoming import IncomingPayment, PaymentCode
from ussd_server.models.transactions import ReceiptClaim, Transaction
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.gates.receipts import WayIn, claiming, lock_receipt, update_claim
from ussd_server.services.incoming.codes import canonical
from ussd_server.services.incoming.messages import IncomingStatus
from ussd_server.services.runtime import Runtime
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.create import DraftColumns, Plan, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.messages import (
    SUCCESSFUL,
    UNFINISHED,
    CreatedTransaction,
    Origin,
    Source,
    TransactionStatus,
    TransactionType,
)
from ussd_server.services.transactions.transactions import INCOMING
from ussd_server.status import Code, ServiceError
from ussd_server.values import canonical_receipt, new_id, written_amount

OWN_RECEIPT = "A payment that was asked for has this receipt"
"""Why a payment with the receipt of one of our collections is not booked."""

_LOOKED_BACK = timedelta(days=1)
_LONGEST_RECEIPT = 48


def find_code(typed: str, *, locked: bool = False) -> PaymentCode | None:
    """The payment code that a payer typed exactly, but for case, spaces and hyphens; None for any other text."""
    rows = PaymentCode.select().where(PaymentCode.code == canonical(typed))
    row: PaymentCode | None = (for_update(rows) if locked else rows).first()
    return row


def misfit_of(code: PaymentCode | None, amount_cents: int | None, now: datetime) -> str | None:
    """Why a code does not take a payment of this amount, for operators and payers; None if it does.

    Without an amount: of any.
    """
    if code is None:
        return "This code is not known"
    if not Client.get_by_id(code.client_id).is_active:
        return "Payments to this client are not taken at present"
    if code.expires_at is not None and code.expires_at <= now:
        return "This code has expired"
    if code.single_use and code.used_at is not None:
        return "This code was for one payment, which has been made"
    return None if amount_cents is None or takes_amount(code, amount_cents) else f"This code takes {_amounts_of(code)}"


def takes_amount(code: PaymentCode, amount_cents: int) -> bool:
    if code.amount_cents is not None:
        return bool(amount_cents == code.amount_cents)
    return (code.min_amount_cents or 0) <= amount_cents <= (code.max_amount_cents or amount_cents)


def collection_of(row: IncomingPayment, claim: ReceiptClaim) -> Transaction | None:
    """The payment that has the receipt of an incoming payment: booked under it, or reported with it; None without."""
    if claim.transaction_id is not None:
        return find_row(Transaction, claim.transaction_id)
    collection: Transaction | None = (
        Transaction.select()
        .where(
            Transaction.provider_transaction_id == row.provider_transaction_id,
            Transaction.provider == row.provider,
            Transaction.type == TransactionType.COLLECTION,
        )
        .first()
    )
    return collection


def collection_like(row: IncomingPayment) -> Transaction | None:
    """A collection of ours whose money an incoming payment may be: of the same number, amount and provider.

    It is unfinished, or succeeded without a receipt since the day before the payment was first reported.
    """
    if row.phone_number is None:
        return None
    collection: Transaction | None = (
        Transaction.select()
        .where(
            # By client, because the index of phone numbers begins with it.
            Transaction.client_id.in_(Client.select(Client.id)),
            Transaction.phone_number == row.phone_number,
            Transaction.type == TransactionType.COLLECTION,
            Transaction.provider == row.provider,
            Transaction.amount_cents == row.amount_cents,
            Transaction.status.in_(UNFINISHED)
            | (
                (Transaction.status == TransactionStatus.SUCCEEDED)
                & Transaction.provider_transaction_id.is_null()
                & (Transaction.completed_at > row.received_at - _LOOKED_BACK)
            ),
        )
        .order_by(Transaction.id)
        .first()
    )
    return collection


def lock_incoming(
    provider: str, receipt: str, now: datetime, **columns: Any
) -> tuple[IncomingPayment, ReceiptClaim, bool]:
    """The incoming payment with a receipt and the receipt's claim, both locked, and whether it is new.

    A new one is held, with these columns.
    """
    claim = lock_receipt(provider, receipt)
    if claim.incoming_id is not None:
        is_same = IncomingPayment.id == claim.incoming_id
    else:
        is_same = (IncomingPayment.provider == provider) & (IncomingPayment.provider_transaction_id == receipt)
        if claim.transaction_id is not None:
            # It was reported under the other receipt of the payment.
            is_same |= IncomingPayment.transaction_id == claim.transaction_id
    row = for_update(IncomingPayment.select().where(is_same)).first()
    is_new = row is None
    if is_new:
        row = IncomingPayment.create(
            id=new_id(now),
            provider=provider,
            provider_transaction_id=receipt,
            status=IncomingStatus.HELD,
            received_at=now,
            updated_at=now,
            **columns,
        )
    if claim.incoming_id is None and (is_new or canonical_receipt(row.provider_transaction_id) == claim.receipt):
        update_claim(claim, incoming_id=row.id)
    return row, claim, is_new


def write_payment_event(
    action: str,
    row: IncomingPayment,
    context: RequestContext,
    reason: str | None,
    client_id: str | None = None,
    *,
    is_automatic: bool = False,
) -> None:
    """Add what became of an incoming payment to the audit trail, of a client or of operators. Call after its change."""
    write_audit_event(
        action,
        context,
        row.updated_at,
        client_id=client_id,
        object_id=row.transaction_id or row.id,
        reason=reason,
        amount_cents=row.amount_cents,
        phone_number=row.phone_number,
        decided_by=row.decided_by,
        is_automatic=is_automatic,
    )


class IncomingBook:
    """Books held payments as collections. Call within the unit of work that locked the payment and the code."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        self._creator, self._receipts = creator, ReceiptWriter(runtime)
        self._clock = runtime.clock

    def book(self, row: IncomingPayment, code: PaymentCode, way: WayIn, source: Source, context: RequestContext) -> str:
        """Credit the account of a code with a held payment; return the id of the transaction.

        SERVICE_UNAVAILABLE while the operator holds new money, unless operators decide.
        """
        reference = f"{INCOMING}{_shortened(row.provider_transaction_id)}"
        try:
            created = self._create(row, code, reference, way, source, context)
        except ServiceError as refusal:
            if refusal.code is not Code.IDEMPOTENCY_KEY_REUSED:
                raise
            # Two providers may use the same receipt.
            created = self._create(row, code, f"{reference}/{row.provider}", way, source, context)
        transaction_id = created.transaction.transaction_id
        self.mark_booked(row, transaction_id)
        if code.used_at is None:
            PaymentCode.update(used_at=self._clock.now()).where(PaymentCode.id == code.id).execute()
        return transaction_id

    def book_as_collection(self, row: IncomingPayment, collection: Transaction | None) -> bool:
        """Book a payment as the collection with its receipt, if that succeeded with the same amount; return whether.

        Providers also report the payments that were requested here.
        """
        if collection is None or collection.status not in SUCCESSFUL or collection.amount_cents != row.amount_cents:
            return False
        self.mark_booked(row, collection.id)
        return True

    def mark_booked(self, row: IncomingPayment, transaction_id: str) -> None:
        """Name the transaction of an incoming payment."""
        row.status, row.transaction_id, row.waits_for = IncomingStatus.BOOKED, transaction_id, None
        row.updated_at = self._clock.now()
        row.save()

    def _create(
        self,
        row: IncomingPayment,
        code: PaymentCode,
        reference: str,
        way: WayIn,
        source: Source,
        context: RequestContext,
    ) -> CreatedTransaction:
        receipt = {"incoming": row.provider_transaction_id, "provider": row.provider}
        digest = digest_of({**receipt, "amount_cents": row.amount_cents})
        content = {"amount_cents": row.amount_cents, "phone_number": row.phone_number}
        identity = RequestIdentity(code.client_id, TransactionType.COLLECTION, digest, reference, content=content)
        columns = DraftColumns(
            account=code.account,
            phone_number=row.phone_number,
            provider=row.provider,
            provider_transaction_id=row.provider_transaction_id,
            description=code.description,
            metadata={"payment_code": code.code},
            request_id=context.request_id,
            origin=Origin.PAYER,
        )
        plan = Plan(row.amount_cents, columns, moves=(PROVIDER_ACCOUNT.format(row.provider), code.account))
        return self._creator.create(identity, plan, source, claiming(way, self._receipts.after))


def _shortened(receipt: str) -> str:
    """A receipt as a part of a reference, which has 64 characters at most."""
    return receipt if len(receipt) <= _LONGEST_RECEIPT else sha256(receipt.encode()).hexdigest()[:_LONGEST_RECEIPT]


def _amounts_of(code: PaymentCode) -> str:
    if code.amount_cents is not None:
        return written_amount(code.amount_cents)
    least, most = code.min_amount_cents, code.max_amount_cents
    bounds = [f"at least {written_amount(least)}" if least else "", f"at most {written_amount(most)}" if most else ""]
    return " and ".join(filter(None, bounds))
