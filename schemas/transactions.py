"""Transactions in the API (contract 3.1 and 3.2)."""

from __future__ import annotations

from marshmallow import fields, validate

from schemas.envelopes import Body, Query, Record, SparseRecord
from schemas.fields import (
    Amount,
    Flag,
    JsonObject,
    PhoneNumber,
    ProviderName,
    SignedAmount,
    Text,
    Timestamp,
    Whole,
    is_provider,
)

_LONGEST_REFERENCE = 64
# A row of a payout: the payout's reference, a slash, and the row's.
_LONGEST_STORED_REFERENCE = 2 * _LONGEST_REFERENCE + 1
_STATUSES = ("created", "submitted", "pending", "ambiguous", "succeeded", "failed", "reversed")
_TYPES = ("collection", "disbursement", "transfer", "refund", "deposit")


class CreateTransactionBody(Body):
    """A request to move money. The error names the first invalid field: the phone number, then the amount."""

    example = {
        "type": "collection",
        "phone_number": "+256770000000",
        "amount": 5000,
        "reference": "order-1001",
        "description": "Order 1001",
        "metadata": {"basket": 17},
    }

    phone_number = PhoneNumber(required=True)
    to_phone_number = PhoneNumber(allow_none=True)
    amount_cents = Amount(required=True, data_key="amount")
    type = fields.String(required=True, validate=validate.OneOf(("collection", "disbursement", "transfer")))
    currency = fields.String(validate=validate.OneOf(("UGX",)))
    reference = Text(required=True, longest=_LONGEST_REFERENCE)
    provider = ProviderName(allow_none=True)
    account = Text(longest=13, pattern=r"main|\+256[0-9]{9}")
    description = Text(longest=200, allow_none=True)
    metadata = JsonObject(longest=4096, allow_none=True)
    callback_url = Text(longest=2048, pattern=r"https?://[!-~]+", allow_none=True)


class CreateRefundBody(Body):
    """A request to refund a succeeded collection. Default amount: what has not been refunded yet."""

    example = {"amount": 1500, "reference": "order-1001-refund", "reason": "Delivered too late"}

    amount_cents = Amount(data_key="amount", allow_none=True)
    reference = Text(required=True, longest=_LONGEST_REFERENCE)
    reason = Text(longest=200, allow_none=True)


class WaitQuery(Query):
    """How many seconds the reply may be held."""

    wait = Whole(lowest=1, highest=25)


class ListTransactionsQuery(Query):
    """The filters of a list of transactions, newest first."""

    status = fields.String(validate=validate.OneOf(_STATUSES))
    type = fields.String(validate=validate.OneOf(_TYPES))
    phone_number = PhoneNumber()
    reference = Text(longest=_LONGEST_STORED_REFERENCE)
    provider_transaction_id = Text(longest=80)
    payout_id = Text(longest=36)
    from_at = Timestamp(data_key="from")
    to_at = Timestamp(data_key="to")
    limit = Whole(lowest=1, highest=100)
    cursor = Text(longest=512)


class FailureRecord(Record):
    """Why a transaction failed."""

    code = fields.String()
    message = fields.String()
    fault = fields.String()
    retry = fields.String()


class TransactionRecord(Record):
    """A transaction, the same in every reply."""

    transaction_id = fields.String()
    reference = fields.String()
    type = fields.String(validate=validate.OneOf(_TYPES))
    phone_number = fields.String(allow_none=True)
    to_phone_number = fields.String(allow_none=True)
    amount_cents = Amount(data_key="amount")
    fee_cents = Amount(data_key="fee")
    currency = fields.String()
    account = fields.String()
    provider = fields.String(allow_none=True, validate=is_provider)
    provider_reference = fields.String(allow_none=True)
    provider_transaction_id = fields.String(allow_none=True)
    status = fields.String(validate=validate.OneOf(_STATUSES))
    failure = fields.Nested(FailureRecord, allow_none=True)
    late = fields.Boolean()
    session_id = fields.String(allow_none=True)
    description = fields.String(allow_none=True)
    metadata = fields.Dict(allow_none=True)
    created_at = Timestamp()
    updated_at = Timestamp()
    completed_at = Timestamp(allow_none=True)
    next_check_at = Timestamp(allow_none=True)
    refund_of = fields.String(allow_none=True)
    refunded_amount_cents = Amount(data_key="refunded_amount")
    payout_id = fields.String(allow_none=True)


class ChangeDetailRecord(SparseRecord):
    """What is known about the call to the provider that a status change followed."""

    attempt = Whole(lowest=0, highest=1_000_000)
    sent = fields.String()
    left_machine = Flag()
    provider_code = fields.String()
    code = fields.String()
    took_ms = Whole(lowest=0, highest=1_000_000_000)
    note = fields.String()


class LedgerEntryRecord(Record):
    """One entry in the ledger: positive for what an account received, negative for what it gave."""

    account = fields.String()
    amount_cents = SignedAmount(data_key="amount")
    purpose = fields.String(
        validate=validate.OneOf(("amount", "fee", "amount_reserved", "fee_reserved", "amount_released", "fee_released"))
    )


class TransactionChangeRecord(Record):
    """One change in the status history of a transaction."""

    status = fields.String(validate=validate.OneOf(_STATUSES))
    source = fields.String()
    detail = fields.Nested(ChangeDetailRecord)
    ledger = fields.List(fields.Nested(LedgerEntryRecord))
    created_at = Timestamp()


class TransactionHistoryRecord(TransactionRecord):
    """A transaction with its status history, and a sentence about where its money is."""

    explanation = fields.String()
    events = fields.List(fields.Nested(TransactionChangeRecord))


class TransactionPageRecord(Record):
    """A page of transactions."""

    items = fields.List(fields.Nested(TransactionRecord))
    next_cursor = fields.String(allow_none=True)
