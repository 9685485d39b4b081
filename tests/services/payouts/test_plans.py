"""What is written of many rows reads few of them, also by plans that were made for small tables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.services.payouts.desk import PayoutDesk
from tests.services.payouts.test_retries import DECLINED, retry
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


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_rows_that_are_sent_or_retried_are_found_by_their_lines(
    desk: PayoutDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, Any]] = []
    execute = database.obj.execute_sql

    def noted(sql: str, parameters: Any = None, **more: Any) -> Any:
        seen.append((sql, parameters))
        return execute(sql, parameters, **more)

    draft = desk.draft_of(60, number=DECLINED)
    desk.approve(draft)
    monkeypatch.setattr(database.obj, "execute_sql", noted)
    desk.tick()
    desk.work(20)
    retry(desk, draft)
    monkeypatch.undo()
    updates = {sql: parameters for sql, parameters in seen if sql.startswith("UPDATE") and "payout_items" in sql}
    plans = [database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", given).fetchall() for sql, given in updates.items()]
    by_line = [plan for plan in plans if any("payout_items" in step[3] and "line=?" in step[3] for step in plan)]
    assert len(by_line) >= 2, "the rows that are sent, and those of the round"
    joined = [step for plan in plans for step in plan if "json_each" in step[3] and step[1] == 0]
    assert joined == [], "every row would meet every value"
