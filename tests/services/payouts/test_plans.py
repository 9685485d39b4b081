"""A reservation of many rows reads few rows on PostgreSQL, also with plans that were made for small tables."""

from __future__ import annotations

import pytest

from tests.services.payouts.desk import PayoutDesk
from tests.support.money import request, work
from ussd_server.database.unit_of_work import database, unit_of_work

_ROWS = 300
_READ = """SELECT relname, seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
    WHERE relname IN ('transactions', 'transaction_events', 'ledger_transfers', 'ledger_accounts')"""


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
@pytest.mark.parametrize("is_analyzed", [False, True])
def test_each_row_is_read_by_its_key_also_by_plans_for_small_tables(desk: PayoutDesk, is_analyzed: bool) -> None:
    desk.services.transactions.create(request("disbursement"), desk.maker)
    work(desk.services, desk.clock, 2)
    if is_analyzed:
        database.execute_sql("ANALYZE")
    small = desk.draft_of(2, "small")
    desk.approve(small)
    desk.cancel(small)
    draft = desk.draft_of(_ROWS)
    for act in (desk.approve, desk.cancel):
        with unit_of_work():
            act(draft)
            read = dict(database.execute_sql(_READ).fetchall())
        assert {table: rows for table, rows in read.items() if rows > 30 * _ROWS} == {}
