"""Transactions in the API (contract 3.1 and 3.2)."""

from __future__ import annotations

from schemas import fields
from ussd_server.services.transactions.messages import CreateRefund, CreateTransaction

# A row of a payout: the payout's reference, a slash, and the row's.
_LONGEST_STORED_REFERENCE = 2 * fields.LONGEST_REFERENCE + 1
_STATUSES = ("created", "submitted", "pending", "ambiguous", "succeeded", "failed", "reversed")
_TYPES = ("collection", "disbursement", "transfer", "refund", "deposit", "settlement", "correction")


class CreateTransactionBody(fields.Body):
    """A request to move money. The error names the first invalid field: the phone number, then the amount."""

    # As many as metadata of 4,096 characters can have, and some more.
    most_values = 1500

    class Meta(fields.Body.Meta):
        include = fields.fields_of(CreateTransaction)

    phone_number = fields.PhoneNumber(
        "The subscriber. For a transfer: the subscriber whose account is debited.", required=True
    )
    to_phone_number = fields.PhoneNumber("Transfers only: the subscriber whose account is credited.", allow_none=True)
    amount_cents = fields.Amount(
        "Shillings: a number, or a string of digits, with at most two decimals.", required=True, data_key="amount"
    )
    type = fields.ChoiceOf("The type.", ("collection", "disbursement", "transfer"), required=True)
    currency = fields.ChoiceOf("`UGX`.", ("UGX",))
    reference = fields.Reference(fields.REFERENCE, required=True)
    provider = fields.ProviderName("The name of the provider. Default: chosen by the phone number.", allow_none=True)
    account = fields.Text(
        "`main`, or the phone number of a subscriber for whom the client keeps an account here.",
        longest=13,
        pattern=fields.ACCOUNT_PATTERN,
    )


class CreateRefundBody(fields.Body):
    """A request to refund a succeeded collection. Default amount: what has not been refunded yet."""

    class Meta(fields.Body.Meta):
        include = fields.fields_of(CreateRefund)

    amount_cents = fields.Amount(
        "Amount to refund in shillings. Default: what has not been refunded yet.", data_key="amount", allow_none=True
    )
    reference = fields.Reference(fields.REFERENCE, required=True)


class WaitQuery(fields.Query):
    """How many seconds the reply may be held."""

    wait = fields.Whole("Hold the reply for up to this many seconds.", lowest=1, highest=25)


class ListTransactionsQuery(fields.Query):
    """The filters of a list of transactions, newest first."""

    status = fields.ChoiceOf("The status.", _STATUSES)
    type = fields.ChoiceOf("The type.", _TYPES)
    phone_number = fields.SUBSCRIBER
    amount_cents = fields.Amount("The amount in shillings.", data_key="amount")
    reference = fields.Text(fields.REFERENCE, longest=_LONGEST_STORED_REFERENCE)
    provider_transaction_id = fields.Text("The provider's own identifier, once it is known.", longest=80)
    payout_id = fields.Text("The payout that it belongs to; null for none.", longest=36)
    key_id = fields.Text("The id of the API key that made it, or the payout that it belongs to.", longest=36)
    from_at = fields.PERIOD_BEGIN
    to_at = fields.PERIOD_END
    limit = fields.PAGE_LIMIT
    cursor = fields.PAGE_CURSOR


class GetBalanceQuery(fields.Query):
    """The account whose balance is returned: a subscriber's, or without a phone number the main account."""

    phone_number = fields.PhoneNumber("The subscriber whose balance is returned. Default: the main account.")


class GetStatementQuery(fields.Query):
    """The account and the period of a statement, and a page of it."""

    account = fields.Text(
        "`main` (default), or the phone number of a subscriber with an account here.",
        longest=13,
        pattern=fields.ACCOUNT_PATTERN,
    )
    from_at = fields.Timestamp("The beginning of the period, inclusive. Default: the first movement.", data_key="from")
    to_at = fields.Timestamp("The end of the period, exclusive; it may lie ahead. Default: now.", data_key="to")
    limit = fields.PAGE_LIMIT
    cursor = fields.PAGE_CURSOR


class GetDailyReportQuery(fields.Query):
    """The day of a report."""

    date = fields.Day("The day in Kampala. Default: today.")
