"""Bank accounts: an owner states one, an operator confirms it, and only a confirmed one gets money."""

from __future__ import annotations

import pytest

from tests.services.bank.settling import BY, STANBIC, completed, due, refusal
from tests.support.example_client import ExampleClient
from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.services.bank.messages import ConfirmBankAccount, StateBankAccount
from ussd_server.status import Code, ServiceError


def test_only_a_confirmed_bank_account_gets_money_and_a_change_needs_another_confirmation(
    services: Services, client: ExampleClient
) -> None:
    other = StateBankAccount("Centenary Bank", "310001", "ACME Ltd")
    file = completed(services, "FT1")
    services.bank_accounts.state(other, client.at_console())
    assert due(services) == []
    assert refusal(services, file) == (
        "Row 2, settlement_id: The client has another bank account by now. "
        "If the bank has paid it, use `settlements record --paid`. Nothing was recorded."
    )
    shown = services.bank_accounts.show(client.at_console())
    assert (shown.number, shown.confirmed_at) == ("310001", None)
    services.bank_accounts.state(STANBIC, client.at_console())
    with pytest.raises(ServiceError, match="changed since it was shown"):
        services.bank_accounts.confirm(ConfirmBankAccount(client.id, BY, shown.digest), operator())
    services.bank_accounts.state(other, client.at_console())
    services.bank_accounts.confirm(ConfirmBankAccount(client.id, BY, shown.digest), operator())
    assert "has another bank account by now" in refusal(services, file)


def test_stating_the_same_account_again_keeps_its_confirmation(services: Services, client: ExampleClient) -> None:
    services.bank_accounts.state(STANBIC, client.at_console())
    assert due(services) == [("acme", 100_000)]


@pytest.mark.parametrize("role", ["admin", "developer", "viewer"])
def test_only_an_owner_states_the_bank_account(services: Services, client: ExampleClient, role: str) -> None:
    with pytest.raises(ServiceError) as refused:
        services.bank_accounts.state(STANBIC, client.at_console(role))
    assert refused.value.code is Code.INSUFFICIENT_SCOPE


def test_the_number_of_a_document_confirms_its_account_alone(services: Services, client: ExampleClient) -> None:
    services.bank_accounts.state(StateBankAccount("Centenary Bank", "310-001", "ACME Ltd"), client.at_console())
    confirm = services.bank_accounts.confirm
    for wrong in ("9030001234567", "", "310002"):
        with pytest.raises(ServiceError, match="Is not that of the bank account"):
            confirm(ConfirmBankAccount(client.id, BY, number=wrong), operator())
    with pytest.raises(ServiceError, match="was changed since"):
        confirm(ConfirmBankAccount(client.id, BY), operator())
    assert confirm(ConfirmBankAccount(client.id, BY, number="310 001"), operator()).confirmed_by == BY


@pytest.mark.parametrize("number", ["", "90/30", "9030\u200b", "x" * 101])
def test_the_number_of_an_account_has_letters_digits_spaces_and_hyphens(
    services: Services, client: ExampleClient, number: str
) -> None:
    with pytest.raises(ServiceError, match="number: Must be"):
        services.bank_accounts.state(StateBankAccount("Stanbic", number, "ACME Ltd"), client.at_console())


def test_each_part_of_an_account_has_1_to_100_characters(services: Services, client: ExampleClient) -> None:
    for short, long in (("B", "9"), ("B" * 100, "9" * 100)):
        assert services.bank_accounts.state(StateBankAccount(short, long, short), client.at_console()).bank == short
    with pytest.raises(ServiceError, match="bank: Must be 1 to 100"):
        services.bank_accounts.state(StateBankAccount("B" * 101, "9", "ACME Ltd"), client.at_console())
