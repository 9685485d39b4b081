"""Transactions in the API (contract 3.1 and 3.2)."""

from __future__ import annotations

from schemas.fields import (
    ACCOUNT_PATTERN,
    LONGEST_REFERENCE,
    PAGE_CURSOR,
    PAGE_LIMIT,
    PERIOD_BEGIN,
    PERIOD_END,
    REFERENCE,
    SUBSCRIBER,
    Amount,
    Body,
    ChoiceOf,
    Day,
    PhoneNumber,
    ProviderName,
    Query,
    Reference,
    Text,
    Timestamp,
    Whole,
    fields_of,
)
from ussd_server.services.transactions.messages import CreateRefund, CreateTransaction

# A row of a payout: the payout's reference, a slash, and the row's.
_LONGEST_STORED_REFERENCE = 2 * LONGEST_REFERENCE + 1
_STATUSES = ("created", "submitted", "pending", "ambiguous", "succeeded", "failed", "reversed")
_TYPES = ("collection", "disbursement", "transfer", "refund", "deposit", "settlement")


class CreateTransactionBody(Body):
    """A request to move money. The error names the first invalid field: the phone number, then the amount."""

    # As many as metadata of 4,096 characters can have, and some more.
    most_values = 1500

    class Meta(Body.Meta):
        include = fields_of(CreateTransaction)

    phone_number = PhoneNumber(
        "The subscriber. For a transfer: the subscriber whose account is debited.", required=True
    )
    to_phone_number = PhoneNumber("Transfers only: the subscriber whose account is credited.", allow_none=True)
    amount_cents = Amount(
        "Shillings: a number, or a string of digits, with at most two decimals.", required=True, data_key="amount"
    )
    type = ChoiceOf("The type.", ("collection", "disbursement", "transfer"), required=True)
    currency = ChoiceOf("`UGX`.", ("UGX",))
    reference = Reference(REFERENCE, required=True)
    provider = ProviderName("The name of the provider. Default: chosen by the phone number.", allow_none=True)
    account = Text(
        "`main`, or the phone number of a subscriber for whom the client keeps an account here.",
        longest=13,
        pattern=ACCOUNT_PATTERN,
    )


class CreateRefundBody(Body):
    """A request to refund a succeeded collection. Default amount: what has not been refunded yet."""

    class Meta(Body.Meta):
        include = fields_of(CreateRefund)

    amount_cents = Amount(
        "Amount to refund in shillings. Default: what has not been refunded yet.", data_key="amount", allow_none=True
    )
    reference = Reference(REFERENCE, required=True)


class WaitQuery(Query):
    """How many seconds the reply may be held."""

    wait = Whole("Hold the reply for up to this many seconds.", lowest=1, highest=25)


class ListTransactionsQuery(Query):
    """The filters of a list of transactions, newest first."""

    status = ChoiceOf("The status.", _STATUSES)
    type = ChoiceOf("The type.", _TYPES)
    phone_number = SUBSCRIBER
    reference = Text(REFERENCE, longest=_LONGEST_STORED_REFERENCE)
    provider_transaction_id = Text("The provider's own identifier, once it is known.", longest=80)
    payout_id = Text("The payout that it belongs to; null for none.", longest=36)
    key_id = Text("The id of the API key that made it, or the payout that it belongs to.", longest=36)
    from_at = PERIOD_BEGIN
    to_at = PERIOD_END
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR


class GetBalanceQuery(Query):
    """The account whose balance is returned: a subscriber's, or without a phone number the main account."""

    phone_number = PhoneNumber("The subscriber whose balance is returned. Default: the main account.")


class GetStatementQuery(Query):
    """The account and the period of a statement, and a page of it."""

    account = Text(
        "`main` (default), or the phone number of a subscriber with an account here.",
        longest=13,
        pattern=ACCOUNT_PATTERN,
    )
    from_at = Timestamp("The beginning of the period, inclusive. Default: the first movement.", data_key="from")
    to_at = Timestamp("The end of the period, exclusive; it may lie ahead. Default: now.", data_key="to")
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR


class GetDailyReportQuery(Query):
    """The day of a report."""

    date = Day("The day in Kampala. Default: today.")
