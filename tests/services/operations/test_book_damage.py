"""The check of the books finds every kind of violation."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.services.operations.conftest import Scene
from tests.services.operations.damage import ON_POSTGRES, RULES, SABOTAGE
from tests.support.books import check_everything
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import database, dialect, is_postgres
from ussd_server.services.operations.book_check import check
from ussd_server.services.operations.book_check.history import HISTORY_RULES
from ussd_server.services.operations.book_check.money import NAME_RULES
from ussd_server.services.operations.book_check.payouts import APPROVAL_RULES

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
            "incoming_payments",
        ):
            run(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            named = f"SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = '{table}'::regclass"
            for (constraint,) in run(named).fetchall():
                run(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
        for table, constraint in (
            ("transactions", "transactions_provider_reference_key"),
            ("ledger_accounts", "ledger_accounts_client_id_name_key"),
            ("events", "events_object_id_sequence_key"),
            ("incoming_payments", "incoming_payments_provider_provider_transaction_id_key"),
        ):
            run(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
        run("DROP INDEX ledger_transfers_ends")
    else:
        for (trigger,) in run("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            run(f"DROP TRIGGER {trigger}")
        run("PRAGMA ignore_check_constraints = 1")
        run("PRAGMA foreign_keys = 0")
    for index in ("names", "idempotency_key", "confirmation"):
        run(f"DROP INDEX transactions_{index}")
    run("DROP INDEX ledger_transfers_effects")
    run("DROP INDEX payouts_reference")


def test_every_kind_of_violation_is_found_and_named(scene: Scene, services: Services, unguarded: None) -> None:
    names = {each: name for name, each in scene.items()}
    unlike = []
    for statement, expected in SABOTAGE + (ON_POSTGRES if is_postgres() else []):
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
    damaged = {rule for _, expected in SABOTAGE + ON_POSTGRES for rule, _ in violations_in(expected)}
    assert rules - {DELIVERED_LATE} == damaged == set(RULES.values())
