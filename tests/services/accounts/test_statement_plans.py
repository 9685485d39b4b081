"""PostgreSQL keeps its plans for the balances of a statement, however long the account is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.money import a_client, deposit
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database, unit_of_work
from ussd_server.services.accounts.messages import GetStatement

_COPIES = """INSERT INTO ledger_entries (account_id, posted_us, transfer_id, balance_cents)
    SELECT account_id, posted_us - n, transfer_id, balance_cents FROM ledger_entries, generate_series(1, 10000) AS n"""
# psycopg prepares a statement at its sixth run, and PostgreSQL plans its first five prepared runs anew.
_RUNS = 12


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_balances_of_a_long_account_are_read_by_kept_plans(services: Services) -> None:
    call = a_client()
    deposit(services, call, 100)
    with unit_of_work():
        database.execute_sql("SET LOCAL session_replication_role = replica")
        # Ten thousand rows take longer on a busy machine than a request may.
        database.execute_sql("SET LOCAL statement_timeout = 0")
        database.execute_sql(_COPIES)
    database.execute_sql("ANALYZE ledger_entries")
    request = GetStatement(from_at=datetime(2020, 1, 1, tzinfo=UTC), limit=1)
    for _ in range(_RUNS):
        assert services.statements.get(request, call).closing_balance_cents == 10_000
    kept = database.execute_sql(
        "SELECT generic_plans > 0 FROM pg_prepared_statements WHERE statement LIKE %s AND statement NOT LIKE %s",
        ("%ledger_entries%", "%ledger_transfers%"),
    ).fetchall()
    assert kept == [(True,), (True,)]
