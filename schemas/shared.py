"""Schemas that several parts of the API have in common."""

from __future__ import annotations

from marshmallow import fields

from schemas.envelopes import Body, Record
from schemas.fields import Timestamp, Whole


class RotateSecretBody(Body):
    """How long the present secret stays valid after the new one is made."""

    example = {"grace_period_seconds": 3600}

    grace_period_seconds = Whole(lowest=0, highest=604_800, load_default=86_400)


class DeletionResultRecord(Record):
    """What was deleted, and when."""

    deleted_id = fields.String()
    deleted_at = Timestamp()
