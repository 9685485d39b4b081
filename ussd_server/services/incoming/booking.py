"""Books incoming payments: which code takes a payment, and the collection that it becomes."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import Client
from ussd_server.models.incoming import IncomingPayment, PaymentCode
from ussd_server.models.transactions import Transaction
from ussd_server.runtime import Runtime
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT, legs_of
from ussd_server.services.incoming.codes import canonical
from ussd_server.services.incoming.messages import IncomingStatus
from ussd_server.services.sms.receipts import with_receipt
from ussd_server.services.transactions.create import Prepared, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.messages import CreatedTransaction, Origin, Source, TransactionType
from ussd_server.services.transactions.transactions import INCOMING
from ussd_server.status import Code, ServiceError
from ussd_server.values import written_amount


class Misfit(StrEnum):
    """Why a payment fits nothing; operators and payers read it."""

    UNKNOWN_CODE = "This code is not known"
    EXPIRED = "This code has expired"
    USED = "This code was for one payment, which has been made"
    OTHER_AMOUNT = "This code takes another amount"
    CLIENT_DISABLED = "Payments to this client are not taken at present"
    OTHER_NOTICE = "It was reported with two amounts"
    OWN_RECEIPT = "A payment that was asked for has this receipt"


def find_code(typed: str, *, locked: bool = False) -> PaymentCode | None:
    """The payment code that a payer typed exactly, but for case, spaces and hyphens; None for any other text."""
    rows = PaymentCode.select().where(PaymentCode.code == canonical(typed))
    row: PaymentCode | None = (for_update(rows) if locked else rows).first()
    return row


def misfit_of(code: PaymentCode | None, amount_cents: int | None, now: datetime) -> Misfit | None:
    """Why a code does not take a payment of this amount; None if it does. Without an amount: of any."""
    if code is None:
        return Misfit.UNKNOWN_CODE
    if not Client.get_by_id(code.client_id).is_active:
        return Misfit.CLIENT_DISABLED
    if code.expires_at is not None and code.expires_at <= now:
        return Misfit.EXPIRED
    if code.single_use and code.used_at is not None:
        return Misfit.USED
    return None if amount_cents is None or takes_amount(code, amount_cents) else Misfit.OTHER_AMOUNT


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
        content = {"amount_cents": row.amount_cents, "phone_number": row.phone_number}
        receipt = {"incoming": row.provider_transaction_id, "provider": row.provider}
        digest = digest_of({**receipt, "amount_cents": row.amount_cents})
        kind = TransactionType.COLLECTION
        identity = RequestIdentity(code.client_id, kind, digest, reference, content=content)

        def prepare(identity: RequestIdentity) -> Prepared:
            draft = self._creator.draft(
                identity,
                row.amount_cents,
                account=code.account,
                phone_number=row.phone_number,
                provider=row.provider,
                provider_transaction_id=row.provider_transaction_id,
                description=code.description,
                metadata={"payment_code": code.code},
                request_id=context.request_id,
                origin=Origin.PAYER,
            )
            provider = PROVIDER_ACCOUNT.format(row.provider)
            return draft, legs_of(draft.row, "move", provider, code.account, fee_from=code.account)

        return self._creator.create(identity, prepare, source, with_receipt)


def written_misfit(misfit: Misfit, code: PaymentCode | None) -> str:
    """Why a payment fits nothing, with what the code takes."""
    if misfit is not Misfit.OTHER_AMOUNT or code is None:
        return misfit
    if code.amount_cents is not None:
        return f"This code takes {written_amount(code.amount_cents)}"
    least, most = code.min_amount_cents, code.max_amount_cents
    bounds = [f"at least {written_amount(least)}" if least else "", f"at most {written_amount(most)}" if most else ""]
    return f"This code takes {' and '.join(filter(None, bounds))}"
