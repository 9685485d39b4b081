"""The gate for money that arrives: a receipt is claimed here, in the database transaction that books its money.

Locks are taken in one order: our transaction that a provider reported, the claim, the incoming payment, the payer's
payment that is given back, the accounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any

from peewee import fn

from ussd_server.database.tables import CompiledQuery, find_row, lock_row, param
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.logs import Logger
from ussd_server.models.incoming import IncomingPayment
from ussd_server.models.transactions import ReceiptClaim, Transaction
from ussd_server.services.accounts.ledger import (
    AMOUNT,
    FEE,
    FEES_ACCOUNT,
    PROVIDER_ACCOUNT,
    Leg,
    lock_accounts,
    write_entry,
)
from ussd_server.services.incoming.messages import IncomingStatus
from ussd_server.services.transactions.create import Within
from ussd_server.services.transactions.history import append_change
from ussd_server.services.transactions.messages import (
    SUCCESSFUL,
    ChangeDetail,
    Origin,
    Source,
    TransactionStatus,
    TransactionType,
)
from ussd_server.services.transactions.refunds import left_of
from ussd_server.status import Code, ServiceError
from ussd_server.values import canonical_receipt
from ussd_server.wire import columns_of

log = Logger(__name__)

BANK = "bank"
"""The issuer of the bank's references."""

_SAME_RECEIPT = "its receipt is that of transaction {}"
_NO_RECEIPT = "it has no receipt, and transaction {} is by the same payer of the same amount"
_RETURNED = "operators marked the payment of its receipt for return"
# Reviews keep these sentences. Operators who settle a transaction after one of them have said that it is other money.
_CONTESTS = tuple(reason.partition("{}")[0] for reason in (_SAME_RECEIPT, _NO_RECEIPT, _RETURNED))

_CLAIMING = (TransactionType.COLLECTION, TransactionType.REFUND, TransactionType.SETTLEMENT)


class WayIn(StrEnum):
    """A way in which money that moved outside is booked. `tests/gates` tries each pair of them with one receipt."""

    ENQUIRY = "enquiry"
    CALLBACK = "callback"
    REVIEW = "review"
    STATEMENT = "statement"
    NOTICE = "notice"
    ASSIGNMENT = "assignment"
    SAME_PAYMENT = "same payment"
    RECOVERY = "recovery"
    SETTLEMENT = "settlement"


class ClaimOutcome(Enum):
    """What a payment that succeeded does: count, replace a payer's payment of the same money, or await a review."""

    COUNTS = "counts"
    REPLACES = "replaces"
    CONTESTS = "contests"


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """What the gate decided about a payment; `other` has its receipt, `reason` is why operators must review it."""

    decision: ClaimOutcome
    other: Transaction | None = None
    reason: str = ""

    @property
    def counts(self) -> bool:
        """Whether the payment is credited."""
        return self.decision is not ClaimOutcome.CONTESTS


_COUNTS = ClaimResult(ClaimOutcome.COUNTS)
_KEY = (ReceiptClaim.issuer == param(ReceiptClaim.issuer)) & (ReceiptClaim.receipt == param(ReceiptClaim.receipt))
_LOCKED = CompiledQuery(lambda: for_update(ReceiptClaim.select().where(_KEY)))
_INSERT = CompiledQuery(
    lambda: ReceiptClaim.insert(
        {field: param(field) for field in (ReceiptClaim.issuer, ReceiptClaim.receipt, ReceiptClaim.transaction_id)}
    ).on_conflict_ignore()
)


IS_GIVEN_BACK = """(paid.status = 'reversed' AND paid.origin = 'payer' AND EXISTS (
    SELECT 1 FROM transactions AS counted
    WHERE counted.id = paid.same_money_as AND counted.status IN ('succeeded', 'reversed')))"""
"""`is_given_back` in SQL, of a transaction called `paid`."""


def is_given_back(by: datetime | None = None) -> Any:
    """The condition on `Transaction` that it is a payer's payment whose money another one has; `by`: at that moment."""
    counted = Transaction.alias("counted")
    other = counted.select(counted.id).where(counted.id == Transaction.same_money_as, counted.status.in_(SUCCESSFUL))
    if by is not None:
        other = other.where(counted.completed_at <= by)
    return (Transaction.status == TransactionStatus.REVERSED) & (Transaction.origin == Origin.PAYER) & fn.EXISTS(other)


