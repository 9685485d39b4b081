"""The check of the books finds every kind of violation, and names every guard of the schema that is missing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from tests.services.operations.conftest import Scene
from tests.services.operations.damage import ON_POSTGRES, RULES, SABOTAGE
from tests.support.books import check_everything
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database, dialect, is_postgres
from ussd_server.services.operations.book_check import check
from ussd_server.services.operations.book_check.check import check_ranges
from ussd_server.services.operations.book_check.history import HISTORY_RULES
from ussd_server.services.operations.book_check.money import NAME_RULES
from ussd_server.services.operations.book_check.payouts import APPROVAL_RULES
from ussd_server.services.operations.book_check.sums import OTHER_SUM

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

DELIVERED_LATE = "has a due time far ahead"


def violations_in(expected: str) -> set[tuple[str, str]]:
    """The sentence of each violation, and the name of its place in the scene."""
    return {(RULES[rule], place) for rule, place in map(str.split, expected.split(", "))}


@pytest.fixture
def unguarded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trigger and constraint that could be in the way of a violation is switched off."""
    # The check is made within the transaction that does the harm, so that the harm can be taken back.
    monkeypatch.setattr(dialect(), "snapshot", nullcontext)
    run = database.execute_sql
    if is_postgres():
        for table in (
            "transactions",
            "transaction_events",
            "ledger_accounts",
            "ledger_transfers",
            "ledger_entries",
            "events",
            "idempotency_keys",
            "payouts",
            "payout_items",
            "payout_attempts",
            "payout_holds",
            "movements",
            "movement_uses",
            "audit_events",
        ):
            run(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            named = f"SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = '{table}'::regclass"
            for (constraint,) in run(named).fetchall():
                run(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
        for table, constraint in (
            ("ledger_accounts", "ledger_accounts_client_id_name_key"),
            ("events", "events_object_id_sequence_key"),
            ("movements", "movements_transaction_id_key"),
        ):
            run(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
        run("DROP INDEX ledger_transfers_ends")
    else:
        for (trigger,) in run("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            run(f"DROP TRIGGER {trigger}")
        run("PRAGMA ignore_check_constraints = 1")
        run("PRAGMA foreign_keys = 0")
    for index in ("names", "idempotency_key", "confirmation", "provider_reference"):
        run(f"DROP INDEX transactions_{index}")
    run("DROP INDEX ledger_transfers_effects_each_way")
    run("DROP INDEX payouts_reference")


def test_every_kind_of_violation_is_found_and_named(
    scene: Scene, services: Services, unguarded: None, tries: Callable[[int], int]
) -> None:
    # By day PostgreSQL finds a quarter of what SQLite finds, and all of its own.
    on_this = SABOTAGE[:: 4 // tries(4)] + ON_POSTGRES if is_postgres() else SABOTAGE
    names = {each: name for name, each in scene.items()}
    unlike = []
    for statement, expected in on_this:
        with database.atomic() as harm:
            for each in statement.split(";; "):
                database.execute_sql(each.format_map(scene))
            violations = check_everything(vault=services.runtime.vault)
            found = {(one.rule, names.get(one.id, one.id)) for one in violations if one.part != "schema"}
            harm.rollback()
        if found != (wanted := violations_in(expected)):
            unlike.append((statement, found - wanted, wanted - found))
    assert not unlike, "\n".join(map(str, unlike))
    assert {one.part for one in check_everything()} == {"schema"}


def test_every_rule_has_a_violation_in_these_tests() -> None:
    rules = {rule for part in check._PARTS.values() for rule in part.rules} | {*HISTORY_RULES, *APPROVAL_RULES}
    rules |= {rule for named in NAME_RULES.values() for rule in named}
    rules.add(OTHER_SUM)
    damaged = {rule for _, expected in SABOTAGE + ON_POSTGRES for rule, _ in violations_in(expected)}
    assert rules - {DELIVERED_LATE} == damaged == set(RULES.values())


# Damage to the schema, and the beginning of the sentence that the check must report.
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
