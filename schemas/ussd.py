"""USSD sessions in the API (contract 3.4)."""

from __future__ import annotations

from marshmallow import fields, validate

from schemas.envelopes import Body, Query, Record
from schemas.fields import PhoneNumber, Text, Timestamp, Whole

_SERVICE_CODE = r"\*[0-9]+(\*[0-9]+)*#"
_LONGEST_CODE = 20
_LONGEST_TEXT = 182
_STATUSES = ("active", "completed", "timed_out", "ended_by_user", "ended_by_client", "invalidated", "failed")


class BeginSessionBody(Body):
    """A request to dial a code. `text` holds further entries, joined by stars."""

    example = {"phone_number": "+256770000000", "service_code": "*165#", "network": "64110"}

    phone_number = PhoneNumber(required=True)
    service_code = Text(required=True, longest=_LONGEST_CODE, pattern=_SERVICE_CODE)
    network = Text(longest=10, shortest=0, pattern=r"[0-9A-Za-z_. -]*")
    text = Text(longest=_LONGEST_TEXT, shortest=0)


class EnterTextBody(Body):
    """What the subscriber typed."""

    example = {"text": "1", "turn": 1}

    text = Text(required=True, longest=_LONGEST_TEXT, shortest=0)
    turn = Whole(lowest=0, highest=9999, allow_none=True)


class ListSessionsQuery(Query):
    """The filters of a list of sessions, newest first."""

    status = fields.String(validate=validate.OneOf(_STATUSES))
    phone_number = PhoneNumber()
    service_code = Text(longest=_LONGEST_CODE)
    from_at = Timestamp(data_key="from")
    to_at = Timestamp(data_key="to")
    limit = Whole(lowest=1, highest=100)
    cursor = Text(longest=512)


class TurnRecord(Record):
    """One turn of a transcript; a secret entry is shown as stars."""

    turn = fields.Integer()
    entry = fields.String()
    screen = fields.String()
    node = fields.String()
    septets = fields.Integer()
    took_ms = fields.Integer()
    at = Timestamp()


class SessionRecord(Record):
    """A session, the same in every reply."""

    session_id = fields.String()
    phone_number = fields.String()
    service_code = fields.String()
    network = fields.String(allow_none=True)
    status = fields.String(validate=validate.OneOf(_STATUSES))
    end_reason = fields.String(allow_none=True)
    action = fields.String(validate=validate.OneOf(("continue", "end")))
    message = fields.String()
    menu_id = fields.String()
    menu_version = fields.Integer()
    node = fields.String()
    language = fields.String()
    turn = fields.Integer()
    transaction_id = fields.String(allow_none=True)
    created_at = Timestamp()
    last_seen_at = Timestamp()
    expires_at = Timestamp()
    ended_at = Timestamp(allow_none=True)


class SessionTranscriptRecord(SessionRecord):
    """A session with its transcript."""

    transcript = fields.List(fields.Nested(TurnRecord()))


class SessionPageRecord(Record):
    """A page of sessions."""

    items = fields.List(fields.Nested(SessionRecord()))
    next_cursor = fields.String(allow_none=True)
