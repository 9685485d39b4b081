"""A client's settlements in tests: what is due, the bank's file, and its recording."""

from __future__ import annotations

import csv
from datetime import date
from io import BytesIO, StringIO

import pytest

from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.services.bank.messages import (
    ProposeSettlements,
    RecordSettlements,
    SettlementView,
    StateBankAccount,
)
from ussd_server.status import Code, ServiceError

STANBIC = StateBankAccount("Stanbic Bank", "9030001234567", "ACME Ltd")
BY, SECOND = "Mary Akello", "John Okot"


def due(services: Services, day: date | None = None) -> list[tuple[str, int]]:
    proposed = services.bank_settlements.due(day, operator())
    return [(each.client, each.amount_cents // 100) for each in proposed]


def propose(services: Services) -> list[str]:
    """Reserve what is due; the ids of the settlements."""
    made = services.bank_settlements.propose(ProposeSettlements(BY), operator())
    return [each.settlement_id or "" for each in made]


def completed(services: Services, *bank_references: str, **cells: str) -> bytes:
    """The file of what is due, with the bank's references in its first lines and other cells in each."""
    propose(services)
    return completed_of(services, *bank_references, **cells)


def completed_of(services: Services, *bank_references: str, **cells: str) -> bytes:
    """As `completed`, of what waits already."""
    waiting = services.bank_settlements.waiting(operator())
    text = b"".join(services.bank_settlements.file(waiting)).decode()
    rows = list(csv.DictReader(StringIO(text)))
    written = StringIO()
    lines = csv.DictWriter(written, rows[0].keys())
    lines.writeheader()
    for row, reference in zip(rows, [*bank_references, *[""] * len(rows)], strict=False):
        lines.writerow(row | {"bank_reference": reference} | cells)
    return written.getvalue().encode()


def record(services: Services, file: bytes, *, is_paid: bool = False) -> tuple[SettlementView, ...]:
    return services.bank_settlements.record(RecordSettlements(BytesIO(file), BY, SECOND, is_paid), operator())


def available(services: Services, context: RequestContext) -> int:
    return services.balances.get(None, context).available_cents // 100


def refusal(services: Services, file: bytes) -> str:
    with pytest.raises(ServiceError) as refused:
        record(services, file)
    assert refused.value.code is Code.INVALID_REQUEST
    return refused.value.message
