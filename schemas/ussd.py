"""USSD sessions in the API (contract 3.4)."""

from __future__ import annotations

from schemas import fields

_SERVICE_CODE = r"\*[0-9]+(\*[0-9]+)*#"
_LONGEST_CODE = 20
_LONGEST_TEXT = 182
_STATUSES = ("active", "completed", "timed_out", "ended_by_user", "ended_by_client", "invalidated", "failed")


class BeginSessionBody(fields.Body):
    """A request to dial a code. `text` holds further entries, joined by stars."""

    phone_number = fields.REQUIRED_SUBSCRIBER
    service_code = fields.Text(
        "What the phone dials, such as `*165#`.", required=True, longest=_LONGEST_CODE, pattern=_SERVICE_CODE
    )
    network = fields.Text(
        "The mobile network code, such as `64110` for MTN.", longest=10, shortest=0, pattern=r"[0-9A-Za-z_. -]*"
    )
    text = fields.Text(
        "Entries that follow the code, joined by `*`.", longest=_LONGEST_TEXT, shortest=0, is_secret=True
    )


class EnterTextBody(fields.Body):
    """What the subscriber typed."""

    text = fields.Text("What was typed.", required=True, longest=_LONGEST_TEXT, shortest=0, is_secret=True)
    turn = fields.Whole(
        "The number of this entry. The last number again returns the last reply and changes nothing.",
        lowest=0,
        highest=9999,
        allow_none=True,
    )


class ListSessionsQuery(fields.Query):
    """The filters of a list of sessions, newest first."""

    status = fields.ChoiceOf("The status.", _STATUSES)
    phone_number = fields.SUBSCRIBER
    service_code = fields.Text("What the phone dials, such as `*165#`.", longest=_LONGEST_CODE)
    from_at = fields.PERIOD_BEGIN
    to_at = fields.PERIOD_END
    limit = fields.PAGE_LIMIT
    cursor = fields.PAGE_CURSOR
