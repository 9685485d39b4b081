"""Bank accounts: an owner states one, an operator confirms it, and only a confirmed one gets money."""

from __future__ import annotations

import pytest

from tests.services.bank.settling import BY, STANBIC, completed, due, refusal
from tests.support.books import check_everything
from tests.support.example_client import ExampleClient
from tests.support.money import call_with_key, operator
from ussd_server.bootstrap import Services
from ussd_server.services.audit.messages import ListAuditEvents
from ussd_server.services.bank.messages import ConfirmBankAccount, SetSettlementTerms, StateBankAccount
from ussd_server.status import Code, ServiceError

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


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


@ON_SQLITE
def test_each_client_has_a_bank_account_of_its_own(services: Services, client: ExampleClient) -> None:
    other = ExampleClient(services, "abc")
    assert services.bank_accounts.show(other.at_console()).number is None
    stated = services.bank_accounts.state(StateBankAccount("Centenary Bank", "310001", "ABC Ltd"), other.at_console())
    assert (stated.client, stated.number) == ("abc", "310001")
    services.bank_accounts.set_terms(SetSettlementTerms(other.id, keep_cents=5), operator())
    services.bank_accounts.confirm(ConfirmBankAccount(other.id, BY, number="310001"), operator())
    shown = [services.bank_accounts.show(each.at_console()) for each in (other, client)]
    assert [(each.number, each.keep_cents) for each in shown] == [("310001", 5), (STANBIC.number, None)]
    assert tuple(shown) == services.bank_accounts.list(operator())
    assert check_everything(vault=services.runtime.vault) == []


@ON_SQLITE
def test_a_key_without_statements_read_sees_no_bank_account(services: Services, client: ExampleClient) -> None:
    with pytest.raises(ServiceError) as refused:
        services.bank_accounts.show(call_with_key(services, client.at_console(), "balance:read"))
    assert refused.value.code is Code.INSUFFICIENT_SCOPE


@ON_SQLITE
def test_what_an_owner_states_and_an_operator_confirms_stands_in_the_audit_trail(
    services: Services, client: ExampleClient
) -> None:
    trail = services.audit.list(ListAuditEvents(), client.at_console()).items
    events = [(each.action, each.decided_by, each.reason) for each in trail if each.action.startswith("bank_account")]
    shown = "Stanbic Bank, 9030001234567, ACME Ltd"
    assert events == [("bank_account.confirmed", BY, shown), ("bank_account.stated", None, shown)]


@ON_SQLITE
@pytest.mark.parametrize("cents", [-1, 10**15])
def test_terms_of_settlements_have_bounds(services: Services, client: ExampleClient, cents: int) -> None:
    for terms in ({"keep_cents": cents}, {"minimum_cents": cents}):
        with pytest.raises(ServiceError, match="Must be 0 shillings or more"):
            services.bank_accounts.set_terms(SetSettlementTerms(client.id, **terms), operator())
