"""Transactions in the API (contract 3.1 and 3.2)."""

from __future__ import annotations

from marshmallow import fields, validate

from schemas.fields import Amount, Body, Day, JsonObject, PhoneNumber, ProviderName, Query, Text, Timestamp, Whole
from schemas.shared import (
    ACCOUNT_PATTERN,
    PAGE_CURSOR,
    PAGE_LIMIT,
    PERIOD_BEGIN,
    PERIOD_END,
    REFERENCE,
    SUBSCRIBER,
)

_LONGEST_REFERENCE = 64
# A row of a payout: the payout's reference, a slash, and the row's.
_LONGEST_STORED_REFERENCE = 2 * _LONGEST_REFERENCE + 1
_STATUSES = ("created", "submitted", "pending", "ambiguous", "succeeded", "failed", "reversed")
_TYPES = ("collection", "disbursement", "transfer", "refund", "deposit", "settlement")


class CreateTransactionBody(Body):
    """A request to move money. The error names the first invalid field: the phone number, then the amount."""

    phone_number = PhoneNumber(
        required=True,
        metadata={"description": "The subscriber. For a transfer: the subscriber whose account is debited."},
    )
    to_phone_number = PhoneNumber(
        allow_none=True, metadata={"description": "Transfers only: the subscriber whose account is credited."}
    )
    amount_cents = Amount(
        required=True,
        data_key="amount",
        metadata={"description": "Shillings: a number, or a string of digits, with at most two decimals."},
    )
    type = fields.String(
        required=True,
        validate=validate.OneOf(("collection", "disbursement", "transfer")),
        metadata={"description": "The type."},
    )
    currency = fields.String(validate=validate.OneOf(("UGX",)), metadata={"description": "`UGX`."})
    reference = Text(required=True, longest=_LONGEST_REFERENCE, metadata=REFERENCE)
    provider = ProviderName(
        allow_none=True,
        metadata={"description": "The name of the provider. Default: chosen by the phone number."},
    )
    account = Text(
        longest=13,
        pattern=ACCOUNT_PATTERN,
        metadata={
            "description": "`main`, or the phone number of a subscriber for whom the client keeps an account here."
        },
    )
    description = Text(longest=200, allow_none=True, metadata={"description": "A description by the client."})
    metadata = JsonObject(
        longest=4096, allow_none=True, metadata={"description": "A JSON object by the client; stored and returned."}
    )
    callback_url = Text(
        longest=2048,
        pattern=r"https?://[!-~]+",
        allow_none=True,
        metadata={"description": "Where this transaction's events are sent, beside the client's webhooks."},
    )


class CreateRefundBody(Body):
    """A request to refund a succeeded collection. Default amount: what has not been refunded yet."""

    amount_cents = Amount(
        data_key="amount",
        allow_none=True,
        metadata={"description": "Amount to refund in shillings. Default: what has not been refunded yet."},
    )
    reference = Text(required=True, longest=_LONGEST_REFERENCE, metadata=REFERENCE)
    reason = Text(
        longest=200,
        allow_none=True,
        metadata={"description": "Why; it becomes the refund's `description`, and stands in the audit trail."},
    )


class WaitQuery(Query):
    """How many seconds the reply may be held."""

    wait = Whole(lowest=1, highest=25, metadata={"description": "Hold the reply for up to this many seconds."})


class ListTransactionsQuery(Query):
    """The filters of a list of transactions, newest first."""

    status = fields.String(validate=validate.OneOf(_STATUSES), metadata={"description": "The status."})
    type = fields.String(validate=validate.OneOf(_TYPES), metadata={"description": "The type."})
    phone_number = SUBSCRIBER
    reference = Text(longest=_LONGEST_STORED_REFERENCE, metadata=REFERENCE)
    provider_transaction_id = Text(
        longest=80, metadata={"description": "The provider's own identifier, once it is known."}
    )
    payout_id = Text(longest=36, metadata={"description": "The payout that it belongs to; null for none."})
    from_at = PERIOD_BEGIN
    to_at = PERIOD_END
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR


class GetBalanceQuery(Query):
    """The account whose balance is returned: a subscriber's, or without a phone number the main account."""

    phone_number = PhoneNumber(
        metadata={"description": "The subscriber whose balance is returned. Default: the main account."}
    )


class GetStatementQuery(Query):
    """The account and the period of a statement, and a page of it."""

    account = Text(
        longest=13,
        pattern=ACCOUNT_PATTERN,
        metadata={"description": "`main` (default), or the phone number of a subscriber with an account here."},
    )
    from_at = Timestamp(
        data_key="from",
        metadata={"description": "The beginning of the period, inclusive. Default: the first movement."},
    )
    to_at = Timestamp(
        data_key="to", metadata={"description": "The end of the period, exclusive; it may lie ahead. Default: now."}
    )
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR


class GetDailyReportQuery(Query):
    """The day of a report."""

    date = Day(metadata={"description": "The day in Kampala. Default: today."})
