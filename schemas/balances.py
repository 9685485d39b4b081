"""Balances in the API (contract 3.3)."""

from __future__ import annotations

from schemas.envelopes import Query
from schemas.fields import PhoneNumber


class GetBalanceQuery(Query):
    """The account whose balance is returned: a subscriber's, or without a phone number the main account."""

    phone_number = PhoneNumber(
        metadata={"description": "The subscriber whose balance is returned. Default: the main account."}
    )
