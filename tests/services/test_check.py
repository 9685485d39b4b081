"""The invariant check finds every kind of violation, finds nothing in clean books, and can stop and go on."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from threading import Event, Thread

import orjson
import pytest
from click.testing import CliRunner

from tests.conftest import MovableClock
from tests.services.books import check_everything
from tests.services.money import a_client, deposit, wish, work
from ussd_server.cli import main
from ussd_server.house import Services
from ussd_server.messages.transactions import CreateRefund
from ussd_server.models.base import database, is_postgres, release_connection
from ussd_server.models.ledger import Account
from ussd_server.services import check
from ussd_server.services.check import MarkError, check_ranges
from ussd_server.settings import Settings

Scene = dict[str, str]


@pytest.fixture
def scene(house: Services, clock: MovableClock) -> Scene:
    """A client whose payments ended in every way, and one whose books are left alone."""
    call, other = a_client(), a_client("Other")
    deposit(house, other, 500)
    deposit(house, call, 100_000)
    names = {"client": call.client_id, "other": other.client_id}
    for number in ("00", "01", "04", "06", "07", "09"):
        for kind in ("collection", "disbursement"):
            recorded = house.transactions.create(wish(kind, f"+2567700000{number}", 1000), call)
            names[f"{kind}_{number}"] = recorded.transaction.transaction_id
    work(house, clock, 12)
    house.refunds.create(CreateRefund(names["collection_00"], "back"), call)
    work(house, clock, 1)
    for account in Account.select().where(Account.client_id == call.client_id):
        names[account.name.partition(":")[0]] = account.id
    names["foreign"] = Account.get(Account.client_id == other.client_id, Account.name == "main").id
    release_connection()
    return names


@pytest.fixture
def unguarded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trigger and constraint that could be in the way of a violation is switched off."""
    # The check is made within the transaction that does the harm, so that the harm can be taken back.
    monkeypatch.setattr(check, "_snapshot", nullcontext)
    run = database.execute_sql
    if is_postgres():
        for table in ("transactions", "transaction_events", "ledger_accounts", "ledger_transfers", "events"):
            run(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            named = f"SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = '{table}'::regclass"
            for (constraint,) in run(named).fetchall():
                run(f"ALTER TABLE {table} DROP CONSTRAINT {constraint}")
        run("ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_hold_id_key")
    else:
        for (trigger,) in run("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            run(f"DROP TRIGGER {trigger}")
        run("PRAGMA ignore_check_constraints = 1")
        run("PRAGMA foreign_keys = 0")
    run("DROP INDEX ledger_transfers_once")
    run("DROP INDEX ledger_transfers_moved_once")


_SUM = "its accounts do not add up to zero"
_BALANCE = "its balance or reservation differs from its transfers"
_NEGATIVE = "it has less than nothing"
_STATE = "its state and its transfers contradict each other"
_FOREIGN = "it moved money of another client"
_ENDED = "a hold of it was ended by something else than it reserved"
_STORY = "its story has a gap or does not end where it stands"
_FORGOTTEN = "it is unfinished, and neither is it due nor does a person look at it"
_UNTOLD = "its client was not told of every change"
_GAP = "its events have a gap"
_ELSEWHERE = "it moved money between other accounts than it names"
_TWICE = "it moved the same money twice"
_ENDED_TWICE = "a hold of it was ended twice"


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
      (_BALANCE, "main")}),
    ("UPDATE ledger_accounts SET reserved_cents = reserved_cents - 1 WHERE id = '{main}'",
     {(_BALANCE, "main")}),
    ("UPDATE ledger_accounts SET reserved_cents = -1 WHERE id = '{foreign}'",
     {(_BALANCE, "foreign"),
      (_NEGATIVE, "foreign")}),
    ("UPDATE ledger_transfers SET amount_cents = amount_cents + 1 WHERE transaction_id = '{collection_00}'",
     {(_BALANCE, "main"),
      (_BALANCE, "provider"),
      (_STATE, "collection_00")}),
    ("UPDATE ledger_transfers SET credit_account_id = '{foreign}' WHERE transaction_id = '{collection_00}'",
     {(_BALANCE, "main"),
      (_BALANCE, "foreign"),
      (_FOREIGN, "collection_00")}),
    ("UPDATE ledger_transfers SET purpose = 'fee' WHERE transaction_id = '{collection_06}'",
     {(_STATE, "collection_06"),
      (_ELSEWHERE, "collection_06")}),
    ("DELETE FROM ledger_transfers WHERE transaction_id = '{collection_06}'",
     {(_BALANCE, "main"),
      (_BALANCE, "provider"),
      (_STATE, "collection_06")}),
    ("UPDATE ledger_transfers SET debit_account_id = '{deposits}' WHERE kind = 'void' "
     "AND transaction_id = '{disbursement_01}'",
     {(_BALANCE, "main"),
      (_BALANCE, "deposits"),
      (_ELSEWHERE, "disbursement_01"),
      (_ENDED, "disbursement_01")}),
    ("UPDATE ledger_transfers SET credit_account_id = '{deposits}' WHERE transaction_id = '{collection_00}'",
     {(_BALANCE, "main"),
      (_BALANCE, "deposits"),
      (_ELSEWHERE, "collection_00")}),
    ("UPDATE transactions SET status = 'failed' WHERE id = '{collection_00}'",
     {(_STATE, "collection_00"),
      (_STORY, "collection_00")}),
    ("UPDATE transactions SET status = 'ambiguous' WHERE id = '{disbursement_01}'",
     {(_STATE, "disbursement_01"),
      (_STORY, "disbursement_01"),
      (_FORGOTTEN, "disbursement_01")}),
    ("UPDATE transactions SET due_at = NULL WHERE id = '{collection_07}'",
     {(_FORGOTTEN, "collection_07")}),
    ("UPDATE transactions SET due_at = NULL, review_opened_at = created_at, review_closed_at = created_at "
     "WHERE id = '{collection_07}'",
     {(_FORGOTTEN, "collection_07")}),
    ("UPDATE transactions SET due_at = NULL, review_opened_at = created_at WHERE id = '{collection_07}'", set()),
    ("DELETE FROM transaction_events WHERE transaction_id = '{collection_04}' AND sequence = 2",
     {(_STORY, "collection_04"),
      (_UNTOLD, "collection_04")}),
    ("DELETE FROM transaction_events WHERE transaction_id = '{collection_04}'",
     {(_STORY, "collection_04")}),
    ("DELETE FROM events WHERE object_id = '{collection_04}' AND sequence = 2",
     {(_UNTOLD, "collection_04"),
      (_GAP, "collection_04")}),
    ("DELETE FROM events WHERE object_id = '{collection_04}'",
     {(_UNTOLD, "collection_04")}),
    (again("move", "collection_00"),
     {(_BALANCE, "main"),
      (_BALANCE, "provider"),
      (_TWICE, "collection_00"),
      (_STATE, "collection_00")}),
]  # fmt: skip