def counts_elsewhere() -> Any:
    """The condition on `Transaction` that its money counts as that of the transaction in `same_money_as`."""
    return Transaction.same_money_as.is_null(False) & (
        is_given_back() | (Transaction.status == TransactionStatus.FAILED)
    )


def lock_receipt(issuer: str, written: str) -> ReceiptClaim:
    """The claim of a receipt, locked until the unit of work ends; made without a payment if there is none.

    For the second receipt of a payment, the claim of the payment.
    """
    key = {"issuer": issuer, "receipt": canonical_receipt(written)}
    _INSERT.run(**key, transaction_id=None)
    claim: ReceiptClaim = _LOCKED.first(ReceiptClaim, **key)
    if claim.second_of is None:
        return claim
    first = for_update(ReceiptClaim.select().where(ReceiptClaim.transaction_id == claim.second_of)).first()
    return first or claim


def lock_receipts(issuer: str, written: Iterable[str]) -> None:
    """Lock the claims of several receipts in one order. Call before anything else of them is locked."""
    for receipt in sorted(set(map(canonical_receipt, written)) - {""}):
        lock_receipt(issuer, receipt)


def update_claim(claim: ReceiptClaim, **columns: str) -> None:
    """Set the transaction or the incoming payment of a locked claim."""
    columns_of(claim).update(columns)
    ReceiptClaim.update(**columns).where(
        ReceiptClaim.issuer == claim.issuer, ReceiptClaim.receipt == claim.receipt
    ).execute()


def claiming(way: WayIn, within: Within) -> Within:
    """Extend `within`, the unit of work of a new transaction, so that it also claims the transaction's receipt.

    It raises INVALID_REQUEST, which names the other transaction, if the receipt was booked before.
    """

    @contextmanager
    def within_claim(row: Transaction) -> Iterator[None]:
        with unit_of_work():
            receipt = _receipt_of(row)
            claim = lock_receipt(_issuer_of(row), receipt) if receipt else None
            if claim and claim.transaction_id:
                other = find_row(Transaction, claim.transaction_id)
                if not _decide(row, other, way, is_new=True).counts:
                    raise ServiceError(Code.INVALID_REQUEST, f"The receipt is that of transaction {other.id}")
            elif claim and _is_returned(claim):
                raise ServiceError(Code.INVALID_REQUEST, "Operators marked the payment of this receipt for return")
            with within(row):
                yield
            if claim and claim.transaction_id is None:
                update_claim(claim, transaction_id=row.id)
                if row.origin != Origin.PAYER:
                    _end_hold(claim, row, row.created_at)

    return within_claim


def claim_success(row: Transaction, way: WayIn, now: datetime) -> ClaimResult:
    """Claim the receipt of a transaction that succeeded, and decide whether it counts.

    Call inside a unit of work with the row locked, before any other lock.
    """
    if row.type not in _CLAIMING:
        return _COUNTS
    receipt, issuer = _receipt_of(row), _issuer_of(row)
    if way is WayIn.REVIEW and has_contest(row):
        if receipt:
            # No receipt has a space in this form.
            _INSERT.run(issuer=issuer, receipt=f"{receipt} {row.id}", transaction_id=row.id)
        return _COUNTS
    if not receipt:
        # Once contested, a payment stays so until operators decide, whatever happens to the other payment.
        other = find_row(Transaction, row.contested_id) if row.contested_id else _payers_payment_like(row)
        return _decide(row, other, way)
    receipts = sorted({receipt, canonical_receipt(row.provider_receipt or "") or receipt})
    if len(receipts) == 1 and _INSERT.run(issuer=issuer, receipt=receipt, transaction_id=row.id):
        return _COUNTS
    return _claim_all(row, [lock_receipt(issuer, each) for each in receipts], way, now)


