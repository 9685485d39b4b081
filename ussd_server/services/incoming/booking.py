"""Books incoming payments: which code takes a payment, and the collection that it becomes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import Client
from ussd_server.models.incoming import IncomingPayment, PaymentCode
from ussd_server.models.transactions import Transaction
from ussd_server.runtime import Runtime
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.incoming.codes import canonical
from ussd_server.services.incoming.messages import IncomingStatus
from ussd_server.services.sms.receipts import with_receipt
from ussd_server.services.transactions.bookings import book
from ussd_server.services.transactions.create import RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.messages import CreatedTransaction, Origin, Source, TransactionType
from ussd_server.services.transactions.transactions import INCOMING
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id, written_amount

OWN_RECEIPT = "A payment that was asked for has this receipt"
"""Why a payment with the receipt of one of our collections is not booked."""


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
    """Whether a code takes this amount."""
    if code.amount_cents is not None:
        return bool(amount_cents == code.amount_cents)
    return (code.min_amount_cents or 0) <= amount_cents <= (code.max_amount_cents or amount_cents)


def collection_of(row: IncomingPayment) -> Transaction | None:
    """The collection that has the receipt of an incoming payment; None if there is none."""
    found: Transaction | None = (
        Transaction.select()
        .where(
            Transaction.provider_transaction_id == row.provider_transaction_id,
            Transaction.provider == row.provider,
            Transaction.type == TransactionType.COLLECTION,
        )
        .first()
    )
    return found


def locked_receipt(provider: str, receipt: str, now: datetime, **columns: Any) -> tuple[IncomingPayment, bool]:
    """The incoming payment with a receipt, locked, and whether it was made now: held, with these columns."""
    same = IncomingPayment.select().where(
        IncomingPayment.provider == provider, IncomingPayment.provider_transaction_id == receipt
    )
    row = for_update(same).first()
    if row is not None:
        return row, False
    made = {"id": new_id(now), "provider": provider, "provider_transaction_id": receipt, "status": IncomingStatus.HELD}
    IncomingPayment.insert(**made, **columns, received_at=now, updated_at=now).on_conflict_ignore().execute()
    row = for_update(same).get()
    return row, row.id == made["id"]


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
        self._creator = creator
        self._clock = runtime.clock

    def book(self, row: IncomingPayment, code: PaymentCode, source: Source, context: RequestContext) -> str:
        """Credit the account of a code with a held payment; return the id of the transaction.

        SERVICE_UNAVAILABLE while the operator holds new money, unless operators decide.
        """
        reference = f"{INCOMING}{row.provider_transaction_id}"
        try:
            created = self._create(row, code, reference, source, context)
        except ServiceError as refusal:
            if refusal.code is not Code.IDEMPOTENCY_KEY_REUSED:
                raise
            # Two providers may use the same receipt.
            created = self._create(row, code, f"{reference}/{row.provider}", source, context)
        transaction_id = created.transaction.transaction_id
        self.mark_booked(row, transaction_id)
        if code.used_at is None:
            PaymentCode.update(used_at=self._clock.now()).where(PaymentCode.id == code.id).execute()
        return transaction_id

    def mark_booked(self, row: IncomingPayment, transaction_id: str) -> None:
        """Name the transaction of an incoming payment."""
        row.status, row.transaction_id = IncomingStatus.BOOKED, transaction_id
        row.updated_at = self._clock.now()
        row.save()

    def _create(
        self, row: IncomingPayment, code: PaymentCode, reference: str, source: Source, context: RequestContext
    ) -> CreatedTransaction:
        receipt = {"incoming": row.provider_transaction_id, "provider": row.provider}
        digest = digest_of({**receipt, "amount_cents": row.amount_cents})
        return book(
            self._creator,
            RequestIdentity(code.client_id, TransactionType.COLLECTION, digest, reference),
            row.amount_cents,
            PROVIDER_ACCOUNT.format(row.provider),
            code.account,
            with_receipt,
            source,
            account=code.account,
            phone_number=row.phone_number,
            provider=row.provider,
            provider_transaction_id=row.provider_transaction_id,
            description=code.description,
            metadata={"payment_code": code.code},
            request_id=context.request_id,
            origin=Origin.PAYER,
        )


def _amounts_of(code: PaymentCode) -> str:
    if code.amount_cents is not None:
        return written_amount(code.amount_cents)
    least, most = code.min_amount_cents, code.max_amount_cents
    bounds = [f"at least {written_amount(least)}" if least else "", f"at most {written_amount(most)}" if most else ""]
    return " and ".join(filter(None, bounds))
