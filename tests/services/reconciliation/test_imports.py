"""Imports of statements: dry run, doubt, short transactions, processes that die, and taking an import back."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.services.reconciliation.days.closing import pay
from tests.services.reconciliation.statement_files import csv_file, mtn_row, open_reviews, reconcile
from tests.support.money import a_client, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent
from ussd_server.models.movements import Movement
from ussd_server.models.statements import (
    DifferenceInStatement,
    ProviderStatement,
    StatementCoverage,
    StatementDay,
    StatementDifference,
)
from ussd_server.models.transactions import Transaction
from ussd_server.services.movements.messages import EndMovement, ListMovements, MovementView
from ussd_server.services.reconciliation import imports
from ussd_server.services.reconciliation.messages import (
    ConcludeFromStatement,
    DifferenceView,
    EndDifference,
    ListDifferences,
    UndoImport,
)
from ussd_server.status import Code, ServiceError
from ussd_server.wire import ListPage

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
FOREIGN = ["", "", "2026-11-20 14:03:12", "Successful", "Payment", "", "", "5,000", "UGX", "", ""]
SILENT = "+256770000007"


class DiedError(BaseException):
    """The process ends here: nothing after it runs."""


def foreign(count: int, first: int = 0) -> list[list[str]]:
    """Lines of payments that we do not know."""
    return [[f"foreign {number}", *FOREIGN[1:]] for number in range(first, first + count)]


def without_id(time: str) -> list[str]:
    return ["", "", f"2026-11-20 {time}", *FOREIGN[3:5], "256772123456", *FOREIGN[6:]]


def failed_there(services: Services, clock: MovableClock) -> list[str]:
    """The line of a payment that succeeded here and failed there, which is a difference until an operator ends it."""
    return mtn_row(pay(services, clock), Status="Failed")


def die(*_: object, **__: object) -> None:
    raise DiedError


def store(services: Services, content: bytes) -> str:
    """Import a statement, whatever it looks like, and return its id."""
    result = reconcile(services, content)
    assert result.is_stored
    return result.statement.statement_id


def reviews(services: Services) -> list[DifferenceView]:
    """The open reviews, the oldest first."""
    return list(reversed(open_reviews(services)))


def held(services: Services) -> list[MovementView]:
    """The held movements, the oldest first."""
    asked = ListMovements(is_held=True, limit=10_000)
    return list(reversed(services.movements.list(asked, operator()).items))


def line_of(movement: MovementView) -> int | None:
    return movement.line.line if movement.line else None


def undo(services: Services, statement_id: str) -> None:
    services.provider_statements.undo(UndoImport(statement_id, "Ann", "Ben"), operator())


def clean(services: Services) -> None:
    while services.provider_statements.clean():
        continue


def rows() -> tuple[int, int]:
    return StatementDifference.select().count(), DifferenceInStatement.select().count()


def listed(services: Services) -> list[str]:
    page = services.provider_statements.list(ListPage(), operator())
    return [each.statement_id for each in page.items]


def test_a_dry_run_finds_the_same_and_stores_nothing(services: Services) -> None:
    content = csv_file(foreign(3))
    dry = reconcile(services, content, is_dry_run=True)
    assert (dry.is_stored, dry.is_repeat, rows(), listed(services)) == (False, False, (0, 0), [])
    stored = reconcile(services, content)
    assert list(stored.differences()) == list(dry.differences())
    assert stored.statement.lines == dry.statement.lines
    again = reconcile(services, content, is_dry_run=True)
    assert (again.is_repeat, again.doubt, again.statement.statement_id) == (True, None, stored.statement.statement_id)


def test_a_statement_that_looks_like_the_wrong_file_is_stored_with_a_confirmation_only(services: Services) -> None:
    fees = [[f"fee {number}", *FOREIGN[1:4], "Fee", *FOREIGN[5:]] for number in range(1002)]
    for lines, is_doubtful in (
        (foreign(1), True),
        (foreign(1) + fees[:1], False),
        (foreign(2) + fees[:1], True),
        (foreign(1000) + fees, False),
        (foreign(1001) + fees, True),
    ):
        result = reconcile(services, lines, is_dry_run=True)
        assert (result.doubt is not None) is is_doubtful, len(lines)
    refused = reconcile(services, foreign(2) + fees[:1], is_confirmed=False)
    assert refused.doubt == "day.csv looks like the wrong file: 2 differences in 3 lines."
    assert (refused.is_stored, rows(), listed(services), AuditEvent.select().count()) == (False, (0, 0), [], 0)


def test_an_import_is_written_in_transactions_of_bounded_size(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    written = imports.insert_differences

    def insert(batch: Sequence[dict[str, Any]]) -> None:
        sizes.append(len(batch))
        written(batch)

    monkeypatch.setattr(imports, "insert_differences", insert)
    store(services, csv_file(foreign(600)))
    assert sum(sizes) == 600
    assert max(sizes) <= 250


@ON_SQLITE
def test_other_writers_get_the_lock_between_the_transactions_of_an_import_and_of_its_removal(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = services.settings.database_url.removeprefix("sqlite:///")
    turns: list[float] = []

    def rest(seconds: float) -> None:
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        other.close()
        turns.append(seconds)

    monkeypatch.setattr("ussd_server.database.sqlite.time", SimpleNamespace(sleep=rest))
    statement_id = store(services, csv_file(foreign(500)))
    # Of its row, 250 differences each, the lines of the day, what it covers, 250 held movements each, and its end.
    assert (len(turns), all(turns)) == (8, True), "after each transaction others have as much time as it took"
    undo(services, statement_id)
    clean(services)
    assert len(turns) == 8 + 3
    assert rows() == (0, 0)
    assert (StatementDay.select().count(), StatementCoverage.select().count()) == (0, 0)


def test_an_import_that_dies_at_any_step_is_not_listed_and_the_same_file_is_then_imported_whole(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "_ROWS", 20)
    content = csv_file([*foreign(28), without_id("10:00:00"), without_id("11:00:00")])
    for step in range(6):
        left = step

        def die_at(original: Any, *given: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                raise DiedError
            left -= 1
            return original(*given, **named)

        with monkeypatch.context() as patch:
            for name in ("insert_differences", "hold_unknown_lines", "write_audit_event"):
                original = getattr(imports, name)
                patch.setattr(imports, name, lambda *g, original=original, **n: die_at(original, *g, **n))
            if step < 5:
                with pytest.raises(DiedError):
                    store(services, content)
                assert (reviews(services), listed(services)) == ([], [])
                assert len(held(services)) == {3: 20, 4: 30}.get(step, 0), "each line is held once"
                continue
            statement_id = store(services, content)
    assert listed(services) == [statement_id]
    assert (reviews(services), [line_of(each) for each in held(services)]) == ([], list(range(4, 34)))
    assert {each.line.statement_id for each in held(services) if each.line} == {statement_id}
    assert reconcile(services, content).is_repeat
    found = held(services)
    clean(services)
    assert rows() == (30, 30), "what the imports that died had written is removed"
    assert held(services) == found


def test_what_operators_use_of_an_import_that_died_stays_used_and_is_not_held_again(
    services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = csv_file([*foreign(1), without_id("10:00:00")])

    def import_and_die() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(imports, "write_audit_event", die)
            with pytest.raises(DiedError):
                store(services, content)

    import_and_die()
    assert [each.line for each in held(services)] == [None, None], "no page shows a line of an import that died"
    for each in held(services):
        services.movement_uses.take_as_own(EndMovement(each.movement_id, "Float", "Ann", "Ben"), operator())
    import_and_die()
    clock.advance(timedelta(days=1, minutes=1).total_seconds())
    clean(services)
    statement_id = store(services, content)
    assert held(services) == []
    assert Movement.select().count() == 2
    with pytest.raises(ServiceError, match="The import stays"):
        undo(services, statement_id)


def test_the_rows_of_an_import_that_died_are_removed_after_a_day_and_those_of_a_running_one_stay(
    services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(imports, "write_audit_event", die)
        with pytest.raises(DiedError):
            store(services, csv_file(foreign(3)))
    clean(services)
    assert (rows(), len(held(services))) == ((3, 3), 3)
    shared = store(services, csv_file(foreign(2)))
    assert [each.line and each.line.statement_id for each in held(services)][:2] == [shared, shared]
    clock.advance(timedelta(days=1, minutes=1).total_seconds())
    clean(services)
    assert (rows(), len(held(services))) == ((2, 2), 2)


def test_an_import_that_another_import_of_the_same_file_replaced_ends_in_one_sentence(
    services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = csv_file(foreign(3))
    written, ids = imports.insert_differences, []

    def interrupted(batch: Sequence[dict[str, Any]]) -> None:
        written(batch)
        if not ids:
            ids.append("")
            imports._remove(ProviderStatement.get(), clock.now())

    monkeypatch.setattr(imports, "insert_differences", interrupted)
    with pytest.raises(ServiceError, match="imported at the same moment"):
        store(services, content)
    assert (reviews(services), held(services)) == ([], [])
    assert reconcile(services, content).is_repeat is False


def test_a_file_whose_import_is_undone_while_it_is_compared_again_is_imported_anew(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, stored_id = reconcile(services, foreign(3)).statement.statement_id, imports.stored_id

    def undone(account: str, digest: str) -> str | None:
        known_id = stored_id(account, digest)
        services.provider_statements.undo(UndoImport(first, "Mary Akello", "John Okot"), operator())
        return known_id

    monkeypatch.setattr(imports, "stored_id", undone)
    again = reconcile(services, foreign(3))
    assert (again.is_stored, again.is_repeat) == (True, False)
    assert again.statement.statement_id != first


def test_an_import_is_undone_by_two_people_and_can_come_again(services: Services) -> None:
    content = csv_file(foreign(3))
    statement_id = store(services, content)
    statements = services.provider_statements
    for by, second in (("Ann", " ann "), ("", "Ben")):
        with pytest.raises(ServiceError, match="Two different people"):
            statements.undo(UndoImport(statement_id, by, second), operator())
    before = held(services)
    (difference, *_) = services.differences.list(ListDifferences(statement_id), operator()).items
    statements.undo(UndoImport(statement_id, "Ann", "Ben", "the file of another account"), operator())
    event = AuditEvent.get(AuditEvent.action == "statement.undone")
    assert (event.object_id, event.decided_by, event.reason) == (
        statement_id,
        "Ann, Ben",
        "the file of another account",
    )
    for gone in (
        lambda: statements.show(statement_id, operator()),
        lambda: undo(services, statement_id),
        lambda: services.differences.show(difference.difference_id, operator()),
        lambda: services.differences.end(EndDifference(difference.difference_id, "why"), operator()),
        lambda: services.differences.list(ListDifferences(statement_id), operator()),
    ):
        with pytest.raises(ServiceError) as refused:
            gone()
        assert refused.value.code is Code.NOT_FOUND
    assert (held(services), listed(services)) == ([], [])
    again = store(services, content)
    assert again != statement_id
    found = held(services)
    assert [each.movement_id for each in found] == [each.movement_id for each in before]
    assert {each.line.statement_id for each in found if each.line} == {again}
    clean(services)
    assert rows() == (3, 3)
    assert held(services) == found


def test_an_import_stays_once_the_review_of_a_difference_has_ended(services: Services, clock: MovableClock) -> None:
    call = a_client()
    made = services.transactions.create(request(number=SILENT), call).transaction.transaction_id
    work(services, clock, 2.5)
    silent = Transaction.get_by_id(made)
    paid = [failed_there(services, clock) for _ in range(4)]
    concluded = store(services, csv_file([mtn_row(silent, Id="S-1"), *paid[:2]]))
    other = store(services, csv_file(paid[:3]))
    differences = services.differences
    (of_payment, *_, last) = reviews(services)
    differences.conclude(ConcludeFromStatement(of_payment.difference_id, "their statement", "Ann", "Ben"), operator())
    with pytest.raises(ServiceError, match="The import stays"):
        undo(services, concluded)
    differences.end(EndDifference(last.difference_id, "known"), operator())
    with pytest.raises(ServiceError, match="The import stays"):
        undo(services, other)
    clock.advance(60)
    at_once = store(services, csv_file(paid[3:]))
    differences.end(EndDifference(reviews(services)[-1].difference_id, "known"), operator())
    with pytest.raises(ServiceError, match="The import stays"):
        undo(services, at_once)
    clock.advance(60)
    # The difference that ended before does not keep a statement that has it too.
    later = store(services, csv_file([paid[2], *foreign(1)]))
    undo(services, later)
    clean(services)
    assert services.differences.show(last.difference_id, operator()).ended_by == "operator"
    assert Transaction.get_by_id(made).status == "succeeded"


def test_a_line_of_two_statements_stays_with_the_other_one(services: Services, clock: MovableClock) -> None:
    paid = [failed_there(services, clock) for _ in range(4)]
    first = store(services, csv_file([*paid[:3], *foreign(3)]))
    second = store(services, csv_file([*paid, *foreign(3, first=1)]))
    open_before, held_before = reviews(services), held(services)
    assert [each.statement_id for each in open_before] == [first] * 3 + [second]
    assert [each.line and each.line.statement_id for each in held_before] == [first] * 3 + [second]
    undo(services, first)
    clean(services)
    open_after, held_after = reviews(services), held(services)
    assert [(each.statement_id, each.line) for each in open_after] == [(second, line) for line in (4, 5, 6, 7)]
    assert [each.difference_id for each in open_after] == [each.difference_id for each in open_before]
    assert [each.receipts for each in held_after] == [("foreign 1",), ("foreign 2",), ("foreign 3",)]
    assert [(each.line.statement_id, each.line.line) for each in held_after if each.line] == [
        (second, line) for line in (8, 9, 10)
    ]
    assert [each.movement_id for each in held_after] == [each.movement_id for each in held_before[1:]]
