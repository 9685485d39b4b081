"""Payouts in the API (contract 11 and 16)."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validate

from schemas.envelopes import Body, Query, Record
from schemas.fields import Amount, FeeSum, Text, Timestamp, Whole
from schemas.transactions import FailureRecord

_MOST_ITEMS = 5000
_FIELDS = ("phone_number", "amount", "reference", "description", "name")
_STATUSES = ("draft", "approved", "running", "completed", "cancelled")
_STATES = ("ready", "invalid", "queued", "sent", "succeeded", "failed", "cancelled")
_MATCHES = ("same", "similar", "different", "unknown")
_LONGEST_NAME_SHOWN = 64


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

    example = {
        "reference": "salaries-2026-11",
        "description": "Salary of November",
        "items": [
            {"phone_number": "+256770000000", "amount": 450000, "reference": "E-17", "name": "Sarah Namubiru"},
            {"phone_number": "+256770000001", "amount": 380000, "reference": "E-18"},
        ],
    }

    reference = Text(required=True, longest=64)
    description = Text(longest=200, allow_none=True)
    items = PayoutItems(required=True)


class CreatePayoutQuery(Query):
    """With a CSV file: what the file does not say."""

    reference = Text(longest=64)
    description = Text(longest=200)


class ApprovePayoutBody(Body):
    """The fees that the approver saw. The approval is refused if they have changed."""

    example = {"total_fee": 1500}

    total_fee_cents = FeeSum(data_key="total_fee")


class ListPayoutsQuery(Query):
    """The filters of a list of payouts, newest first."""

    status = fields.String(validate=validate.OneOf(_STATUSES))
    reference = Text(longest=64)
    from_at = Timestamp(data_key="from")
    to_at = Timestamp(data_key="to")
    limit = Whole(lowest=1, highest=100)
    cursor = Text(longest=512)


class ListPayoutItemsQuery(Query):
    """The filter of the rows of a payout, in the order of their lines."""

    state = fields.String(validate=validate.OneOf(_STATES))
    limit = Whole(lowest=1, highest=100)
    cursor = Text(longest=512)


class PayoutRecord(Record):
    """A payout."""

    payout_id = fields.String()
    reference = fields.String()
    description = fields.String(allow_none=True)
    status = fields.String(validate=validate.OneOf(_STATUSES))
    item_count = fields.Integer()
    ready_count = fields.Integer()
    invalid_count = fields.Integer()
    succeeded_count = fields.Integer()
    failed_count = fields.Integer()
    queued_count = fields.Integer()
    total_amount_cents = Amount(data_key="total_amount")
    total_fee_cents = Amount(data_key="total_fee")
    created_by = fields.String()
    approved_by = fields.String(allow_none=True)
    created_at = Timestamp()
    approved_at = Timestamp(allow_none=True)
    completed_at = Timestamp(allow_none=True)


class StateSumRecord(Record):
    """The rows of a payout that are in one state."""

    count = fields.Integer()
    amount_cents = Amount(data_key="amount")
    fee_cents = Amount(data_key="fee")


class PayoutStatesRecord(PayoutRecord):
    """A payout with the counts and sums of its rows by state; a state without rows is left out."""

    states = fields.Dict(keys=fields.String(validate=validate.OneOf(_STATES)), values=fields.Nested(StateSumRecord))


class PayoutPageRecord(Record):
    """A page of payouts."""

    items = fields.List(fields.Nested(PayoutRecord))
    next_cursor = fields.String(allow_none=True)


class PayoutItemRecord(Record):
    """A row of a payout."""

    line = fields.Integer()
    phone_number = fields.String(allow_none=True)
    amount_cents = Amount(data_key="amount", allow_none=True)
    fee_cents = Amount(data_key="fee", allow_none=True)
    reference = fields.String(allow_none=True)
    description = fields.String(allow_none=True)
    name = fields.String(allow_none=True)
    name_match = fields.String(allow_none=True, validate=validate.OneOf(_MATCHES))
    state = fields.String(validate=validate.OneOf(_STATES))
    problems = fields.List(fields.String())
    transaction_id = fields.String(allow_none=True)
    failure = fields.Nested(FailureRecord, allow_none=True)


class PayoutItemPageRecord(Record):
    """A page of rows of a payout."""

    items = fields.List(fields.Nested(PayoutItemRecord))
    next_cursor = fields.String(allow_none=True)
