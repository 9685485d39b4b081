"""Payouts in the API (contract 11 and 16)."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError

from schemas import fields
from ussd_server.services.payouts.messages import ApprovePayout, CancelPayout
from ussd_server.services.transactions.messages import DESCRIPTION

_MOST_ITEMS = 5000
_LONGEST_NAME_SHOWN = 40
_FIELDS = {
    "phone_number": {"type": "string", "description": "`+256` and nine digits."},
    "amount": {"type": ["number", "string"], "description": "Shillings, with at most two decimals."},
    "reference": {"type": "string", "description": "The row's name, unique within the payout: 1 to 64 characters."},
    "description": {"type": "string", "description": "What the payee reads, at most 200 characters."},
    "name": {"type": "string", "description": "The payee's name, compared with the registered one."},
    "metadata": {
        "type": "object",
        "description": "Texts of the client's own, kept with the row and its transaction.",
        "maxProperties": 10,
        "additionalProperties": {"type": "string", "maxLength": 100},
    },
}
_STATUSES = ("draft", "approved", "running", "completed", "cancelled")
_STATES = ("ready", "invalid", "queued", "sent", "succeeded", "failed", "cancelled")


def _send_at(**kwargs: Any) -> fields.LaterTime:
    return fields.LaterTime(
        "Nothing is sent before this time, at most a year ahead. Default: once it is approved.", **kwargs
    )


class PayoutItems(fields.Field[tuple[dict[str, Any], ...]]):
    """The rows of a payout: objects with known fields. What each value must be is validated row by row."""

    # A row that does not fit is reported as invalid, not refused.
    json_schema = {
        "type": "array",
        "minItems": 1,
        "maxItems": _MOST_ITEMS,
        "items": {
            "type": "object",
            "properties": _FIELDS,
            "required": ["phone_number", "amount", "reference"],
        },
    }

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> tuple[dict[str, Any], ...]:
        if not isinstance(value, list) or not 0 < len(value) <= _MOST_ITEMS:
            raise ValidationError(f"Must be a list of 1 to {_MOST_ITEMS} rows.")
        for place, item in enumerate(value, 1):
            if not isinstance(item, dict):
                raise ValidationError(f"Row {place}: Must be an object.")
            if unknown := next((name for name in item if name not in _FIELDS), None):
                name = unknown if len(unknown) <= _LONGEST_NAME_SHOWN and unknown.isprintable() else "********"
                raise ValidationError(f"Row {place}, {name}: Unknown field.")
        return tuple(value)


class CreatePayoutBody(fields.Body):
    """Many disbursements under one reference."""

    # Each row with its fields, and what is beside the rows.
    most_values = 32_000
    takes_files = ("text/csv", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")

    reference = fields.Reference(
        "The client's own name for the payout. The same content again is the same payout.", required=True
    )
    description = fields.Text("A description by the client.", longest=DESCRIPTION.longest, allow_none=True)
    send_at = _send_at(allow_none=True)
    items = PayoutItems("The rows: 1 to 5,000. A row that cannot be sent is reported, not refused.", required=True)


class CreatePayoutQuery(fields.Query):
    """With a CSV file: what the file does not say."""

    reference = fields.Reference("Required with a file: the client's own name for the payout.")
    description = fields.Text("A description by the client.", longest=DESCRIPTION.longest)
    send_at = _send_at()


class ApprovePayoutBody(fields.Body):
    """The fees that the approver saw, and a note. The approval is refused if they have changed."""

    class Meta(fields.Body.Meta):
        include = fields.fields_of(ApprovePayout)

    round = fields.Whole(
        "The round that is approved. Default: 1; a later one must be named.", lowest=1, highest=1_000_000
    )
    total_fee_cents = fields.FeeSum(
        "The fees of the round's rows, in shillings. They hold until the payout is sent: others make it a draft again.",
        data_key="total_fee",
    )


class CancelPayoutBody(fields.Body):
    """A note about the cancellation."""

    class Meta(fields.Body.Meta):
        include = fields.fields_of(CancelPayout)


class ListPayoutsQuery(fields.Query):
    """The filters of a list of payouts, newest first."""

    status = fields.ChoiceOf("The status.", _STATUSES)
    reference = fields.Text(fields.REFERENCE, longest=fields.LONGEST_REFERENCE)
    from_at = fields.PERIOD_BEGIN
    to_at = fields.PERIOD_END
    limit = fields.PAGE_LIMIT
    cursor = fields.PAGE_CURSOR


class ListPayoutItemsQuery(fields.Query):
    """The filter of the rows of a payout, in the order of their lines."""

    state = fields.ChoiceOf("The state of the row.", _STATES)
    limit = fields.PAGE_LIMIT
    cursor = fields.PAGE_CURSOR


class RetryPayoutBody(fields.Body):
    """Which rows the next round has, and its date."""

    most_values = _MOST_ITEMS + 10

    rows = fields.ListOf(
        "The rows by their references. Default: every row that may be paid again.",
        fields.Reference("The row's own name in the payout."),
        most=_MOST_ITEMS,
        allow_none=True,
    )
    send_at = _send_at(allow_none=True)
