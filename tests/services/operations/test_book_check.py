"""The invariant check finds every kind of violation, finds nothing in clean books, and can stop and go on."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event, Thread

import orjson
import pytest
from click.testing import CliRunner

from tests.conftest import MovableClock
from tests.services.webhooks.receivers import subscribe
from tests.support.books import check_everything
from tests.support.money import a_client, deposit, request, work
from tests.support.shop import PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.cli import main
from ussd_server.context import RequestContext
from ussd_server.database.ids import new_id
from ussd_server.database.unit_of_work import database, is_postgres, release_connection
from ussd_server.messages.payouts import CreatePayout, NamePayout
from ussd_server.messages.transactions import CreateRefund
from ussd_server.messages.ussd import BeginSession
from ussd_server.models.ledger import Account
from ussd_server.models.transactions import Transaction
from ussd_server.models.webhooks import Delivery
from ussd_server.services.operations import book_check as check
from ussd_server.services.operations import book_check_history as check_history
from ussd_server.services.operations.book_check import MarkError, check_ranges
from ussd_server.services.operations.book_check_money import NAME_RULES
from ussd_server.settings import Settings

Scene = dict[str, str]


@pytest.fixture
def scene(services: Services, clock: MovableClock) -> Scene:
    """A client whose payments ended in every way, and one whose books are left alone."""
    call, other = a_client(), a_client("Other")
    deposit(services, other, 500)
    deposit(services, call, 100_000)
    names = {"client": call.client_id, "other": other.client_id}
    for number in ("00", "01", "04", "06", "07", "09"):
        for kind in ("collection", "disbursement"):
            recorded = services.transactions.transactions.create(request(kind, f"+2567700000{number}", 1000), call)
            names[f"{kind}_{number}"] = recorded.transaction.transaction_id
    work(services, clock, 12)
    refund = services.transactions.refunds.create(CreateRefund(names["collection_00"], "back"), call)
    names["refund"] = refund.transaction.transaction_id
    work(services, clock, 1)
    names["copy"] = "ffffffff-0000-7000-8000-000000000000"
    names["payout"] = _completed_payout(services, clock, call)
    names["row"] = Transaction.get(Transaction.payout_id == names["payout"]).id
    names["deposit"] = Transaction.get(Transaction.client_id == call.client_id, Transaction.type == "deposit").id
    names["session"] = _ended_session(services, clock)
    keyed = services.transactions.transactions.create(request(shillings=1, idempotency_key="mine"), call)
    names["keyed"] = keyed.transaction.transaction_id
    services.transactions.transactions.create(request(shillings=1, idempotency_key="mine"), other)
    for account in Account.select().where(Account.client_id == call.client_id):
        names[account.name.partition(":")[0]] = account.id
    names["foreign"] = Account.get(Account.client_id == other.client_id, Account.name == "main").id
    release_connection()
    return names


def _completed_payout(services: Services, clock: MovableClock, call: RequestContext) -> str:
    maker, approver = (replace(call, caller=replace(call.caller, key_id=new_id(clock.now()))) for _ in range(2))
    rows = ({"phone_number": "+256770000000", "amount": 10, "reference": "row"}, {"reference": "invalid"})
    payout_id = services.payouts.payouts.create(CreatePayout("payout", items=rows), maker).payout.payout_id
    services.payouts.payouts.approve(NamePayout(payout_id), approver)
    for _ in range(2):
        services.payouts.sender.advance(payout_id)
        work(services, clock)
    return payout_id


def _ended_session(services: Services, clock: MovableClock) -> str:
    shop = Shop(services)
    session_id = services.ussd.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call).session_id
    clock.advance(300)
    services.ussd.api_sessions.end_expired()
    return session_id


@pytest.fixture
def unguarded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trigger and constraint that could be in the way of a violation is switched off."""
    # The check is made within the transaction that does the harm, so that the harm can be taken back.
    monkeypatch.setattr(check, "_snapshot", nullcontext)
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
        ):
            run(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            named = f"SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = '{table}'::regclass"
            for (constraint,) in run(named).fetchall():
                run(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
        for table, constraint in (
            ("ledger_transfers", "ledger_transfers_hold_id_key"),
            ("transactions", "transactions_provider_reference_key"),
            ("ledger_accounts", "ledger_accounts_client_id_name_key"),
            ("events", "events_object_id_sequence_key"),
            ("payouts", "payouts_client_id_reference_key"),
        ):
            run(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
    else:
        for (trigger,) in run("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            run(f"DROP TRIGGER {trigger}")
        run("PRAGMA ignore_check_constraints = 1")
        run("PRAGMA foreign_keys = 0")
    for index in ("names", "idempotency_key", "confirmation"):
        run(f"DROP INDEX transactions_{index}")
    run("DROP INDEX ledger_transfers_once")
    run("DROP INDEX ledger_transfers_moved_once")


_SUM = "has accounts that do not add up to zero"
_BALANCE = "has a balance or reservation that differs from its transfers"
_STATEMENT = "has a statement that does not follow its transfers"
_NEGATIVE = "has less than nothing"
_STATE = "has a status that contradicts its transfers"
_FOREIGN = "moved money of another client"
_ENDED = "has a hold that was ended by something else than it reserved"
_FORGOTTEN = "is unfinished without a due time or an open review"
_GAP = "has a gap in its events"
_ELSEWHERE = "moved money between other accounts than it names"
_TWICE = "moved the same money twice"
_ENDED_TWICE = "has a hold that was ended twice"
_HISTORY = check_history.BROKEN_HISTORY
_EVENTS_MISSING = check_history.EVENTS_MISSING
_MISSING = check_history.MISSING
_CONTRADICTED = check_history.CONTRADICTED
_FORGED = check_history.FORGED
_NO_COLLECTION = "is a refund of something else than a collection of its client that succeeded"
_TOO_MUCH = "has refunds that exceed it"
_REVERSED = "is reversed without refunds of all of it, or has them and is not reversed"
_AHEAD = "has a lease or a due time far ahead"
_DELIVERED_LATE = "has a due time far ahead"
_UNENDED = "is a session that ended without an event of it, or has such an event and did not end"
_SAME_REFERENCE = "has the reference of another one"
_BOUND_ELSEWHERE = "has an idempotency key that is bound to another one"
_SAME_KEY = "has the idempotency key of another one"
_SAME_CONFIRMATION = "has the confirmation of another one"
_SAME_PROVIDER_REFERENCE = "has the provider reference of another one"
_OTHER_TOTALS = "has other counts or totals than its rows"
_OTHER_ROWS = "has rows that differ from their transactions"
_PAYOUT_STATE = "has a status that contradicts its transactions"
_OWN_APPROVAL = "was approved by its maker"
_NEVER_DUE = "is unfinished without a due time"
_UNREPORTED = "was completed without an event of it, or has such an event and was not completed"
_IN_NO_PAYOUT = "names a payout that does not have it as a row"
_SAME_NAME = "has the name of another one"


def again(kind: str, transaction: str) -> str:
    """The statement that writes a transfer of a transaction once more."""
    rest = """client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id, amount_cents, hold_id,
        created_at"""
    return (
        f"INSERT INTO ledger_transfers (id, {rest}) SELECT '{uuid.uuid4()}', {rest} "
        f"FROM ledger_transfers WHERE kind = '{kind}' AND transaction_id = '{{{transaction}}}'"
    )


# What is done to the books, what the check must say of it, and of which id.
SABOTAGE = [
    ("UPDATE ledger_accounts SET balance_cents = balance_cents + 1 WHERE id = '{main}'",
     {(_SUM, "client"),
      (_BALANCE, "main"), (_STATEMENT, "main")}),
    ("UPDATE ledger_accounts SET reserved_cents = reserved_cents - 1 WHERE id = '{main}'",
     {(_BALANCE, "main")}),
    ("UPDATE ledger_accounts SET reserved_cents = -1 WHERE id = '{foreign}'",
     {(_BALANCE, "foreign"),
      (_NEGATIVE, "foreign")}),
    ("UPDATE ledger_transfers SET amount_cents = amount_cents + 1 WHERE transaction_id = '{collection_00}'",
     {(_BALANCE, "main"), (_STATEMENT, "main"),
      (_BALANCE, "provider"),
      (_STATE, "collection_00")}),
    ("UPDATE ledger_transfers SET credit_account_id = '{foreign}' WHERE transaction_id = '{collection_00}'",
     {(_BALANCE, "main"), (_STATEMENT, "main"),
      (_BALANCE, "foreign"), (_STATEMENT, "foreign"),
      (_FOREIGN, "collection_00")}),
    ("UPDATE ledger_transfers SET purpose = 'fee' WHERE transaction_id = '{collection_06}'",
     {(_STATE, "collection_06"),
      (_ELSEWHERE, "collection_06")}),
    ("DELETE FROM ledger_transfers WHERE transaction_id = '{collection_06}'",
     {(_BALANCE, "main"), (_STATEMENT, "main"),
      (_BALANCE, "provider"),
      (_STATE, "collection_06")}),
    ("UPDATE ledger_transfers SET debit_account_id = '{deposits}' WHERE kind = 'void' "
     "AND transaction_id = '{disbursement_01}'",
     {(_BALANCE, "main"),
      (_BALANCE, "deposits"),
      (_ELSEWHERE, "disbursement_01"),
      (_ENDED, "disbursement_01")}),
    ("UPDATE ledger_transfers SET credit_account_id = '{deposits}' WHERE transaction_id = '{collection_00}'",
     {(_BALANCE, "main"), (_STATEMENT, "main"),
      (_BALANCE, "deposits"),
      (_ELSEWHERE, "collection_00")}),
    ("UPDATE transactions SET status = 'failed' WHERE id = '{collection_00}'",
     {(_STATE, "collection_00"),
      (_HISTORY, "collection_00"),
      (_REVERSED, "collection_00"),
      (_NO_COLLECTION, "refund")}),
    ("UPDATE transactions SET status = 'ambiguous' WHERE id = '{disbursement_01}'",
     {(_STATE, "disbursement_01"),
      (_HISTORY, "disbursement_01"),
      (_FORGOTTEN, "disbursement_01")}),
    ("UPDATE transactions SET due_at = NULL WHERE id = '{collection_07}'",
     {(_FORGOTTEN, "collection_07")}),
    ("UPDATE transactions SET due_at = NULL, review_opened_at = created_at, review_closed_at = created_at "
     "WHERE id = '{collection_07}'",
     {(_FORGOTTEN, "collection_07")}),
    ("UPDATE transactions SET due_at = NULL, review_opened_at = created_at WHERE id = '{collection_07}'", set()),
    ("DELETE FROM transaction_events WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(_HISTORY, "collection_04"),
      (_EVENTS_MISSING, "collection_04")}),
    ("DELETE FROM transaction_events WHERE transaction_id = '{collection_04}'",
     {(_HISTORY, "collection_04"),
      (_EVENTS_MISSING, "collection_04")}),
    ("DELETE FROM events WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_EVENTS_MISSING, "collection_04"),
      (_GAP, "collection_04")}),
    ("DELETE FROM events WHERE object_id = '{collection_04}'",
     {(_EVENTS_MISSING, "collection_04")}),
    (again("move", "collection_00"),
     {(_BALANCE, "main"), (_STATEMENT, "main"),
      (_BALANCE, "provider"),
      (_TWICE, "collection_00"),
      (_STATE, "collection_00")}),
    # Statements.
    ("UPDATE ledger_entries SET balance_cents = balance_cents + 1 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(_STATEMENT, "main")}),
    ("DELETE FROM ledger_entries WHERE posted_us = "
     "(SELECT max(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(_STATEMENT, "main")}),
    ("UPDATE ledger_entries SET posted_us = posted_us + 86400000000 WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(_STATEMENT, "main")}),
    ("UPDATE ledger_entries SET transfer_id = '{collection_04}' WHERE posted_us = "
     "(SELECT min(posted_us) FROM ledger_entries WHERE account_id = '{main}')",
     {(_STATEMENT, "main")}),
    ("UPDATE ledger_entries SET account_id = '{foreign}' WHERE account_id = '{main}'",
     {(_STATEMENT, "main"), (_STATEMENT, "foreign")}),
    # Statuses, histories and events that contradict one another.
    ("UPDATE transaction_events SET status = 'ambiguous' WHERE transaction_id = '{collection_04}' AND sequence = 3",
     {(_CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET status = 'reversed' WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(_HISTORY, "collection_04"), (_CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET status = 'pending' WHERE transaction_id = '{collection_04}' AND sequence = 1",
     {(_HISTORY, "collection_04"), (_CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET created_at = '2020-01-01T00:00:00.000Z' "
     "WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(_CONTRADICTED, "collection_04")}),
    ("UPDATE transaction_events SET client_id = '{other}' WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(_CONTRADICTED, "collection_04")}),
    ("UPDATE events SET client_id = '{other}' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_CONTRADICTED, "collection_04")}),
    ("UPDATE events SET type = 'transaction.succeeded' "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     {(_CONTRADICTED, "collection_01"), (_FORGED, "collection_01")}),
    ("UPDATE events SET type = 'transaction.paid' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_CONTRADICTED, "collection_04"), (_FORGED, "collection_04")}),
    ("UPDATE events SET type = 'webhook.test' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_EVENTS_MISSING, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, '\"amount\":1000', '\"amount\":2000') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, 'submitted', 'pending') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    ("UPDATE events SET payload = replace(payload, '\"completed_at\":\"2', '\"completed_at\":\"1') "
     "WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     {(_FORGED, "collection_01")}),
    ("UPDATE events SET payload = replace(payload, '\"late\":false', '\"late\":true') "
     "WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    ("UPDATE events SET payload = 'nonsense' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    ("UPDATE events SET payload = '[]' WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_FORGED, "collection_04")}),
    ("UPDATE transactions SET description = 'gift' WHERE id = '{collection_04}'",
     {(_FORGED, "collection_04")}),
    ("UPDATE transactions SET metadata = 'nonsense' WHERE id = '{collection_04}'",
     {(_FORGED, "collection_04")}),
    ("UPDATE transactions SET failure_code = 'NOTHING' WHERE id = '{collection_01}'",
     {(_FORGED, "collection_01")}),
    ("UPDATE transactions SET completed_at = created_at WHERE id = '{collection_01}'",
     {(_FORGED, "collection_01")}),
    ("UPDATE transactions SET provider_transaction_id = 'mine' WHERE id = '{disbursement_00}'",
     {(_FORGED, "disbursement_00")}),
    ("UPDATE transactions SET phone_number = '+256770000099' WHERE id = '{collection_04}'",
     {(_FORGED, "collection_04")}),
    ("DELETE FROM transactions WHERE id = '{collection_04}'",
     {(_MISSING, "collection_04"), (_FOREIGN, "collection_04")}),
    ("UPDATE ussd_sessions SET status = 'active', ended_at = NULL WHERE id = '{session}'",
     {(_UNENDED, "session")}),
    ("DELETE FROM events WHERE object_id = '{session}'",
     {(_UNENDED, "session")}),
    ("DELETE FROM ussd_sessions WHERE id = '{session}'",
     {(_UNENDED, "session")}),
    # Refunds.
    ("UPDATE transactions SET status = 'reversed' WHERE id = '{collection_04}'",
     {(_REVERSED, "collection_04"), (_HISTORY, "collection_04")}),
    ("UPDATE transactions SET refund_of = '{disbursement_00}' WHERE id = '{refund}'",
     {(_NO_COLLECTION, "refund"), (_REVERSED, "collection_00"), (_REVERSED, "disbursement_00")}),
    ("UPDATE transactions SET refund_of = NULL WHERE id = '{refund}'",
     {(_NO_COLLECTION, "refund"), (_REVERSED, "collection_00")}),
    ("UPDATE transactions SET amount_cents = amount_cents - 1 WHERE id = '{collection_00}'",
     {(_TOO_MUCH, "collection_00"), (_STATE, "collection_00"), (_FORGED, "collection_00")}),
    # Leases and due times.
    ("UPDATE transactions SET leased_until = '2199-01-01T00:00:00.000Z' WHERE id = '{collection_07}'",
     {(_AHEAD, "collection_07")}),
    ("UPDATE transactions SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{collection_07}'",
     {(_AHEAD, "collection_07")}),
    ("UPDATE ussd_sessions SET working_until = '2199-01-01T00:00:00.000Z' WHERE id = '{session}'",
     {(_AHEAD, "session")}),
    ("UPDATE ussd_sessions SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{session}'",
     {(_AHEAD, "session")}),
    # Payouts.
    ("UPDATE payouts SET total_amount_cents = 1 WHERE id = '{payout}'", {(_OTHER_TOTALS, "payout")}),
    ("DELETE FROM payout_items WHERE payout_id = '{payout}' AND line = 2", {(_OTHER_TOTALS, "payout")}),
    ("UPDATE payout_items SET phone_number = '+256770000099' WHERE transaction_id = '{row}'",
     {(_OTHER_ROWS, "payout")}),
    ("UPDATE payout_items SET transaction_id = NULL WHERE transaction_id = '{row}'",
     {(_OTHER_ROWS, "payout"), (_IN_NO_PAYOUT, "row")}),
    ("UPDATE payouts SET status = 'approved' WHERE id = '{payout}'", {(_PAYOUT_STATE, "payout")}),
    ("UPDATE payouts SET approved_by = created_by WHERE id = '{payout}'", {(_OWN_APPROVAL, "payout")}),
    ("UPDATE payouts SET status = 'running', completed_at = NULL WHERE id = '{payout}'",
     {(_NEVER_DUE, "payout"), (_UNREPORTED, "payout")}),
    ("UPDATE payouts SET due_at = '2199-01-01T00:00:00.000Z' WHERE id = '{payout}'", {(_AHEAD, "payout")}),
    ("DELETE FROM events WHERE object_id = '{payout}' AND type = 'payout.completed'", {(_UNREPORTED, "payout")}),
    # Names.
    ("UPDATE transactions SET reference = (SELECT reference FROM transactions WHERE id = '{collection_04}') "
     "WHERE id = '{disbursement_04}'",
     {(_SAME_REFERENCE, "disbursement_04"), (_FORGED, "disbursement_04")}),
    ("UPDATE transactions SET idempotency_key = 'k' WHERE id IN ('{collection_04}', '{disbursement_04}')",
     {(_SAME_KEY, "disbursement_04")}),
    ("UPDATE idempotency_keys SET transaction_id = '{collection_04}' WHERE client_id = '{client}'",
     {(_BOUND_ELSEWHERE, "keyed")}),
    ("UPDATE transactions SET session_id = '{session}', confirmation = 'c' "
     "WHERE id IN ('{collection_04}', '{disbursement_04}')",
     {(_SAME_CONFIRMATION, "disbursement_04"), (_FORGED, "collection_04"), (_FORGED, "disbursement_04")}),
]  # fmt: skip

# SQLite cannot let go of constraints that are part of a table.
ON_POSTGRES = [
    (again("post", "disbursement_00"),
     {(_BALANCE, "main"), (_STATEMENT, "main"), (_BALANCE, "provider"), (_ENDED_TWICE, "disbursement_00"),
      (_TWICE, "disbursement_00"), (_STATE, "disbursement_00")}),
    ("UPDATE transactions SET provider_reference = "
     "(SELECT provider_reference FROM transactions WHERE id = '{collection_04}') WHERE id = '{disbursement_04}'",
     {(_SAME_PROVIDER_REFERENCE, "disbursement_04"), (_FORGED, "disbursement_04")}),
    ("INSERT INTO payouts SELECT (jsonb_populate_record(payouts, jsonb_build_object('id', '{copy}'))).* "
     "FROM payouts WHERE id = '{payout}'",
     {(_SAME_REFERENCE, "copy"), (_OTHER_TOTALS, "copy"), (_UNREPORTED, "copy")}),
    ("UPDATE ledger_accounts SET name = 'main' WHERE id = '{deposits}'",
     {(_SAME_NAME, "main"), (_ELSEWHERE, "deposit")}),
    ("UPDATE events SET sequence = 1 WHERE object_id = '{collection_01}' AND type = 'transaction.failed'",
     {(_GAP, "collection_01"), (_CONTRADICTED, "collection_01"), (_FORGED, "collection_01")}),
]  # fmt: skip


def test_clean_books_show_nothing(scene: Scene) -> None:
    assert check_everything() == []
    assert check_everything(batch=1) == []


def test_every_kind_of_violation_is_found_and_named(scene: Scene, unguarded: None) -> None:
    for statement, expected in SABOTAGE + (ON_POSTGRES if is_postgres() else []):
        with database.atomic() as harm:
            database.execute_sql(statement.format_map(scene))
            found = [one for one in check_everything() if one.part != "schema"]
            harm.rollback()
        assert {(one.rule, one.id) for one in found} == {(rule, scene[name]) for rule, name in expected}, statement
    assert {one.part for one in check_everything()} == {"schema"}


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
    ("ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_hold_id_key",
     "ledger_transfers has lost or changed the unique index btree (hold_id)"),
    ("DROP INDEX transactions_due;; CREATE INDEX transactions_due ON transactions (due_at)",
     "transactions has lost or changed the index btree (due_at) WHERE due_at IS NOT NULL"),
    ("DROP INDEX transactions_names;; CREATE INDEX transactions_names ON transactions (client_id, reference)",
     "transactions has lost or changed the unique index btree (client_id, reference, (type = 'deposit'::text))"),
    ("ALTER TABLE transactions ALTER amount_cents DROP NOT NULL",
     "transactions has lost or changed the column amount_cents"),
    ("ALTER TABLE fees SET UNLOGGED",
     "fees has lost or changed the durability"),
    ("DROP TABLE worker_pulses",
     "worker_pulses is missing"),
    ("SET LOCAL session_replication_role = replica",
     "database runs no triggers, because session_replication_role is replica"),
    ("DELETE FROM schema_migration WHERE name LIKE '0013%'",
     "database lacks the migration 0013_stepping"),
    ("UPDATE schema_migration SET name = '9999_unheard_of' WHERE name LIKE '0013%'",
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
    ("DROP TABLE worker_pulses",
     "worker_pulses is missing"),
    ("DELETE FROM schema_migration WHERE name LIKE '0013%'",
     "database lacks the migration 0013_stepping"),
]  # fmt: skip


def test_every_guard_that_a_hand_takes_away_is_named(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_snapshot", nullcontext)
    for statements, expected in _GUARDS_ON_POSTGRES if is_postgres() else _GUARDS_ON_SQLITE:
        with database.atomic() as harm:
            for statement in statements.split(";; "):
                database.execute_sql(statement.replace("%", "%%") if is_postgres() else statement)
            sentences = [str(violation) for violation in next(check_ranges()).violations]
            harm.rollback()
        assert [one for one in sentences if one.startswith(f"The schema of {expected}")], (statements, sentences)
    assert next(check_ranges()).violations == ()


def test_a_delivery_that_is_never_due_is_named(services: Services) -> None:
    call = a_client()
    subscribe(services, call, "http://127.0.0.1:1024")
    services.transactions.transactions.create(request(), call)
    services.webhooks.relay.run()
    Delivery.update(due_at=datetime(2199, 1, 1, tzinfo=UTC)).where(Delivery.due_at.is_null(False)).execute()
    assert [str(one) for one in check_everything()] == [f"Delivery {Delivery.get().id} {_DELIVERED_LATE}."]


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        ("DELETE FROM service_clock", "is missing, or cannot be true, so that no process follows it"),
        (
            "UPDATE service_clock SET ahead_ms = 31536000000",
            "puts the service's time more than a day before or after the database's",
        ),
    ],
)
def test_a_service_time_that_a_hand_moved_is_named(services: Services, mistake: str, sentence: str) -> None:
    assert check_everything() == []
    database.execute_sql(mistake)
    assert [str(one) for one in check_everything()] == [f"The row of service_clock {sentence}."]


def test_every_rule_has_a_violation_in_these_tests() -> None:
    rules = {rule for part in check._PARTS.values() for rule in part.rules} | {*check_history.HISTORY_RULES}
    rules |= {rule for named in NAME_RULES.values() for rule in named}
    assert rules - {_DELIVERED_LATE} == {rule for _, expected in SABOTAGE + ON_POSTGRES for rule, _ in expected}


def test_a_stopped_check_goes_on_from_its_mark(scene: Scene) -> None:
    whole = [(checked.part, checked.rows) for checked in check_ranges(batch=5)]
    pieces = []
    mark = None
    while pieces == [] or mark is not None:
        checked = next(check_ranges(mark, batch=5))
        pieces.append((checked.part, checked.rows))
        mark = checked.mark
    assert pieces == whole
    assert max(rows for part, rows in whole if part != "events") == 5
    assert sum(rows for part, rows in whole if part == "transactions") == 17


@pytest.mark.parametrize("mark", ["", "x", "accounts", "accounts:1", "gifts:00000000-0000-0000-0000-000000000000"])
def test_a_mark_that_was_never_given_is_refused(mark: str) -> None:
    with pytest.raises(MarkError):
        next(check_ranges(mark))


def test_the_books_are_whole_at_every_moment_while_payments_are_made(services: Services, clock: MovableClock) -> None:
    call = a_client()
    deposit(services, call, 100_000)
    over = Event()

    def pay() -> None:
        try:
            for number in range(30):
                kind = ("collection", "disbursement")[number % 2]
                services.transactions.transactions.create(
                    request(kind, f"+25677000000{number % 7}", 10, reference=f"r{number}"), call
                )
                work(services, clock, 1)
        finally:
            over.set()
            release_connection()

    payer = Thread(target=pay)
    payer.start()
    checks = 0
    while not over.is_set():
        assert check_everything() == []
        checks += 1
    payer.join()
    assert checks > 2
    assert check_everything() == []


def test_the_command_says_what_is_wrong_by_its_exit_code_and_a_line(
    scene: Scene, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("DATABASE_URL", settings.database_url), ("REDIS_URL", settings.redis_url)):
        monkeypatch.setenv(f"USSD_{name}", value)
    monkeypatch.setenv("USSD_DATA_DIR", str(settings.data_dir))
    clean = CliRunner().invoke(main, ["check"])
    assert (clean.exit_code, clean.output) == (0, clean.output)
    assert "everything is as it must be" in clean.output
    piece = orjson.loads(CliRunner().invoke(main, ["check", "--json", "--ranges", "2", "--batch", "1"]).output)
    first = min(scene["client"], scene["other"])
    assert (piece["ok"], piece["rows"], piece["mark"]) == (True, {"schema": 1, "clients": 1}, f"clients:{first}")
    rest = orjson.loads(CliRunner().invoke(main, ["check", "--json", "--from", piece["mark"]]).output)
    assert (rest["ok"], rest["rows"]["clients"], rest["mark"]) == (True, 2, None)
    wrong = CliRunner().invoke(main, ["check", "--from", "x"])
    assert wrong.exit_code == 2
    database.execute_sql(
        "ALTER TABLE ledger_accounts DISABLE TRIGGER USER" if is_postgres() else "DROP TRIGGER ledger_accounts_guard"
    )
    database.execute_sql(f"UPDATE ledger_accounts SET balance_cents = 1000000 WHERE id = '{scene['main']}'")
    broken = CliRunner().invoke(main, ["check"])
    assert broken.exit_code == 1
    assert f"Account {scene['main']} {_BALANCE}.\n" in broken.output
    reported = orjson.loads(CliRunner().invoke(main, ["check", "--json"]).output)
    assert {(one["part"], one["id"]) for one in reported["violations"] if one["part"] != "schema"} == {
        ("clients", scene["client"]),
        ("accounts", scene["main"]),
    }
