"""A closed day is proven by the check: its sums, lines and differences still give the bridge that was signed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

import pytest
from peewee import DatabaseError

from tests.conftest import MovableClock
from tests.services.reconciliation.days.closing import SECOND, close, end_reviews, store, three_days
from tests.services.reconciliation.statement_files import with_balances
from tests.support.books import check_everything
from tests.support.example_client import OPERATOR
from tests.support.unguarded import without_triggers
from ussd_server.bootstrap import Services
from ussd_server.models.statements import (
    ClosedDay,
    DayProof,
    DifferenceInStatement,
    StatementDay,
    StatementDifference,
)
from ussd_server.models.transactions import Transaction
from ussd_server.services.reconciliation.days import lines
from ussd_server.services.reconciliation.days.proofs import OTHER_BOOKS, OTHER_PROOF


@pytest.fixture
def closed(services: Services, clock: MovableClock, day: date) -> date:
    """A day that was closed with a difference, and with a held movement."""
    rows = three_days(services, clock)
    failed, moved = rows[2].copy(), ["F-2", "another", *rows[2][2:]]
    failed[:4] = ["F-1", "unknown", failed[2], "Failed"]
    store(services, with_balances([*rows[:2], failed, moved, *rows[2:]]))
    end_reviews(services)
    close(services, day, SECOND)
    return day


def faults(services: Services) -> list[tuple[str, str]]:
    found = check_everything(vault=services.runtime.vault)
    return [(each.id, each.rule) for each in found if each.part == "closed_days"]


def _forget_a_line() -> None:
    row = StatementDay.select().order_by(StatementDay.line_count.desc()).get()
    kept = list(lines.lines_of([row.statement_id], [row.day]))[1:]
    packed = lines.PackedDays()
    for line in kept:
        packed.append(line)
    ((_, count, written),) = packed.parts()
    StatementDay.update(lines=written, line_count=count).where(StatementDay.id == row.id).execute()


DAMAGE: dict[str, tuple[Callable[[], object], str]] = {
    "their sum": (lambda: ClosedDay.update(theirs_cents=ClosedDay.theirs_cents + 1).execute(), OTHER_PROOF),
    "our sum": (lambda: ClosedDay.update(ours_cents=0).execute(), OTHER_PROOF),
    "the bridge": (lambda: ClosedDay.update(bridge=[]).execute(), OTHER_PROOF),
    "who closed it": (lambda: ClosedDay.update(closed_by="Someone").execute(), OTHER_PROOF),
    "who confirmed it": (lambda: ClosedDay.update(confirmed_by="Someone").execute(), OTHER_PROOF),
    "its statements": (lambda: DayProof.update(statements=[]).execute(), OTHER_PROOF),
    "the digest": (lambda: DayProof.update(digest="1:00").execute(), OTHER_PROOF),
    "an unreadable proof": (lambda: DayProof.update(content="").execute(), OTHER_PROOF),
    "a payment": (
        lambda: Transaction.update(amount_cents=1).where(Transaction.amount_cents == 500_000).execute(),
        OTHER_BOOKS,
    ),
    "a line": (_forget_a_line, OTHER_BOOKS),
    "all lines": (lambda: StatementDay.delete().execute(), OTHER_BOOKS),
    "a reason": (
        lambda: (
            StatementDifference.update(reason="another").where(StatementDifference.ended_at.is_null(False)).execute()
        ),
        OTHER_BOOKS,
    ),
    "a movement": (lambda: StatementDifference.update(movement_id=None).execute(), OTHER_BOOKS),
    "a review": (
        lambda: StatementDifference.update(ended_at=None, ended_by=None, reason=None).execute(),
        OTHER_BOOKS,
    ),
    "a difference": (lambda: DifferenceInStatement.delete().execute(), OTHER_BOOKS),
}


@pytest.mark.both_databases
@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_changed_at_the_database_prompt_is_named_with_its_day(
    services: Services, closed: date, name: str
) -> None:
    change, fault = DAMAGE[name]
    assert faults(services) == []
    with without_triggers():
        change()
    assert faults(services) == [(f"sandbox {closed}", fault)]


def test_the_database_refuses_to_change_a_closed_day_its_proof_and_its_lines(services: Services, closed: date) -> None:
    assert closed
    for change in (
        ClosedDay.update(theirs_cents=0),
        ClosedDay.update(closed_by="Someone"),
        ClosedDay.delete(),
        DayProof.update(statements=[]),
        DayProof.delete(),
        StatementDay.update(day="2026-01-01"),
        StatementDay.delete().where(StatementDay.day == closed.isoformat()),
    ):
        with pytest.raises(DatabaseError, match="are never"):
            change.execute()


def test_later_changes_of_a_closed_day_are_no_violation(
    services: Services,
    clock: MovableClock,
    closed: date,
) -> None:
    rows = three_days(services, clock)
    store(services, rows)
    end_reviews(services)
    close(services, closed + timedelta(days=3))
    assert DayProof.select().count() == 2
    assert faults(services) == []


def test_a_day_that_was_closed_as_empty_has_a_proof_too(services: Services, clock: MovableClock, day: date) -> None:
    three_days(services, clock)
    clock.advance(5 * 86_400)
    close(services, day + timedelta(days=3), is_empty=True)
    assert DayProof.select().count() == 1
    assert faults(services) == []
    with without_triggers():
        ClosedDay.update(theirs_cents=1, ours_cents=1).execute()
    assert [fault for _, fault in faults(services)] == [OTHER_PROOF]


def test_proofs_live_on_under_a_new_master_key_and_a_forged_one_stays_forged(services: Services, closed: date) -> None:
    services.master_keys.add(OPERATOR)
    services.master_keys.rekey(OPERATOR)
    services.master_keys.retire(OPERATOR)
    assert faults(services) == []
    with without_triggers():
        ClosedDay.update(theirs_cents=0).execute()
    services.master_keys.add(OPERATOR)
    services.master_keys.rekey(OPERATOR)
    assert [fault for _, fault in faults(services)] == [OTHER_PROOF]
    services.master_keys.retire(OPERATOR)


def test_a_day_of_several_parts_is_read_in_its_order(
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
    clock: MovableClock,
    day: date,
) -> None:
    monkeypatch.setattr(lines, "_LINES_IN_PART", 2)
    store(services, three_days(services, clock))
    counts = [row.line_count for row in StatementDay.select().where(StatementDay.day == day.isoformat())]
    assert sorted(counts) == [1, 2]
    assert close(services, day).theirs_cents == 1_500_000
