"""USSD sessions in the API (contract 3.4)."""

from __future__ import annotations

from marshmallow import fields, validate

from schemas.fields import Body, Query, Text, Whole
from schemas.shared import PAGE_CURSOR, PAGE_LIMIT, PERIOD_BEGIN, PERIOD_END, REQUIRED_SUBSCRIBER, SUBSCRIBER

_SERVICE_CODE = r"\*[0-9]+(\*[0-9]+)*#"
_LONGEST_CODE = 20
_LONGEST_TEXT = 182
_STATUSES = ("active", "completed", "timed_out", "ended_by_user", "ended_by_client", "invalidated", "failed")


class BeginSessionBody(Body):
    """A request to dial a code. `text` holds further entries, joined by stars."""

    phone_number = REQUIRED_SUBSCRIBER
    service_code = Text(
        required=True,
        longest=_LONGEST_CODE,
        pattern=_SERVICE_CODE,
        metadata={"description": "What the phone dials, such as `*165#`."},
    )
    network = Text(
        longest=10,
        shortest=0,
        pattern=r"[0-9A-Za-z_. -]*",
        metadata={"description": "The mobile network code, such as `64110` for MTN."},
    )
    text = Text(
        longest=_LONGEST_TEXT, shortest=0, metadata={"description": "Entries that follow the code, joined by `*`."}
    )


class EnterTextBody(Body):
    """What the subscriber typed."""

    text = Text(required=True, longest=_LONGEST_TEXT, shortest=0, metadata={"description": "What was typed."})
    turn = Whole(
        lowest=0,
        highest=9999,
        allow_none=True,
        metadata={
            "description": "The number of this entry. The last number again returns the last reply and changes nothing."
        },
    )


class ListSessionsQuery(Query):
    """The filters of a list of sessions, newest first."""

    status = fields.String(validate=validate.OneOf(_STATUSES), metadata={"description": "The status."})
    phone_number = SUBSCRIBER
    service_code = Text(longest=_LONGEST_CODE, metadata={"description": "What the phone dials, such as `*165#`."})
    from_at = PERIOD_BEGIN
    to_at = PERIOD_END
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR
