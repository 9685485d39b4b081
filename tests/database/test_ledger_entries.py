"""The place of each movement in its account's statement: written by the database, in the order of the commits."""

from __future__ import annotations

import pytest
from peewee import IntegrityError

from tests.conftest import MovableClock
from tests.support.books import check_everything
from tests.support.money import a_client, agree_fee, deposit, request, work
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database
from ussd_server.models.ledger import Account, AccountEntry, Transfer
from ussd_server.models.operations import ServiceClock
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.transactions.messages import TransactionType

PAYER = "+256770000000"


def entries(client_id: str, name: str = "main") -> list[tuple[int, int, str]]:
    """The entries of an account: position, balance and transfer."""
    account = Account.get(Account.client_id == client_id, Account.name == name)
    rows = AccountEntry.select().where(AccountEntry.account_id == account.id).order_by(AccountEntry.posted_us)
    return [(row.posted_us, row.balance_cents, row.transfer_id) for row in rows]


def test_movements_of_main_and_subscriber_accounts_have_entries_and_reservations_have_none(
    services: Services, clock: MovableClock
) -> None:
    context = a_client()
    agree_fee(FeeTerms(context.client_id, TransactionType.DISBURSEMENT, 100, 0))
    deposit(services, context, 100)
    services.transactions.create(request("disbursement", PAYER, 30), context)
    services.transactions.create(request("disbursement", "+256770000008", 30), context)
    services.transactions.create(request("collection", PAYER, 5, account=PAYER), context)
    assert [balance for _, balance, _ in entries(context.client_id)] == [10_000]
    work(services, clock, 2)
    assert sorted(balance for _, balance, _ in entries(context.client_id)) == [6_900, 7_000, 10_000]
    assert [balance for _, balance, _ in entries(context.client_id, PAYER)] == [500]
    owned = {row.name for row in Account.select().join(AccountEntry, on=(AccountEntry.account_id == Account.id))}
    assert owned == {"main", PAYER}
    assert check_everything() == []


def test_entries_follow_each_other_though_a_clock_is_set_back_or_forward(services: Services) -> None:
    context = a_client()
    deposit(services, context, 1, "first")
    (first, _, _) = entries(context.client_id)[0]
    hour_ms = 3_600_000
    ServiceClock.update(ahead_ms=hour_ms, decided_at=services.clock.now()).execute()
    deposit(services, context, 1, "an hour ahead")
    ServiceClock.update(ahead_ms=-hour_ms).execute()
    deposit(services, context, 1, "an hour behind")
    (_, (ahead, _, _), (behind, _, _)) = entries(context.client_id)
    # The test's clock may begin two minutes behind the real time.
    assert abs(ahead - first - hour_ms * 1000) < 180_000_000
    assert behind == ahead + 1


def test_an_entry_is_less_than_an_hour_later_than_its_transfer_when_the_databases_clock_jumps(
    services: Services,
) -> None:
    context = a_client()
    # For up to a second no process has noticed the jump, and no row takes it back.
    ServiceClock.update(ahead_ms=3 * 3_600_000, decided_at=services.clock.now()).execute()
    deposit(services, context, 1)
    ((entered, _, _),) = entries(context.client_id)
    made = Transfer.select().where(Transfer.client_id == context.client_id).get().created_at
    assert entered == round(made.timestamp() * 1000) * 1000 + 3_599_000_000
    assert check_everything() == []


def test_nothing_but_a_transfer_writes_entries(services: Services) -> None:
    deposit(services, a_client(), 100)
    same = "SELECT account_id, posted_us {} 1, transfer_id, balance_cents FROM ledger_entries"
    for change in (
        "UPDATE ledger_entries SET balance_cents = balance_cents + 1",
        "UPDATE ledger_entries SET posted_us = posted_us + 1",
        "DELETE FROM ledger_entries",
        f"INSERT INTO ledger_entries {same.format('+')}",
        f"INSERT INTO ledger_entries {same.format('-')}",
    ):
        with pytest.raises(IntegrityError):
            database.execute_sql(change)
    assert Transfer.select().count() == AccountEntry.select().count() == 1
