"""Refunds: succeeded collections given back to their payers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ussd_server.context import CallerKind, RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.movements import OUT, Movement, is_unexplained
from ussd_server.models.statements import StatementDifference
from ussd_server.models.transactions import IN_REVIEW, Transaction
from ussd_server.providers.messages import Direction
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT
from ussd_server.services.gates.messages import WayOut
from ussd_server.services.operator_names import require_reason, require_two_people
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.audited import audited
from ussd_server.services.transactions.create import DraftColumns, Plan, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.history import views_of
from ussd_server.services.transactions.messages import (
    UNFINISHED,
    CreatedTransaction,
    CreateRefund,
    OperatorRefund,
    RefundPreview,
    Source,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.services.transactions.transactions import (
    OPERATOR_REFUND,
    TransactionService,
    find_any,
    find_transaction,
    known_maker,
    refuse_operators_reference,
    require_reference,
)
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id

_MOST_LISTED = 100
# A failed refund may still succeed while its provider is queried once more or an operator reviews it.
_MAY_STILL_SUCCEED = (Transaction.status == TransactionStatus.FAILED) & (Transaction.due_at.is_null(False) | IN_REVIEW)
_IS_GIVEN_BACK = Transaction.status.in_([*UNFINISHED, TransactionStatus.SUCCEEDED]) | _MAY_STILL_SUCCEED
_LATER_NUMBER = r"(?:-([2-9]|[1-9][0-9]{1,3}))?"


@dataclass(frozen=True, slots=True)
class _Details:
    """Why a refund is made, and by which two operators; none for a client's own."""

    reason: str | None
    operators: tuple[str, ...] = ()

    @property
    def source(self) -> Source:
        return Source.OPERATOR if self.operators else Source.SUBMIT

    @property
    def metadata(self) -> dict[str, Any] | None:
        return {"reason": self.reason, "refunded_by": list(self.operators)} if self.operators else None


class RefundService:
    """Creates refunds; calls no provider."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator, transactions: TransactionService) -> None:
        self._creator = creator
        self._transactions = transactions
        self._providers = runtime.providers

    def create(self, request: CreateRefund, context: RequestContext) -> CreatedTransaction:
        """Create a refund of a succeeded collection, in whole or in part.

        Raises TRANSACTION_NOT_FOUND, also for another client's collection, INVALID_REQUEST unless it succeeded, and
        while operators have not decided about what the provider took back of it, INVALID_AMOUNT for more than is left,
        INVALID_REQUEST for a person without a reason and for a reference of the operators; otherwise as
        `TransactionCreator.create`. The audit trail shows it. Waits for its outcome where the request says so.
        """
        if context.caller.kind is CallerKind.TOKEN:
            require_reason(request.reason or "")
        refuse_operators_reference(request.reference)
        created = self._create(request, context, _Details(request.reason))
        return self._transactions.wait_until_final(created, request.wait, context)

    def list(self, transaction_id: str, context: RequestContext) -> tuple[TransactionView, ...]:
        """The refunds of one of the client's transactions, oldest first, at most 100; none for an unknown one."""
        context.require("transactions:read")
        if not is_id(transaction_id):
            return ()
        # By the ids, because SQLite would read all of the client's rows in order to find one or two.
        refunds = Transaction.select(Transaction.id).where(Transaction.refund_of == transaction_id)
        rows = Transaction.select().where(Transaction.id.in_(refunds), Transaction.client_id == context.client_id)
        return views_of(list(rows.order_by(Transaction.id).limit(_MOST_LISTED)))

    def create_by_operators(self, request: OperatorRefund, context: RequestContext) -> CreatedTransaction:
        """Create a refund of any client's collection, on behalf of two operators; the audit trail shows it.

        Raises INVALID_REQUEST unless two different people are named with a reason, for a reference out of its bounds,
        and for a refund that neither names nor counts itself when an equal one exists; otherwise as `create`.
        """
        context.require_operator()
        names = require_two_people(request.by, request.second, request.reason)
        original = find_any(request.transaction_id)
        number, reference = request.number, request.reference
        if reference is None and number is None:
            _refuse_equal(original, request.amount_cents)
            number = _next_number(original)
        reference = reference or _counted_reference(original, number or 1)
        require_reference(reference)
        return self._create(
            CreateRefund(original.id, reference, request.amount_cents),
            replace(context, caller=replace(context.caller, client_id=original.client_id)),
            _Details(request.reason, names),
        )

    def next_number(self, transaction_id: str) -> int:
        """The number of the next refund of a collection by operators, counted from 1."""
        return _next_number(find_any(transaction_id))

    def preview(self, transaction_id: str, amount_cents: int | None, context: RequestContext) -> RefundPreview:
        """The amounts of a refund of any client's collection now, with its row locked. Raises as `create`."""
        context.require_operator()
        original = find_any(transaction_id, locked=True)
        left_cents = left_of(original)
        amount_cents = self._check(amount_cents, original)
        return RefundPreview(amount_cents, original.amount_cents - left_cents, original.amount_cents)

    def _create(self, request: CreateRefund, context: RequestContext, details: _Details) -> CreatedTransaction:
        way = WayOut.OPERATOR_REFUND if details.operators else WayOut.REFUND
        sending = self._creator.gate.admit(way, context)
        original = find_transaction(request.transaction_id, context)
        content: dict[str, object] = {"refund_of": original.id}
        # A repeat by operators may say why in other words.
        if not details.operators:
            content["description"] = details.reason
        digest = _digest(original.id, request.amount_cents, request.reference, content.get("description"))
        if request.amount_cents is not None:
            content["amount_cents"] = request.amount_cents
        identity = RequestIdentity(
            context.client_id,
            TransactionType.REFUND,
            digest,
            request.reference,
            request.idempotency_key,
            content=content,
        )

        @contextmanager
        def within(row: Transaction) -> Iterator[None]:
            with unit_of_work():
                # Two refunds at once must not give back more than there was.
                locked = lock_row(Transaction, original.id)
                _require_refundable(locked)
                _within_what_is_left(row.amount_cents, locked)
                decided_by = ", ".join(details.operators) or None
                with audited(row, "transaction.refunded", context, details.reason, decided_by):
                    yield

        plan = self._plan(request.amount_cents, original, context, details)
        return self._creator.create(identity, plan, details.source, within, sending)

    def _plan(
        self, amount_cents: int | None, original: Transaction, context: RequestContext, details: _Details
    ) -> Plan | ServiceError:
        """What a refund gives back of a collection, or why it is refused."""
        try:
            amount_cents = self._check(amount_cents, original)
        except ServiceError as refusal:
            return refusal
        columns = DraftColumns(
            phone_number=original.phone_number,
            provider=original.provider,
            provider_account=original.provider_account,
            account=original.account,
            refund_of=original.id,
            request_id=context.request_id,
            key_id=context.caller.key_id,
            user_id=context.caller.user_id,
            description=details.reason,
            metadata=details.metadata,
            operator=details.operators[0] if details.operators else None,
        )
        holds = (original.account, PROVIDER_ACCOUNT.format(original.provider_account))
        return Plan(amount_cents, columns, holds, made_by=known_maker(None, context))

    def _check(self, amount_cents: int | None, original: Transaction) -> int:
        """The amount in cents."""
        _require_refundable(original)
        if original.phone_number is None:
            raise ServiceError(Code.INVALID_REQUEST, "The payer's phone number is not known")
        amount_cents = _within_what_is_left(amount_cents, original)
        provider = self._providers.choose(
            original.provider,
            original.phone_number,
            amount_cents,
            Direction.REFUND,
            moved_cents=original.amount_cents,
            client_id=original.client_id,
        )
        if provider.refunds_in_full_only and amount_cents != original.amount_cents:
            raise ServiceError(Code.INVALID_AMOUNT, f"amount: {provider.name} gives back whole payments only.")
        return amount_cents