def _claim_all(row: Transaction, claims: Sequence[ReceiptClaim], way: WayIn, now: datetime) -> ClaimResult:
    """Claim the receipts of a payment, whose claims are locked, unless other money has one of them."""
    result = _COUNTS
    for claim in claims:
        if claim.transaction_id is not None:
            decided = _decide(row, find_row(Transaction, claim.transaction_id), way)
            if result.other and decided.other and result.other.id != decided.other.id:
                return _contested(row, decided.other, _SAME_RECEIPT.format(decided.other.id), way)
            result = decided if decided.other else result
        elif _is_returned(claim):
            result = _contested(row, None, _RETURNED, way)
        if not result.counts:
            return result
    # The claim of a payment that is given back becomes its own.
    has_claim = result.other is not None or any(claim.transaction_id == row.id for claim in claims)
    for claim in claims:
        if claim.transaction_id is None:
            update_claim(claim, **{"second_of" if has_claim else "transaction_id": row.id})
            has_claim = True
            _end_hold(claim, row, now)
    return result


def _is_returned(claim: ReceiptClaim) -> bool:
    """Whether operators marked the incoming payment of a locked claim for return."""
    returned = (IncomingPayment.id == claim.incoming_id) & (IncomingPayment.status == IncomingStatus.RETURNED)
    return claim.incoming_id is not None and bool(IncomingPayment.select().where(returned).exists())


def conflict_of(collection: Transaction, claim: ReceiptClaim) -> str | None:
    """Why a receipt that a succeeded collection learns late must be reviewed; None where it may take it."""
    if claim.transaction_id not in (None, collection.id):
        return _SAME_RECEIPT.format(claim.transaction_id)
    return _RETURNED if _is_returned(claim) else None


def take_receipt(collection: Transaction, claim: ReceiptClaim, written: str, way: WayIn, now: datetime) -> bool:
    """Give a free receipt to a locked collection that succeeded without one. Returns whether it was given."""
    has_receipt = collection.provider_transaction_id is not None or claim.transaction_id is not None
    if has_receipt or collection.status not in SUCCESSFUL or collection.type != TransactionType.COLLECTION:
        return False
    collection.provider_transaction_id, collection.updated_at = written, now
    collection.save(only=[Transaction.provider_transaction_id, Transaction.updated_at])
    update_claim(claim, transaction_id=collection.id)
    log.info("a collection was given its receipt", way=way.value, transaction_id=collection.id)
    return True


def give_back(payers: Transaction, counted: Transaction, source: Source, now: datetime) -> None:
    """Reverse a payer's payment, because `counted` has its money and is saved. Call within the same unit of work."""
    provider = PROVIDER_ACCOUNT.format(payers.provider)
    legs = [Leg("move", AMOUNT, payers.account, provider, payers.amount_cents)]
    if payers.fee_cents:
        # Return the fee first: the account may have no more than the amount less the fee.
        legs.insert(0, Leg("move", FEE, FEES_ACCOUNT, payers.account, payers.fee_cents))
    write_entry(payers.client_id, payers.id, legs, now)
    payers.status, payers.same_money_as, payers.updated_at = TransactionStatus.REVERSED, counted.id, now
    payers.save(only=[Transaction.status, Transaction.same_money_as, Transaction.updated_at])
    append_change(payers, source, now, ChangeDetail(note=f"It is the same money as transaction {counted.id}"))
    ReceiptClaim.update(transaction_id=counted.id).where(ReceiptClaim.transaction_id == payers.id).execute()


def mark_as_same_money(row: Transaction, now: datetime) -> None:
    """Mark a contested transaction and the other one as the same money, as operators decided, if one client has both.

    The caller saves the row.
    """
    if row.contested_id is None or not has_contest(row):
        return
    other = lock_row(Transaction, row.contested_id)
    if other.client_id == row.client_id:
        row.same_money_as, other.same_money_as, other.updated_at = other.id, row.id, now
        other.save(only=[Transaction.same_money_as, Transaction.updated_at])


