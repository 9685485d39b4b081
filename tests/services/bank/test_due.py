"""What clients are due from their settlements: what was available and is not settled yet, less what stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.services.bank.settling import (
    BY,
    SECOND,
    STANBIC,
    completed,
    completed_of,
    due,
    propose,
    record,
)
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, operator, request
from ussd_server.bootstrap import Services, build_services
from ussd_server.context import operator_context
from ussd_server.models.clients import Client
from ussd_server.services.bank import settlements
from ussd_server.services.bank.messages import (
    ConfirmBankAccount,
    EndSettlement,
    ProposeSettlements,
    SetSettlementTerms,
    StateBankAccount,
)
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA


def test_a_client_is_due_what_is_available_less_what_stays_if_it_is_enough(
    services: Services, client: ExampleClient
) -> None:
    assert due(services) == [("acme", 100_000)]
    terms = services.bank_accounts.set_terms
    terms(SetSettlementTerms(client.id, keep_cents=30_000_00, minimum_cents=70_000_00), operator())
    assert due(services) == [("acme", 70_000)]
    services.transactions.create(request("disbursement", shillings=1000), operator_context(client.id))
    assert due(services) == [], "less than the minimum is left"
    terms(SetSettlementTerms(client.id), operator())
    assert due(services) == [("acme", 99_000)]


def test_money_that_came_after_the_day_is_not_due_for_it(
    services: Services, client: ExampleClient, clock: MovableClock
) -> None:
    day = clock.now().astimezone(KAMPALA).date()
    with pytest.raises(ServiceError, match="not over"):
        due(services, day)
    clock.advance(timedelta(days=1).total_seconds())
    deposit(services, client.at_console(), 5000, "of the next day")
    assert due(services, day) == [("acme", 100_000)]
    assert due(services) == [("acme", 105_000)]


@pytest.mark.parametrize("is_disabled", [False, True])
def test_what_changes_while_settlements_are_proposed_is_left_out(
    services: Services, client: ExampleClient, monkeypatch: pytest.MonkeyPatch, is_disabled: bool
) -> None:
    other, lock = StateBankAccount("Centenary Bank", "310001", "ACME Ltd"), settlements.lock_accounts

    def change_before(*given: Any) -> object:
        if is_disabled:
            Client.update(is_active=False).execute()
        else:
            services.bank_accounts.state(other, client.at_console())
        return lock(*given)

    monkeypatch.setattr(settlements, "lock_accounts", change_before)
    assert propose(services) == []


def test_while_money_is_held_nothing_is_proposed_and_no_file_is_written(
    services: Services, client: ExampleClient, clock: MovableClock
) -> None:
    held = build_services(replace(services.settings, hold_money=True), clock).bank_settlements
    for call in (
        lambda: held.propose(ProposeSettlements(BY), operator()),
        lambda: held.waiting(operator()),
    ):
        with pytest.raises(ServiceError) as refused:
            call()
        assert refused.value.code is Code.SERVICE_UNAVAILABLE


def test_a_day_that_is_proposed_again_takes_nothing_of_the_next_day(
    services: Services, client: ExampleClient, clock: MovableClock
) -> None:
    day = clock.now().astimezone(KAMPALA).date()
    (before,) = propose(services)
    deposit(services, client.at_console(), 7000, "the same day")
    clock.advance(timedelta(days=1).total_seconds())
    deposit(services, client.at_console(), 250_000, "the next day")
    assert due(services, day) == [("acme", 7000)], "the first settlement still waits"
    (again,) = services.bank_settlements.propose(ProposeSettlements(BY, day), operator())
    assert due(services, day) == []
    services.bank_settlements.cancel(EndSettlement(again.settlement_id or "", BY, SECOND), operator())
    services.bank_settlements.cancel(EndSettlement(before, BY, SECOND), operator())
    assert due(services, day) == [("acme", 107_000)]


def test_what_the_bank_was_paid_on_the_day_or_since_is_not_due_again_for_it(
    services: Services, client: ExampleClient, clock: MovableClock
) -> None:
    day = clock.now().astimezone(KAMPALA).date()
    record(services, completed(services, "FT1"))
    deposit(services, client.at_console(), 7000, "the same day")
    clock.advance(timedelta(days=1).total_seconds())
    deposit(services, client.at_console(), 250_000, "the next day")
    assert due(services, day) == [("acme", 7000)], "the balance of the day lacks what was paid on it"
    (proposed,) = services.bank_settlements.propose(ProposeSettlements(BY, day), operator())
    (settled,) = record(services, completed_of(services, "FT2"))
    assert (settled.settlement_id, due(services, day)) == (proposed.settlement_id, [])
    services.bank_settlements.record_return(EndSettlement(settled.settlement_id, BY, SECOND), operator())
    assert due(services, day) == [("acme", 7000)]


def test_a_disabled_client_is_due_nothing_and_keeps_no_other_from_its_settlement(
    services: Services, client: ExampleClient
) -> None:
    disabled = ExampleClient(services, "abc")
    deposit(services, disabled.at_console(), 5000)
    services.bank_accounts.state(STANBIC, disabled.at_console())
    services.bank_accounts.confirm(ConfirmBankAccount(disabled.id, BY, number=STANBIC.number), operator())
    services.clients.set_active(disabled.id, False, operator())
    assert due(services) == [("acme", 100_000)]
    (settlement_id,) = propose(services)
    assert [each.settlement_id for each in services.bank_settlements.list(operator())] == [settlement_id]
    services.clients.set_active(disabled.id, True, operator())
    assert due(services) == [("abc", 5000)]
