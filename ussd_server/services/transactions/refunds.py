"""Refunds: succeeded collections given back to their payers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.compiled_queries import lock_row
from ussd_server.database.ids import is_id
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.messages.providers.providers import Direction
from ussd_server.messages.transactions import (
    UNFINISHED,
    CreatedTransaction,
    CreateRefund,
    GetTransaction,
    OperatorRefund,
    Source,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.ledger import hold_legs
from ussd_server.services.accounts.postings import AnotherFeeError
from ussd_server.services.audit import write_audit_event
from ussd_server.services.providers.providers import Providers
from ussd_server.services.transactions.batch import write_batch
from ussd_server.services.transactions.create import (
    REFUSALS,
    TransactionCreator,
    batch_of,
)
from ussd_server.services.transactions.history import views_of
from ussd_server.services.transactions.names import RequestIdentity, digest_of
from ussd_server.services.transactions.operators import find_any, require_reference, require_two_people
from ussd_server.services.transactions.transactions import find_transaction
from ussd_server.status import Code, ServiceError

_MOST_LISTED = 100
# A failed refund may still succeed while its provider is queried once more or an operator reviews it.
_MAY_STILL_SUCCEED = (Transaction.status == TransactionStatus.FAILED) & (
    Transaction.due_at.is_null(False)
    | (Transaction.review_opened_at.is_null(False) & Transaction.review_closed_at.is_null())
)
_IS_GIVEN_BACK = Transaction.status.in_([*UNFINISHED, TransactionStatus.SUCCEEDED]) | _MAY_STILL_SUCCEED


class RefundService:
    """Creates refunds; calls no provider."""

    def __init__(self, creator: TransactionCreator, providers: Providers) -> None:
        self._creator = creator
        self._providers = providers

    def create(self, request: CreateRefund, context: RequestContext) -> CreatedTransaction:
        """Create a refund of a succeeded collection, in whole or in part.

        Raises TRANSACTION_NOT_FOUND, also for another client's collection, INVALID_REQUEST unless it succeeded,
        INVALID_AMOUNT for more than is left; otherwise as `TransactionCreator.create`.
        """
        return self._create(request, context, Source.SUBMIT, None)

    def list(self, request: GetTransaction, context: RequestContext) -> tuple[TransactionView, ...]:
        """The refunds of one of the client's transactions, oldest first, at most 100; none for an unknown one."""
        context.require("transactions:read")
        if not is_id(request.transaction_id):
            return ()
        rows = Transaction.select().where(
            Transaction.refund_of == request.transaction_id, Transaction.client_id == context.client_id
        )
        return views_of(list(rows.order_by(Transaction.id).limit(_MOST_LISTED)))

    def create_by_operators(self, request: OperatorRefund, context: RequestContext) -> CreatedTransaction:
        """Create a refund of any client's collection, on behalf of two operators; the audit trail shows it.

        Raises INVALID_REQUEST unless two different people are named with a reason, and for a reference out of its
        bounds; otherwise as `create`.
        """
        context.require_operator()
        require_two_people(request.by, request.second, request.reason)
        original = find_any(request.transaction_id)
        reference = request.reference or f"operator-refund-{original.provider_reference or original.id}"
        require_reference(reference)
        return self._create(
            CreateRefund(original.id, reference, request.amount_cents),
            replace(context, caller=replace(context.caller, client_id=original.client_id)),
            Source.OPERATOR,
            {"reason": request.reason, "refunded_by": [request.by, request.second]},
        )

    def _create(
        self, request: CreateRefund, context: RequestContext, source: Source, metadata: dict[str, Any] | None
    ) -> CreatedTransaction:
        context.require("transactions:write")
        original = find_transaction(request.transaction_id, context)
        digest = digest_of(
            {"refund_of": original.id, "amount_cents": request.amount_cents, "reference": request.reference}
        )
        content: dict[str, object] = {"refund_of": original.id}
        if request.amount_cents is not None:
            content["amount_cents"] = request.amount_cents
        identity = RequestIdentity(
            context.client_id, digest, request.reference, request.idempotency_key, content=content
        )
        try:
            amount_cents, provider = self._check(request, original)
            draft = self._creator.draft(
                identity, TransactionType.REFUND, amount_cents, phone_number=original.phone_number, provider=provider,
                account=original.account, refund_of=original.id, request_id=context.request_id,
                metadata=metadata,
            )  # fmt: skip
            batch, view = batch_of(draft, hold_legs(draft.row), source)
            with unit_of_work():
                # Two refunds at once must not give back more than there was.
                lock_row(Transaction, original.id)
                _within_what_is_left(amount_cents, original)
                write_batch(batch)
                if source is Source.OPERATOR:
                    write_audit_event(
                        "transaction.refunded", context, view.created_at, client_id=original.client_id,
                        object_id=original.id,
                    )  # fmt: skip
        except AnotherFeeError:
            self._creator.fees.forget(context.client_id, TransactionType.REFUND)
            return self._create(request, context, source, metadata)
        except REFUSALS as refusal:
            return self._creator.existing(identity, refusal)
        self._creator.wake_worker()
        return CreatedTransaction(view, replayed=False)

    def _check(self, request: CreateRefund, original: Transaction) -> tuple[int, str]:
        """The amount in cents and the name of the provider."""
        if original.type != TransactionType.COLLECTION or original.status != TransactionStatus.SUCCEEDED:
            raise ServiceError(Code.INVALID_REQUEST, "Only a succeeded collection can be given back")
        assert original.phone_number is not None
        amount_cents = _within_what_is_left(request.amount_cents, original)
        provider = self._providers.choose(original.provider, original.phone_number, amount_cents, Direction.REFUND)
        if provider.refunds_in_full_only and amount_cents != original.amount_cents:
            raise ServiceError(Code.INVALID_AMOUNT, f"amount: {provider.name} gives back whole payments only.")
        return amount_cents, provider.name


def _within_what_is_left(amount_cents: int | None, original: Transaction) -> int:
    """The amount of a refund, everything that is left where it names none. INVALID_AMOUNT for more than is left."""
    refunds = Transaction.select(Transaction.amount_cents).where(Transaction.refund_of == original.id, _IS_GIVEN_BACK)
    left_cents = original.amount_cents - sum(refund.amount_cents for refund in refunds)
    amount_cents = left_cents if amount_cents is None else amount_cents
    if not 0 < amount_cents <= left_cents:
        raise ServiceError(Code.INVALID_AMOUNT, "amount: More than is left of the collection.")
    return amount_cents