def _decide(row: Transaction, other: Transaction | None, way: WayIn, *, is_new: bool = False) -> ClaimResult:
    """Decide about a payment whose money another one may have. Nothing else decides this."""
    if other is None or other.id in (row.id, row.refund_of):
        # Airtel gives a refund the receipt of its collection.
        return ClaimResult(ClaimOutcome.COUNTS)
    if row.status == TransactionStatus.FAILED and row.contested_id == other.id and not has_contest(row):
        # Operators have found both to be the same money.
        return ClaimResult(ClaimOutcome.CONTESTS, other)
    if not is_new and _receipt_of(row) and _can_be_given_back(other, row):
        return ClaimResult(ClaimOutcome.REPLACES, lock_row(Transaction, other.id))
    reason = _SAME_RECEIPT if _receipt_of(row) else _NO_RECEIPT
    return _contested(row, other, reason.format(other.id), way)


def _contested(row: Transaction, other: Transaction | None, reason: str, way: WayIn) -> ClaimResult:
    log.warning("a receipt is contested", way=way.value, transaction_id=row.id, other_id=other.id if other else None)
    return ClaimResult(ClaimOutcome.CONTESTS, other, reason)


def _can_be_given_back(payers: Transaction, row: Transaction) -> bool:
    """Whether a payment is a payer's, of the same client and amount, whole, and its account can give it back."""
    if payers.origin != Origin.PAYER or row.type != TransactionType.COLLECTION:
        return False
    if payers.client_id != row.client_id or payers.amount_cents != row.amount_cents:
        return False
    payers = lock_row(Transaction, payers.id)
    if payers.status != TransactionStatus.SUCCEEDED or left_of(payers) != payers.amount_cents:
        return False
    names = {payers.account, row.account, FEES_ACCOUNT, PROVIDER_ACCOUNT.format(row.provider)}
    cents = lock_accounts(row.client_id, names)
    for account, moved in (
        (row.account, row.amount_cents - row.fee_cents),
        (payers.account, payers.fee_cents - payers.amount_cents),
        (FEES_ACCOUNT, row.fee_cents - payers.fee_cents),
    ):
        cents[account] = cents.get(account, 0) + moved
    return all(cents[name] >= 0 for name in (payers.account, FEES_ACCOUNT))


def _payers_payment_like(row: Transaction) -> Transaction | None:
    """The first payer's payment with a collection's phone number, amount and provider, booked after its creation."""
    if row.type != TransactionType.COLLECTION:
        return None
    rows: Any = (
        Transaction.select()
        .join(IncomingPayment, on=(IncomingPayment.transaction_id == Transaction.id))
        .where(
            IncomingPayment.phone_number == row.phone_number,
            IncomingPayment.provider == row.provider,
            IncomingPayment.amount_cents == row.amount_cents,
            Transaction.origin == Origin.PAYER,
            Transaction.status == TransactionStatus.SUCCEEDED,
            Transaction.same_money_as.is_null(),
            Transaction.created_at >= row.created_at,
        )
        .order_by(Transaction.id)
    )
    payers_payment: Transaction | None = rows.first()
    return payers_payment


def _end_hold(claim: ReceiptClaim, row: Transaction, now: datetime) -> None:
    """Set the held payment of a claimed receipt to booked, by this transaction; one of another amount stays held.

    So does the second one, where both receipts of a payment were reported before it succeeded; it waits no longer.
    """
    if claim.incoming_id is None:
        return
    booked = {"status": IncomingStatus.BOOKED, "transaction_id": row.id}
    if IncomingPayment.select().where(IncomingPayment.transaction_id == row.id).exists():
        booked = {"held_because": f"It is transaction {row.id}, which was reported under another receipt, too"}
    IncomingPayment.update(**booked, waits_for=None, updated_at=now).where(
        IncomingPayment.id == claim.incoming_id,
        IncomingPayment.amount_cents == row.amount_cents,
        IncomingPayment.status == IncomingStatus.HELD,
    ).execute()


def has_contest(row: Transaction) -> bool:
    """Whether a review is open because another payment may have the money of a transaction."""
    return row.is_in_review and str(row.review_reason).startswith(_CONTESTS)


def _receipt_of(row: Transaction) -> str:
    return canonical_receipt(row.provider_transaction_id or "") if row.type in _CLAIMING else ""


def _issuer_of(row: Transaction) -> str:
    return BANK if row.type == TransactionType.SETTLEMENT else str(row.provider)
