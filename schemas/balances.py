"""Balances in the API (contract 3.3)."""

from __future__ import annotations

from marshmallow import fields

from schemas.envelopes import Query, Record
from schemas.fields import Amount, PhoneNumber, Timestamp


class GetBalanceQuery(Query):
    """The account whose balance is returned: a subscriber's, or without a phone number the main account."""

    phone_number = PhoneNumber()


class BalanceRecord(Record):
    """A balance in shillings."""

    account = fields.String()
    currency = fields.String()
    current_cents = Amount(data_key="current")
    available_cents = Amount(data_key="available")
    reserved_cents = Amount(data_key="reserved")
    as_of = Timestamp()
