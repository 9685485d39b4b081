"""Statements and reports in the API (contract 12)."""

from __future__ import annotations

from marshmallow import fields

from schemas.envelopes import Query, Record
from schemas.fields import Amount, Day, Text, Timestamp, Whole, is_provider


class GetStatementQuery(Query):
    """The account and the period of a statement, and a page of it."""

    account = Text(longest=13, pattern=r"main|\+256[0-9]{9}")
    from_at = Timestamp(data_key="from")
    to_at = Timestamp(data_key="to")
    limit = Whole(lowest=1, highest=100)
    cursor = Text(longest=512)


class StatementLineRecord(Record):
    """One movement of an account."""

    at = Timestamp()
    kind = fields.String()
    transaction_id = fields.String()
    reference = fields.String()
    description = fields.String(allow_none=True)
    debit_cents = Amount(data_key="debit", allow_none=True)
    credit_cents = Amount(data_key="credit", allow_none=True)
    balance_cents = Amount(data_key="balance")


class StatementRecord(Record):
    """A page of a statement, oldest line first."""

    opening_balance_cents = Amount(data_key="opening_balance")
    closing_balance_cents = Amount(data_key="closing_balance")
    items = fields.List(fields.Nested(StatementLineRecord))
    next_cursor = fields.String(allow_none=True)


class GetDailyReportQuery(Query):
    """The day of a report."""

    date = Day()


class ReportRowRecord(Record):
    """The payments of one type, provider and status."""

    type = fields.String()
    provider = fields.String(allow_none=True, validate=is_provider)
    status = fields.String()
    count = fields.Integer()
    amount_cents = Amount(data_key="amount")
    fees_cents = Amount(data_key="fees")
    median_seconds = fields.Float()


class DailyReportRecord(Record):
    """What became final on a day."""

    date = fields.String()
    rows = fields.List(fields.Nested(ReportRowRecord))
    success_rate = fields.Float(allow_none=True)
