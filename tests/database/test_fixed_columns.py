"""Columns that their classes mark as fixed: the database refuses to change them."""

from __future__ import annotations

import pytest

from ussd_server.bootstrap import Services
from ussd_server.database.tables import Table, fixed_columns
from ussd_server.database.unit_of_work import database, is_postgres
from ussd_server.models.transactions import Transaction

FIXED = [(table, column) for table in Table.__subclasses__() for column in fixed_columns(table)]
# A trigger of PostgreSQL compares by itself, or in its function.
ON_POSTGRES = """
SELECT concat(pg_get_triggerdef(made.oid), prosrc) FROM pg_trigger AS made JOIN pg_proc ON pg_proc.oid = tgfoid
WHERE tgrelid = %s::regclass AND NOT tgisinternal AND pg_get_triggerdef(made.oid) LIKE '%% BEFORE UPDATE %%'
"""
ON_SQLITE = "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? AND sql LIKE '% BEFORE UPDATE %'"


def rules_of(table: type[Table]) -> str:
    found = database.execute_sql(ON_POSTGRES if is_postgres() else ON_SQLITE, (table._meta.table_name,))
    return "".join(text for (text,) in found.fetchall()).lower()


@pytest.mark.both_databases
def test_a_rule_compares_every_column_that_is_marked(services: Services) -> None:
    rules = {table: rules_of(table) for table, _ in FIXED}
    for table, column in FIXED:
        assert f"new.{column}" in rules[table], f"write a trigger that keeps {table.__name__}.{column}"
        assert f"old.{column}" in rules[table], f"write a trigger that keeps {table.__name__}.{column}"


def test_what_the_check_compares_as_fixed_is_marked() -> None:
    assert {"reference", "amount_cents", "description", "payout_id", "menu_version"} <= set(fixed_columns(Transaction))
    assert not {"status", "provider_transaction_id", "review_note"} & set(fixed_columns(Transaction))
