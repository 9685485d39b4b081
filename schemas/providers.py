"""Providers in the API (contract 10)."""

from __future__ import annotations

from marshmallow import fields, validate

from schemas.envelopes import Query, Record
from schemas.fields import Amount, Flag, PhoneNumber, Timestamp, is_provider

_STATUSES = ("available", "degraded", "unavailable", "switched_off")


class BoundsRecord(Record):
    """What a provider moves in one direction."""

    enabled = Flag()
    min_amount_cents = Amount(data_key="min_amount")
    max_amount_cents = Amount(data_key="max_amount")


class ProviderStateRecord(Record):
    """The state of a provider."""

    provider = fields.String(validate=is_provider)
    name = fields.String()
    status = fields.String(validate=validate.OneOf(_STATUSES))
    collections = fields.Nested(BoundsRecord)
    disbursements = fields.Nested(BoundsRecord)
    success_rate = fields.Float(allow_none=True)
    median_seconds = fields.Float(allow_none=True)
    since = Timestamp(allow_none=True)
    message = fields.String()


class OperatorProviderRecord(ProviderStateRecord):
    """The state of a provider as operators see it."""

    float_amount_cents = Amount(data_key="float_amount", allow_none=True)
    float_at = Timestamp(allow_none=True)
    last_error = fields.String(allow_none=True)


class ProvidersRecord(Record):
    """The providers of this server."""

    items = fields.List(fields.Nested(ProviderStateRecord))


class GetSubscriberQuery(Query):
    """The phone number whose subscriber is asked for."""

    example = {"phone_number": "+256772123456"}

    phone_number = PhoneNumber(required=True)


class SubscriberRecord(Record):
    """The subscriber of a phone number; null where the provider has no answer."""

    phone_number = fields.String()
    provider = fields.String(allow_none=True, validate=is_provider)
    name = fields.String(allow_none=True)
    is_registered = fields.Boolean(allow_none=True)
