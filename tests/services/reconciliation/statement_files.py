"""Statements of providers as the tests write them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.models.transactions import Transaction
from ussd_server.services.reconciliation.messages import (
    DifferenceView,
    ListDifferences,
    ReconcileStatement,
    Reconciliation,
)
from ussd_server.values import KAMPALA

MTN = ("Id", "External id", "Date", "Status", "Type", "From", "To", "Amount", "Currency", "Fee", "Balance")
_TYPES = {"collection": "Payment", "disbursement": "Transfer", "refund": "Reversal"}


def mtn_row(row: Transaction, **changes: object) -> list[str]:
    """The line that MTN would write for a transaction."""
    party, ours = f"FRI:{row.phone_number.removeprefix('+')}/MSISDN", "FRI:41000001/MM"
    collects = row.type == "collection"
    values: dict[str, object] = {
        "Id": row.provider_transaction_id,
        "External id": row.provider_reference,
        "Date": kampala(row.completed_at or row.updated_at),
        "Status": "Successful",
        "Type": _TYPES[row.type],
        "From": party if collects else ours,
        "To": ours if collects else party,
        "Amount": f"{row.amount_cents / 100:,.2f}",
        "Currency": "UGX",
        "Fee": "0",
        "Balance": "",
    }
    return [str(value if value is not None else "") for value in (values | changes).values()]


def with_balances(
    rows: Sequence[Sequence[str]], opening: int = 1_000_000, headings: Sequence[str] = MTN
) -> list[list[str]]:
    """The lines of a file whose oldest line comes first, with the balance after each, in shillings."""
    amount, kind, status = (headings.index(name) for name in ("Amount", "Type", "Status"))
    written, balance = [], opening * 100
    for row in rows:
        cents = round(float(row[amount].replace(",", "")) * 100)
        moves = row[status] == "Successful"
        balance += cents * (1 if row[kind] == "Payment" else -1) * moves
        written.append([*row[:-1], f"{balance / 100:,.2f}"])
    return written


def kampala(moment: datetime) -> str:
    """A moment as statements show it."""
    return f"{moment.astimezone(KAMPALA):%Y-%m-%d %H:%M:%S}"


def csv_file(rows: Sequence[Sequence[str]], headings: Sequence[str] = MTN) -> bytes:
    """A statement in CSV, with a title above the headings and a total below the lines."""
    text = io.StringIO()
    written = csv.writer(text)
    written.writerows([["Account holder: ACME"], [], headings, *rows])
    written.writerow(["Total", "", "", "", "", "", "", "1,234,567.00"])
    return text.getvalue().encode()


def reconcile(
    services: Services,
    statement: bytes | Sequence[Sequence[str]],
    provider: str = "sandbox",
    *,
    is_confirmed: bool = True,
    **options: Any,
) -> Reconciliation:
    """Compare and import a file, or a file of these lines, whatever it looks like."""
    file = io.BytesIO(statement if isinstance(statement, bytes) else csv_file(statement))
    asked = ReconcileStatement(provider, "day.csv", file, is_confirmed=is_confirmed, **options)
    return services.provider_statements.reconcile(asked, operator())


def open_reviews(services: Services) -> tuple[DifferenceView, ...]:
    """The differences without a decision, the newest first."""
    return services.differences.list(ListDifferences(limit=10_000), operator()).items
