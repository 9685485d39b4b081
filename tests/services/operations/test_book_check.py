"""The check of the books finds nothing in clean books, can stop and go on, and knows past days."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from tests.conftest import MovableClock
from tests.services.operations.conftest import Scene
from tests.services.webhooks.receivers import subscribe
from tests.support.books import check_everything
from tests.support.money import a_client, deposit, operator, request, work
from tests.support.unguarded import without_triggers
from ussd_server.bootstrap import Services
from ussd_server.cli import main
from ussd_server.database.unit_of_work import database, is_postgres, release_connection
from ussd_server.models.clients import Client
from ussd_server.models.operations import HistoryDigest
from ussd_server.models.sending import Delivery
from ussd_server.models.transactions import Transaction
from ussd_server.services.operations.book_check import history as check_history
from ussd_server.services.operations.book_check.check import MarkError, check_ranges
from ussd_server.services.operations.book_check.examinations import keep_check, recent_since
from ussd_server.services.operations.book_check.history_digests import OTHER_DIGEST, OTHER_PAST
from ussd_server.services.operations.messages import BoundedCheck
from ussd_server.services.transactions.messages import TransactionView
from ussd_server.settings import Settings

_DAY_SECONDS = 86_400


def test_clean_books_show_nothing_and_no_range_reads_a_whole_table(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = database.obj.execute_sql
    plans = set()

    def explain_too(sql: str, given: Any = None) -> Any:
        if given and "low" in given:
            explained = f"EXPLAIN {'' if is_postgres() else 'QUERY PLAN '}{sql}"
            plans.update(str(line[-1]) for line in execute(explained, given).fetchall())
        return execute(sql, given)

    monkeypatch.setattr(database.obj, "execute_sql", explain_too)
    assert check_everything() == []
    assert check_everything(batch=1) == []
    assert plans
    tables = "|".join(database.get_tables())
    whole = re.compile(rf"Seq Scan|SCAN ({tables})\b(?!.* USING)")
    assert [line for line in plans if whole.search(line)] == []


def test_a_delivery_that_is_never_due_is_named(services: Services) -> None:
    call = a_client()
    subscribe(services, call, "http://127.0.0.1:1024")
    services.transactions.create(request(), call)
    services.relay.run()
    Delivery.update(due_at=datetime(2199, 1, 1, tzinfo=UTC)).where(Delivery.due_at.is_null(False)).execute()
    assert [str(one) for one in check_everything()] == [f"Delivery {Delivery.get().id} has a due time far ahead."]


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
def test_a_service_time_that_was_edited_is_reported(services: Services, mistake: str, sentence: str) -> None:
    assert check_everything() == []
    database.execute_sql(mistake)
    assert [str(one) for one in check_everything()] == [f"The row of service_clock {sentence}."]


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
    assert sum(rows for part, rows in whole if part == "transactions") == Transaction.select().count()


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
                services.transactions.create(
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
    assert ", uses of movements 3, API keys 2, " in clean.output
    piece = orjson.loads(CliRunner().invoke(main, ["check", "--json", "--ranges", "2", "--batch", "1"]).output)
    first = min(client.id for client in Client.select())
    assert (piece["ok"], piece["rows"], piece["mark"]) == (True, {"schema": 1, "clients": 1}, f"clients:{first}")
    rest = orjson.loads(CliRunner().invoke(main, ["check", "--json", "--from", piece["mark"]]).output)
    assert (rest["ok"], rest["rows"]["clients"], rest["mark"]) == (True, 2, None)
    wrong = CliRunner().invoke(main, ["check", "--from", "x"])
    assert wrong.exit_code == 2
    database.execute_sql(
        "ALTER TABLE ledger_accounts DISABLE TRIGGER USER" if is_postgres() else "DROP TRIGGER ledger_accounts_guard"
    )
    database.execute_sql(f"UPDATE ledger_accounts SET balance_cents = 1000000 WHERE id = '{scene['main']}'")
    broken = CliRunner().invoke(main, ["check", "--full"])
    assert broken.exit_code == 1
    assert f"Account {scene['main']} has a balance or reservation that differs from its transfers.\n" in broken.output
    reported = orjson.loads(CliRunner().invoke(main, ["check", "--json"]).output)
    assert {(one["part"], one["id"]) for one in reported["violations"] if one["part"] != "schema"} == {
        ("clients", scene["client"]),
        ("accounts", scene["main"]),
    }


def test_a_check_looks_at_what_is_new_and_once_a_month_and_after_a_violation_at_everything(
    services: Services, clock: MovableClock
) -> None:
    def check(*, is_full: bool = False) -> tuple[set[str], bool]:
        """What a check finds, as the command makes it, and whether it looks at everything."""
        now = clock.now()
        since = None if is_full else recent_since(now)
        checked = list(check_ranges(now=now, since=since))
        found = tuple(each.id for one in checked for each in one.violations)
        keep_check(BoundedCheck({}, found, None), now, is_whole=True, since=since)
        return set(found), since is None

    call = a_client()
    old = services.transactions.create(request(reference="old"), call).transaction.transaction_id
    assert check() == (set(), True)
    clock.advance(29 * _DAY_SECONDS)
    assert check() == (set(), False)
    clock.advance(2 * _DAY_SECONDS)
    assert check() == (set(), True), "a month has passed"
    clock.advance(20 * _DAY_SECONDS)
    new = services.transactions.create(request(reference="new"), call).transaction.transaction_id
    assert check(is_full=True) == (set(), True)
    clock.advance(_DAY_SECONDS)
    with without_triggers():
        Transaction.update(description="edited").where(Transaction.id == old).execute()
    assert check() == (set(), False)
    with without_triggers():
        Transaction.update(description="edited").where(Transaction.id == new).execute()
    assert check() == ({new}, False)
    assert check() == ({old, new}, True)


def test_the_check_compares_every_field_of_a_transaction_that_its_events_show() -> None:
    columns = {each.name for each in fields(TransactionView)} & set(Transaction._meta.fields)
    compared = {*check_history._FIXED, *check_history._MOVING, "updated_at"}
    assert columns <= compared, "put -- fixed behind a new column that never changes"


_OF_A_FAILED_PAYMENT = (
    "{} transaction_events {} WHERE transaction_id = '{{collection_01}}'",
    "{} events {} WHERE object_id = '{{collection_01}}'",
    "{} transactions {} WHERE id = '{{collection_01}}'",
)
_REMOVED = [each.format("DELETE FROM", "") for each in _OF_A_FAILED_PAYMENT]
_MOVED = [each.format("UPDATE", "SET client_id = '{other}'") for each in _OF_A_FAILED_PAYMENT]


@pytest.fixture
def past(scene: Scene, services: Services, clock: MovableClock) -> Scene:
    """The scene, whose day is over, and two days after it."""
    clock.advance(26 * 3600)
    assert services.history_digests.write() == 1
    clock.advance(2 * 86_400)
    assert services.history_digests.write() == 2
    assert services.history_digests.write() == 0
    return scene


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("statements", "clients"),
    [
        (_REMOVED, {"client"}),
        (_MOVED, {"client", "other"}),
        (
            [
                "UPDATE transaction_events SET provider_call = '{{}}' WHERE transaction_id = '{collection_04}' "
                "AND sequence = 2"
            ],
            {"client"},
        ),
        (
            ["UPDATE transaction_events SET detail = 'x' WHERE transaction_id = '{collection_04}' AND sequence = 2"],
            {"client"},
        ),
        (
            [
                "UPDATE transaction_events SET source = 'operator' WHERE transaction_id = '{collection_04}' "
                "AND sequence = 2"
            ],
            {"client"},
        ),
        (["UPDATE transactions SET request_digest = 'x' WHERE id = '{collection_04}'"], {"client"}),
    ],
)
def test_a_payment_of_a_past_day_that_is_not_what_it_was_is_named(
    past: Scene, services: Services, statements: list[str], clients: set[str]
) -> None:
    assert check_everything(vault=services.runtime.vault) == []
    with without_triggers():
        for statement in statements:
            database.execute_sql(statement.format_map(past))
    found = check_everything(vault=services.runtime.vault)
    assert {(one.id, one.rule) for one in found} == {(past[name], OTHER_PAST) for name in clients}


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE history_digests SET clients = '{{}}' WHERE day = '{day}'", 0),
        ("UPDATE history_digests SET digest = '{digest}' WHERE day = '{day}'", 0),
        ("DELETE FROM history_digests WHERE day = '{day}'", 1),
    ],
)
def test_a_digest_of_a_past_day_that_was_changed_or_removed_is_named(
    past: Scene, services: Services, statement: str, place: int
) -> None:
    first, second, _ = HistoryDigest.select().order_by(HistoryDigest.id)
    with without_triggers():
        database.execute_sql(statement.format(day=first.day, digest=second.digest))
    (found,) = check_everything(vault=services.runtime.vault)
    assert (found.id, found.rule) == ((first, second)[place].day, OTHER_DIGEST)
    assert str(found) == f"The past of {found.id} {OTHER_DIGEST}."


def test_digests_of_past_days_outlive_the_rotation_of_the_master_keys(past: Scene, services: Services) -> None:
    master_keys = services.master_keys
    master_keys.add(operator())
    master_keys.rekey(operator())
    master_keys.retire(operator())
    assert check_everything(vault=services.runtime.vault) == []
