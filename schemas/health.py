"""The state of the service in the API (contract 8)."""

from __future__ import annotations

from marshmallow import fields

from schemas.envelopes import Record


class HealthRecord(Record):
    """The process is alive."""

    status = fields.String()


class ReadinessRecord(HealthRecord):
    """The service is ready, with the state of its parts."""

    database = fields.String()
    redis = fields.String()
