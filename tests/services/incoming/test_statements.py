"""Statements of providers and payments of payers, which may be booked long after they were paid."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.conftest import MovableClock
from tests.services.incoming.till import Till
from tests.services.reconciliation.statement_files import kampala, mtn_row, reconcile
from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.models.transactions import Transaction


@pytest.fixture
def paid_at(clock: MovableClock) -> datetime:
    """Exactly three hours before its notice, which would be a wrong time zone of any other payment."""
    return clock.now() - timedelta(hours=3)


@pytest.fixture
def booked(school: ExampleClient, till: Till, paid_at: datetime) -> Transaction:
    row: Transaction = Transaction.get_by_id(till.pay("SCH1042", provider="mtn", at=paid_at).transaction_id)
    return row


def verdicts(services: Services, *rows: list[str]) -> dict[str, int]:
    lines = reconcile(services, rows, "mtn", is_dry_run=True).statement.lines
    return {verdict: count for verdict, count in lines.items() if count}


def test_a_payment_that_was_reported_late_matches_its_line(
    services: Services, booked: Transaction, paid_at: datetime
) -> None:
    assert verdicts(services, mtn_row(booked, Date=kampala(paid_at))) == {"matched": 1}


def test_the_statement_must_have_it_when_it_was_paid_and_not_when_it_was_booked(
    services: Services, booked: Transaction, paid_at: datetime
) -> None:
    def around(at: datetime) -> list[list[str]]:
        moments = [at - timedelta(minutes=5), at + timedelta(minutes=5)]
        return [mtn_row(booked, Id=f"other {moment}", Date=kampala(moment), **NAMELESS) for moment in moments]

    assert verdicts(services, *around(paid_at)) == {"not_ours": 2, "not_theirs": 1}
    assert verdicts(services, *around(booked.created_at)) == {"not_ours": 2}


NAMELESS = {"External id": ""}
