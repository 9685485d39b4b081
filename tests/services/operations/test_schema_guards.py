"""The check of the books names every guard of the schema that is missing."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database, dialect, is_postgres
from ussd_server.services.operations.book_check import check as check
from ussd_server.services.operations.book_check.check import check_ranges

# What is done to the schema, and what the check must say of it: of which table, and how the sentence begins.
_GUARDS_ON_POSTGRES = [
    ("ALTER TABLE ledger_accounts DISABLE TRIGGER ledger_accounts_guard",
     "ledger_accounts has lost or changed the trigger ledger_accounts_guard"),
    ("DROP TRIGGER transactions_keep ON transactions",
     "transactions has lost or changed the trigger transactions_keep"),
    ("ALTER TABLE transactions DISABLE TRIGGER ALL",
     "transactions has the disabled trigger of FOREIGN KEY"),
    ("CREATE TRIGGER extra BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse_change()",
     "events has the trigger extra, which no migration makes"),
    ("CREATE RULE nothing AS ON INSERT TO events DO INSTEAD NOTHING",
     "events has the rule nothing, which no migration makes"),
    ("CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
     "database has lost or changed the function refuse_change()"),
    ("DROP FUNCTION transactions_record(jsonb)",
     "database has lost or changed the function transactions_record(batch jsonb)"),
    ("ALTER TABLE ledger_accounts DROP CONSTRAINT no_overdraft",
     "ledger_accounts has lost or changed the constraint CHECK ((balance_cents - reserved_cents) >= 0"),
    ("ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_transaction_id_fkey",
     "ledger_transfers has lost or changed the constraint FOREIGN KEY (transaction_id) REFERENCES transactions(id)"),
    ("DROP INDEX ledger_transfers_ends",
     "ledger_transfers has lost or changed the unique index btree (hold_id) WHERE hold_id IS NOT NULL"),
    ("DROP INDEX transactions_due;; CREATE INDEX transactions_due ON transactions (due_at)",
     "transactions has lost or changed the index btree (due_at) WHERE due_at IS NOT NULL"),
    ("DROP INDEX transactions_names;; CREATE INDEX transactions_names ON transactions (client_id, reference)",
     "transactions has lost or changed the unique index btree (client_id, reference, (type = 'deposit'::text))"),
    ("ALTER TABLE transactions ALTER amount_cents DROP NOT NULL",
     "transactions has lost or changed the column amount_cents"),
    ("ALTER TABLE fees SET UNLOGGED",
     "fees has lost or changed the durability"),
    ("DROP TABLE worker_heartbeats",
     "worker_heartbeats is missing"),
    ("SET LOCAL session_replication_role = replica",
     "database runs no triggers, because session_replication_role is replica"),
    ("DELETE FROM schema_migration WHERE name LIKE '0001%'",
     "database lacks the migration 0001_baseline"),
    ("UPDATE schema_migration SET name = '9999_unheard_of' WHERE name LIKE '0001%'",
     "database has the migration 9999_unheard_of, unknown to this version"),
]  # fmt: skip
_GUARDS_ON_SQLITE = [
    ("DROP TRIGGER transactions_keep",
     "transactions has lost or changed the trigger transactions_keep"),
    ("CREATE TRIGGER extra BEFORE INSERT ON events BEGIN SELECT 1; END",
     "events has the trigger extra, which no migration makes"),
    ("DROP INDEX transactions_names",
     "transactions has lost or changed the index transactions_names"),
    ("ALTER TABLE transactions RENAME COLUMN description TO words",
     "transactions has lost or changed the table"),
    ("DROP TABLE worker_heartbeats",
     "worker_heartbeats is missing"),
    ("DELETE FROM schema_migration WHERE name LIKE '0001%'",
     "database lacks the migration 0001_baseline"),
]  # fmt: skip


def test_every_guard_that_was_dropped_is_reported(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect(), "snapshot", nullcontext)
    for statements, expected in _GUARDS_ON_POSTGRES if is_postgres() else _GUARDS_ON_SQLITE:
        with database.atomic() as harm:
            for statement in statements.split(";; "):
                database.execute_sql(statement.replace("%", "%%") if is_postgres() else statement)
            sentences = [str(violation) for violation in next(check_ranges()).violations]
            harm.rollback()
        assert [one for one in sentences if one.startswith(f"The schema of {expected}")], (statements, sentences)
    assert next(check_ranges()).violations == ()
