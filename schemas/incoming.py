"""Payment codes in the API, and what providers send about payments that payers made by themselves (contract 21)."""

from __future__ import annotations

from schemas.fields import (
    ACCOUNT_PATTERN,
    PAGE_CURSOR,
    PAGE_LIMIT,
    Amount,
    AnySum,
    Body,
    Flag,
    PhoneNumber,
    Query,
    Text,
    Timestamp,
)

_LONGEST_TYPED = 160
_TYPED = Text("What the payer typed as the reason.", required=True, shortest=0, longest=_LONGEST_TYPED)


class PutPaymentCodeBody(Body):
    """What a payment code says. A field that is left out has its default."""

    description = Text("What is paid with it; payers read it.", required=True, longest=100)
    account = Text(
        "The account that is credited: `main` (default), or a subscriber's phone number.",
        longest=13,
        pattern=ACCOUNT_PATTERN,
    )
    amount_cents = Amount(
        "The only amount that is taken, in shillings. Default: any within the bounds.",
        data_key="amount",
        allow_none=True,
    )
    min_amount_cents = Amount("The least amount in shillings. Default: none.", data_key="min_amount", allow_none=True)
    max_amount_cents = Amount("The largest amount in shillings. Default: none.", data_key="max_amount", allow_none=True)
    expires_at = Timestamp("From when payments with it are held. Default: never.", allow_none=True)
    single_use = Flag("Whether only one payment is taken. Default: false.")


class ListPaymentCodesQuery(Query):
    """The page of a list of payment codes, newest first."""

    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR


class CheckPaymentBody(Body):
    """A provider asks whether a payment would be taken."""

    code = _TYPED
    amount_cents = AnySum("Shillings. Default: any amount.", data_key="amount", allow_none=True)
    phone_number = PhoneNumber("The payer: `+256` and nine digits.", allow_none=True)


class NotifyPaymentBody(Body):
    """A provider reports that a payer has paid. Without an upper bound: money that came must not be refused."""

    provider_transaction_id = Text("The provider's receipt; each is booked once.", required=True, longest=48)
    code = _TYPED
    amount_cents = AnySum("Shillings.", required=True, data_key="amount")
    phone_number = PhoneNumber("The payer: `+256` and nine digits.", required=True)
    name = Text("The payer's name.", longest=_LONGEST_TYPED, allow_none=True)
    at = Timestamp("When the payer paid.", required=True)
