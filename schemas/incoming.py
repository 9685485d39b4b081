"""Payment codes in the API, and what providers send about payments that payers made by themselves (contract 21)."""

from __future__ import annotations

from schemas.fields import Amount, AnySum, Body, Flag, PhoneNumber, Query, Text, Timestamp
from schemas.shared import ACCOUNT_PATTERN, PAGE_CURSOR, PAGE_LIMIT

_LONGEST_TYPED = 160
_TYPED = Text(
    required=True, shortest=0, longest=_LONGEST_TYPED, metadata={"description": "What the payer typed as the reason."}
)


class PutPaymentCodeBody(Body):
    """What a payment code says. A field that is left out has its default."""

    description = Text(required=True, longest=100, metadata={"description": "What is paid with it; payers read it."})
    account = Text(
        longest=13,
        pattern=ACCOUNT_PATTERN,
        metadata={"description": "The account that is credited: `main` (default), or a subscriber's phone number."},
    )
    amount_cents = Amount(
        data_key="amount",
        allow_none=True,
        metadata={"description": "The only amount that is taken, in shillings. Default: any within the bounds."},
    )
    min_amount_cents = Amount(
        data_key="min_amount",
        allow_none=True,
        metadata={"description": "The least amount in shillings. Default: none."},
    )
    max_amount_cents = Amount(
        data_key="max_amount",
        allow_none=True,
        metadata={"description": "The largest amount in shillings. Default: none."},
    )
    expires_at = Timestamp(
        allow_none=True, metadata={"description": "From when payments with it are held. Default: never."}
    )
    single_use = Flag(metadata={"description": "Whether only one payment is taken. Default: false."})


class ListPaymentCodesQuery(Query):
    """The page of a list of payment codes, newest first."""

    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR


class CheckPaymentBody(Body):
    """A provider asks whether a payment would be taken."""

    code = _TYPED
    amount_cents = AnySum(
        data_key="amount", allow_none=True, metadata={"description": "Shillings. Default: any amount."}
    )
    phone_number = PhoneNumber(allow_none=True, metadata={"description": "The payer: `+256` and nine digits."})


class NotifyPaymentBody(Body):
    """A provider reports that a payer has paid. Without an upper bound: money that came must not be refused."""

    provider_transaction_id = Text(
        required=True, longest=48, metadata={"description": "The provider's receipt; each is booked once."}
    )
    code = _TYPED
    amount_cents = AnySum(required=True, data_key="amount", metadata={"description": "Shillings."})
    phone_number = PhoneNumber(required=True, metadata={"description": "The payer: `+256` and nine digits."})
    name = Text(longest=_LONGEST_TYPED, allow_none=True, metadata={"description": "The payer's name."})
    at = Timestamp(required=True, metadata={"description": "When the payer paid."})
