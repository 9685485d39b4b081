"""The state of the service on the wire (wire contract 8)."""

from __future__ import annotations

from marshmallow import fields

from schemas.envelopes import Record


class LivenessRecord(Record):
    """That the process answers."""

    status = fields.String()


class ReadinessRecord(Record):
    """That calls can be answered, and how the parts are."""

    status = fields.String()
    database = fields.String()
    redis = fields.String()