def _require_refundable(original: Transaction) -> None:
    """INVALID_REQUEST for what is no collection with its money; one that a payment replaced has lost it.

    Also while a movement is unexplained by which the provider took it back: the payer may have the money already.
    """
    if original.type != TransactionType.COLLECTION or original.status != TransactionStatus.SUCCEEDED:
        raise ServiceError(Code.INVALID_REQUEST, "Only a succeeded collection can be given back")
    taken_back = StatementDifference.select().join(Movement, on=StatementDifference.movement_id == Movement.id)
    of_collection = StatementDifference.transaction_id == original.id
    if taken_back.where(of_collection, Movement.direction == OUT, is_unexplained()).exists():
        raise ServiceError(Code.INVALID_REQUEST, "The provider has taken this collection back; operators decide first")


def _within_what_is_left(amount_cents: int | None, original: Transaction) -> int:
    """The amount of a refund, everything that is left where it names none. INVALID_AMOUNT for more than is left."""
    left_cents = left_of(original)
    amount_cents = left_cents if amount_cents is None else amount_cents
    if not 0 < amount_cents <= left_cents:
        raise ServiceError(Code.INVALID_AMOUNT, "amount: More than is left of the collection.")
    return amount_cents


def left_of(original: Transaction) -> int:
    """The part of a collection that no refund has taken or holds, in cents."""
    refunds = Transaction.select(Transaction.amount_cents).where(Transaction.refund_of == original.id, _IS_GIVEN_BACK)
    left_cents: int = original.amount_cents - sum(refund.amount_cents for refund in refunds)
    return left_cents


def _digest(original_id: str, amount_cents: int | None, reference: str, reason: object = None) -> str:
    content = {"refund_of": original_id, "amount_cents": amount_cents, "reference": reference, "reason": reason}
    return digest_of(content)


def _counted_reference(original: Transaction, number: int) -> str:
    """The reference of a refund by operators, made of the provider reference: it outlasts a restore, an id does not."""
    return f"{OPERATOR_REFUND}{original.provider_reference or original.id}" + (f"-{number}" if number > 1 else "")


def _next_number(original: Transaction) -> int:
    return max((number for _, number in _counted_refunds(original)), default=0) + 1


def _counted_refunds(original: Transaction) -> list[tuple[Transaction, int]]:
    """The refunds of a collection by operators, each with the number in its reference."""
    reference = re.compile(re.escape(_counted_reference(original, 1)) + _LATER_NUMBER)
    refunds = Transaction.select().where(Transaction.refund_of == original.id)
    return [(row, int(match[1] or 1)) for row in refunds if (match := reference.fullmatch(row.reference))]


def _refuse_equal(original: Transaction, amount_cents: int | None) -> None:
    """INVALID_REQUEST when operators have requested a refund of the same amount before."""
    for row, _ in _counted_refunds(original):
        if row.request_digest == _digest(original.id, amount_cents, row.reference):
            raise ServiceError(
                Code.INVALID_REQUEST,
                f"Nothing was done: this refund was made before, by transaction {row.id} ({row.status}). "
                f"For another one of the same amount, give its number: {_next_number(original)}",
            )
