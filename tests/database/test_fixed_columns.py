"""Columns that are marked as fixed: the database refuses to change them."""

from __future__ import annotations

from itertools import chain

import pytest
from peewee import IntegrityError

from ussd_server.bootstrap import Services
from ussd_server.database.fixed_columns import FixedColumn, _marked, fixed_columns
from ussd_server.database.schema import execute_statements
from ussd_server.database.schema_differences import _read_postgres, _read_sqlite
from ussd_server.database.unit_of_work import database, is_postgres


def test_a_rule_names_every_column_that_is_marked(services: Services) -> None:
    schema = _read_postgres() if is_postgres() else _read_sqlite(database)
    functions = [item for item in schema.get(("", ""), ()) if "transaction" in item.name]
    for each in fixed_columns():
        own = schema[each.table, each.table]
        rules = "".join(item.definition for item in chain(own, functions) if item.kind in ("trigger", "function"))
        assert f"new.{each.column}" in rules.lower(), each
        assert f"old.{each.column}" in rules.lower(), each


def test_a_column_that_a_migration_adds_with_the_mark_never_changes(services: Services) -> None:
    execute_statements(
        database,
        """
CREATE TABLE invoices (
    id integer PRIMARY KEY
);

ALTER TABLE invoices ADD COLUMN invoice_number text; -- fixed

ALTER TABLE invoices ADD COLUMN note text;
""",
    )
    database.execute_sql("INSERT INTO invoices (id, invoice_number) VALUES (1, 'A-1')")
    database.execute_sql("UPDATE invoices SET note = 'paid', invoice_number = 'A-1'")
    with pytest.raises(IntegrityError):
        database.execute_sql("UPDATE invoices SET invoice_number = 'A-2'")


def test_the_mark_may_end_a_statement_within_quotes() -> None:
    (found,) = _marked('    execute_statements(db, "ALTER TABLE invoices ADD COLUMN number text; -- fixed")')
    assert found == FixedColumn("invoices", "number", None, is_added=True)


def test_what_the_check_compares_as_fixed_is_marked() -> None:
    marked = {each.column for each in fixed_columns("transactions")}
    assert {"reference", "amount_cents", "description", "payout_id", "menu_version"} <= marked
    assert not {"status", "provider_transaction_id", "review_note"} & marked
