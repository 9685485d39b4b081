"""A settlement that is proposed, recorded or cancelled waits for the transaction that changes its money or its row.

SQLite has one writer at a time, so PostgreSQL alone is tried.
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.services.bank.settling import completed, record
from tests.support.books import check_everything
from tests.support.competitors import Compete
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, operator
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.movements import OUT
from ussd_server.services.bank.messages import (
    ConfirmBankAccount,
    EndSettlement,
    ProposeSettlements,
    SettlementLine,
    StateBankAccount,
)
from ussd_server.services.bank.settlement_rows import locked_settlement
from ussd_server.services.gates.receipts import BANK, money_of
from ussd_server.status import ServiceError

pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)

ACCOUNT = ("Stanbic Bank", "9030001234567", "ACME Ltd")
BY, SECOND = "Mary Akello", "John Okot"


@pytest.fixture
def client(services: Services) -> ExampleClient:
    """A client with UGX 100,000 and a confirmed bank account."""
    client = ExampleClient(services)
    deposit(services, client.at_console(), 100_000)
    services.bank_accounts.state(StateBankAccount(*ACCOUNT), client.at_console())
    services.bank_accounts.confirm(ConfirmBankAccount(client.id, BY, number=ACCOUNT[1]), operator())
    return client


def test_a_proposal_takes_what_is_there_when_a_posting_under_way_is_committed(
    services: Services, client: ExampleClient, compete: Compete
) -> None:
    propose = partial(services.bank_settlements.propose, ProposeSettlements(BY), operator())
    with unit_of_work():
        deposit(services, client.at_console(), 5000, "under way")
        proposing = compete(propose)
    (due,) = proposing.result()
    assert due.amount_cents == 105_000_00


def test_a_settlement_that_is_being_recorded_is_neither_cancelled_nor_recorded_again(
    services: Services, client: ExampleClient, compete: Compete
) -> None:
    (due,) = services.bank_settlements.propose(ProposeSettlements(BY), operator())
    line = SettlementLine(2, client.id, *ACCOUNT, due.amount_cents, "FT1", due.settlement_id or "")
    record = partial(services.bank_settlements.record_line, line, BY, SECOND, operator())
    with unit_of_work():
        record()
        recording = compete(record)
        cancelling = compete(
            partial(services.bank_settlements.cancel, EndSettlement(line.settlement_id, BY, SECOND), operator())
        )
    assert recording.result().replayed
    with pytest.raises(ServiceError, match="has paid the settlement"):
        cancelling.result()
    assert check_everything() == []


def test_a_file_waits_for_a_bank_reference_before_it_locks_a_settlement(
    services: Services, client: ExampleClient, compete: Compete
) -> None:
    file = completed(services, "FT1")
    (waiting,) = services.bank_settlements.waiting(operator())
    with unit_of_work():
        money_of(BANK, OUT, "FT1")
        recording = compete(partial(record, services, file))
        locked_settlement(waiting.settlement_id or "")
    (recorded,) = recording.result()
    assert recorded.status == "succeeded"
