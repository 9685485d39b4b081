"""Statements and reports in the API (contract 12)."""

from __future__ import annotations

from schemas.envelopes import Query
from schemas.fields import Day, Text, Timestamp
from schemas.shared import PAGE_CURSOR, PAGE_LIMIT


class GetStatementQuery(Query):
    """The account and the period of a statement, and a page of it."""

    account = Text(
        longest=13,
        pattern=r"main|\+256[0-9]{9}",
        metadata={"description": "`main` (default), or the phone number of a subscriber with an account here."},
    )
    from_at = Timestamp(
        data_key="from",
        metadata={"description": "The beginning of the period, inclusive. Default: the first movement."},
    )
    to_at = Timestamp(
        data_key="to", metadata={"description": "The end of the period, exclusive; it may lie ahead. Default: now."}
    )
    limit = PAGE_LIMIT
    cursor = PAGE_CURSOR


class GetDailyReportQuery(Query):
    """The day of a report."""

    date = Day(metadata={"description": "The day in Kampala. Default: today."})
