"""Payouts in the API (contract 11 and 16)."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validate

from schemas.fields import Body, FeeSum, Query, Text, Timestamp
from schemas.shared import PAGE_CURSOR, PAGE_LIMIT, PERIOD_BEGIN, PERIOD_END, REFERENCE

_MOST_ITEMS = 5000
_FIELDS = ("phone_number", "amount", "reference", "description", "name")
_STATUSES = ("draft", "approved", "running", "completed", "cancelled")
_STATES = ("ready", "invalid", "queued", "sent", "succeeded", "failed", "cancelled")
_LONGEST_NAME_SHOWN = 64


def _send_at(**kwargs: Any) -> Timestamp:
    return Timestamp(
        metadata={
            "description": "Nothing is sent before this time, at most a year ahead. Default: once it is approved."
        },
        **kwargs,
    )


class PayoutItems(fields.Field[tuple[dict[str, Any], ...]]):
    """The rows of a payout: objects with known fields. What each value must be is judged row by row."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> tuple[dict[str, Any], ...]:
        if not isinstance(value, list) or not 0 < len(value) <= _MOST_ITEMS:
            raise ValidationError(f"Must be a list of 1 to {_MOST_ITEMS} rows.")
        for place, item in enumerate(value, 1):
            if not isinstance(item, dict):
                raise ValidationError(f"Row {place}: Must be an object.")
            if unknown := next((name for name in item if name not in _FIELDS), None):
                shown = "".join(letter for letter in unknown if letter.isprintable())[:_LONGEST_NAME_SHOWN]
                raise ValidationError(f"Row {place}, {shown}: Unknown field.")
        return tuple(value)

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field. A row that does not fit is reported as invalid, not refused."""
        text: dict[str, Any] = {"type": "string"}
        row = {
            "type": "object",
            "properties": {
                "phone_number": text | {"description": "`+256` and nine digits."},
                "amount": {"type": ["number", "string"], "description": "Shillings, with at most two decimals."},
                "reference": text | {"description": "The row's name, unique within the payout: 1 to 64 characters."},
                "description": text | {"description": "What the payee reads, at most 200 characters."},
                "name": text | {"description": "The payee's name, compared with the registered one."},
            },
            "required": ["phone_number", "amount", "reference"],
        }
        return {"type": "array", "minItems": 1, "maxItems": _MOST_ITEMS, "items": row}


class CreatePayoutBody(Body):
    """Many disbursements under one reference."""

    takes_files = ("text/csv", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")

    reference = Text(
        required=True,
        longest=64,
        metadata={"description": "The client's own name for the payout. The same content again is the same payout."},
    )
    description = Text(longest=200, allow_none=True, metadata={"description": "A description by the client."})
    send_at = _send_at(allow_none=True)
    items = PayoutItems(
        required=True,
        metadata={"description": "The rows: 1 to 5,000. A row that cannot be sent is reported, not refused."},
    )


class CreatePayoutQuery(Query):
    """With a CSV file: what the file does not say."""

    reference = Text(
        longest=64, metadata={"description": "Required with a file: the client's own name for the payout."}
    )
    description = Text(longest=200, metadata={"description": "A description by the client."})
    send_at = _send_at()


class ApprovePayoutBody(Body):
    """The fees that the approver saw. The approval is refused if they have changed."""

    total_fee_cents = FeeSum(
        data_key="total_fee", metadata={"description": "The fees of the ready rows, in shillings."}
    )


class ListPayoutsQuery(Query):
    """The filters of a list of payouts, newest first."""

    status = fields.String(validate=validate.OneOf(_STATUSES), metadata={"description": "The status."})
    reference = Text(longest=64, metadata=REFERENCE)
    from_at = PERIOD_BEGIN
    to_at = PERIOD_END
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR


class ListPayoutItemsQuery(Query):
    """The filter of the rows of a payout, in the order of their lines."""

    state = fields.String(validate=validate.OneOf(_STATES), metadata={"description": "The state of the row."})
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR


class CopyPayoutBody(Body):
    """The name and the date of a copy."""

    reference = Text(
        required=True,
        longest=64,
        metadata={"description": "The client's own name for the payout. The same content again is the same payout."},
    )
    send_at = _send_at(allow_none=True)