# SQLite cannot let go of the constraint that a hold is ended once.
ON_POSTGRES = [
    (again("post", "disbursement_00"),
     {(_BALANCE, "main"), (_BALANCE, "provider"), (_ENDED_TWICE, "disbursement_00"), (_TWICE, "disbursement_00"),
      (_STATE, "disbursement_00")}),
]  # fmt: skip


def test_clean_books_show_nothing(scene: Scene) -> None:
    assert check_everything() == []
    assert check_everything(batch=1) == []


def test_every_kind_of_violation_is_found_and_named(scene: Scene, unguarded: None) -> None:
    for statement, expected in SABOTAGE + (ON_POSTGRES if is_postgres() else []):
        with database.atomic() as harm:
            database.execute_sql(statement.format_map(scene))
            found = check_everything()
            harm.rollback()
        assert {(one.rule, one.id) for one in found} == {(rule, scene[name]) for rule, name in expected}, statement
    assert check_everything() == []


def test_every_rule_has_a_violation_in_these_tests() -> None:
    rules = {rule for part in check._PARTS.values() for rule in part.rules}
    assert rules == {rule for _, expected in SABOTAGE + ON_POSTGRES for rule, _ in expected}


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
    assert sum(rows for part, rows in whole if part == "transactions") == 15


@pytest.mark.parametrize("mark", ["", "x", "accounts", "accounts:1", "gifts:00000000-0000-0000-0000-000000000000"])
def test_a_mark_that_was_never_given_is_refused(mark: str) -> None:
    with pytest.raises(MarkError):
        next(check_ranges(mark))


def test_the_books_are_whole_at_every_moment_while_payments_are_made(house: Services, clock: MovableClock) -> None:
    call = a_client()
    deposit(house, call, 100_000)
    over = Event()

    def pay() -> None:
        try:
            for number in range(30):
                kind = ("collection", "disbursement")[number % 2]
                house.transactions.create(wish(kind, f"+25677000000{number % 7}", 10, reference=f"r{number}"), call)
                work(house, clock, 1)
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
    piece = orjson.loads(CliRunner().invoke(main, ["check", "--json", "--ranges", "1", "--batch", "1"]).output)
    assert (piece["ok"], piece["rows"], piece["mark"]) == (
        True,
        {"clients": 1},
        f"clients:{min(scene['client'], scene['other'])}",
    )
    rest = orjson.loads(CliRunner().invoke(main, ["check", "--json", "--from", piece["mark"]]).output)
    assert (rest["ok"], rest["rows"]["clients"], rest["mark"]) == (True, 1, None)
    wrong = CliRunner().invoke(main, ["check", "--from", "x"])
    assert wrong.exit_code == 2
    database.execute_sql(
        "ALTER TABLE ledger_accounts DISABLE TRIGGER USER" if is_postgres() else "DROP TRIGGER ledger_accounts_guard"
    )
    database.execute_sql(f"UPDATE ledger_accounts SET balance_cents = 1000000 WHERE id = '{scene['main']}'")
    broken = CliRunner().invoke(main, ["check"])
    assert broken.exit_code == 1
    assert f"accounts {scene['main']}: {_BALANCE}\n" in broken.output
    told = orjson.loads(CliRunner().invoke(main, ["check", "--json"]).output)
    assert (told["ok"], told["number"]) == (False, 2)
    assert {(one["part"], one["id"]) for one in told["violations"]} == {
        ("clients", scene["client"]),
        ("accounts", scene["main"]),
    }
