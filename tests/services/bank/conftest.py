"""Fixtures of settlements."""

from __future__ import annotations

import pytest

from tests.services.bank.settling import BY, STANBIC
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, operator
from ussd_server.bootstrap import Services
from ussd_server.services.bank.messages import ConfirmBankAccount


@pytest.fixture
def client(services: Services) -> ExampleClient:
    """A client with UGX 100,000 and a confirmed bank account."""
    client = ExampleClient(services)
    deposit(services, client.at_console(), 100_000)
    services.bank_accounts.state(STANBIC, client.at_console())
    services.bank_accounts.confirm(ConfirmBankAccount(client.id, BY, number=STANBIC.number), operator())
    return client
