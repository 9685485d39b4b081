"""Accounts: a client reads its own and no other client's, and only operators list them."""

from __future__ import annotations

from datetime import timedelta

from tests.support.money import a_client, deposit
from ussd_server.bootstrap import Services
from ussd_server.services.accounts.messages import GetBalances, GetStatement


def test_a_client_reads_nothing_of_the_account_that_has_the_same_name_at_another(services: Services) -> None:
    rich, poor = a_client("rich"), a_client("poor")
    deposit(services, rich, 5000)
    later = (services.clock.now() + timedelta(hours=1),)
    for client, cents in ((rich, 500_000), (poor, 0)):
        assert services.balances.get(None, client).current_cents == cents
        assert services.statements.balances(GetBalances("main", later), client) == (cents,)
        assert services.statements.get(GetStatement(), client).closing_balance_cents == cents
