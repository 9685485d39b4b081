"""Refunds: succeeded collections given back to their payers."""

from __future__ import annotations

from ussd_server.context import RequestContext
from ussd_server.database.compiled_queries import lock_row
from ussd_server.messages.transactions import (
    UNFINISHED,
    CreatedTransaction,
    CreateRefund,
    TransactionStatus,
    TransactionType,
)
from ussd_server.models.transactions import Transaction
from ussd_server.services.transactions.insert import TransactionNames, TransactionWriter, digest_of, hold_of
from ussd_server.services.transactions.providers import Providers
from ussd_server.services.transactions.transactions import find_transaction
from ussd_server.status import Code, ServiceError

# A failed refund may still succeed while its provider is asked once more or a person looks at it.
_MAY_STILL_SUCCEED = (Transaction.status == TransactionStatus.FAILED) & (
    Transaction.due_at.is_null(False)
    | (Transaction.review_opened_at.is_null(False) & Transaction.review_closed_at.is_null())
)
_IS_GIVEN_BACK = Transaction.status.in_([*UNFINISHED, TransactionStatus.SUCCEEDED]) | _MAY_STILL_SUCCEED


class RefundService:
    """Records refunds; calls no provider."""

    def __init__(self, writer: TransactionWriter, providers: Providers) -> None:
        self._recorder = writer
        self._providers = providers

    def create(self, request: CreateRefund, context: RequestContext) -> CreatedTransaction:
        """Record that a succeeded collection is given back to its payer, wholly or in part.

        TRANSACTION_NOT_FOUND also for somebody else's collection, INVALID_REQUEST unless it succeeded, INVALID_AMOUNT
        for more than is left; otherwise as a transaction is created.
        """
        context.require("transactions:write")
        original = find_transaction(request.transaction_id, context)
        digest = digest_of(
            {"refund_of": original.id, "amount_cents": request.amount_cents, "reference": request.reference}
        )
        names = TransactionNames(context.client_id, request.reference, request.idempotency_key)
        return self._recorder.once(names, digest, lambda: self._record(request, original, context.request_id, digest))

    def _record(self, request: CreateRefund, original: Transaction, request_id: str, digest: str) -> Transaction:
        if original.type != TransactionType.COLLECTION or original.status != TransactionStatus.SUCCEEDED:
            raise ServiceError(Code.INVALID_REQUEST, "Only a succeeded collection can be given back")
        assert original.phone_number is not None
        amount_cents = _within_what_is_left(request.amount_cents, original)
        provider = self._providers.choose(original.provider, original.phone_number, amount_cents)
        if provider.refunds_in_full_only and amount_cents != original.amount_cents:
            raise ServiceError(Code.INVALID_AMOUNT, f"amount: {provider.name} gives back whole payments only.")
        draft = self._recorder.draft(
            original.client_id, TransactionType.REFUND, amount_cents, request.reference, digest,
            phone_number=original.phone_number, provider=provider.name, account=original.account,
            idempotency_key=request.idempotency_key, refund_of=original.id, request_id=request_id,
        )  # fmt: skip

        def look_again() -> None:
            # Two refunds at once must not give back more than there was.
            lock_row(Transaction, original.id)
            _within_what_is_left(amount_cents, original)

        return self._recorder.record(draft, hold_of(draft.row), guard=look_again)


def _within_what_is_left(amount_cents: int | None, original: Transaction) -> int:
    """The amount of a refund, everything that is left where it names none. INVALID_AMOUNT for more than is left."""
    refunds = Transaction.select(Transaction.amount_cents).where(Transaction.refund_of == original.id, _IS_GIVEN_BACK)
    left_cents = original.amount_cents - sum(refund.amount_cents for refund in refunds)
    amount_cents = left_cents if amount_cents is None else amount_cents
    if not 0 < amount_cents <= left_cents:
        raise ServiceError(Code.INVALID_AMOUNT, "amount: More than is left of the collection.")
    return amount_cents
