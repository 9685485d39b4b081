"""A day is compared with all lines of all statements that cover it: no part of a statement closes a whole day."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from tests.conftest import MovableClock
from tests.services.reconciliation.days.closing import (
    BY,
    SECOND,
    at_hour,
    close,
    cover,
    end_reviews,
    pay,
    store,
    three_days,
)
from tests.services.reconciliation.statement_files import (
    MTN,
    csv_file,
    mtn_row,
    open_reviews,
    reconcile,
    with_balances,
)
from tests.support.books import check_everything
from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent
from ussd_server.models.statements import DifferenceInStatement, StatementCoverage, StatementDay
from ussd_server.services.reconciliation.days.coverage import coverage_of
from ussd_server.services.reconciliation.messages import (
    CloseDay,
    ClosedDayView,
    EndDifference,
    UndoImport,
    Verdict,
)
from ussd_server.status import ServiceError
from ussd_server.values import bounds_of_day

NOT_COVERED = "No statement covers this day"
WITHOUT_BALANCE = MTN[:-1]


def steps(closed: ClosedDayView) -> dict[str, tuple[int, int]]:
    return {step.verdict: (step.count, step.amount_cents) for step in closed.bridge}


def test_a_statement_that_was_cut_to_one_line_closes_no_day(services: Services, clock: MovableClock, day: date) -> None:
    rows = three_days(services, clock)
    for cut in ([rows[2]], [[*rows[2][:-1], ""]], [rows[1]], [rows[3]]):
        store(services, cut)
        with pytest.raises(ServiceError, match=NOT_COVERED):
            close(services, day)
    statement_id = store(services, [rows[2], ["", "", *rows[2][2:7], "", "UGX", "", ""]])
    cover(services, statement_id, day)
    with pytest.raises(ServiceError, match="2 payments of ours have no line in its statements"):
        close(services, day)
    assert [(each.verdict, each.ours, each.line) for each in open_reviews(services)] == [
        (Verdict.NOT_THEIRS, 500_000, None)
    ] * 2
    with pytest.raises(ServiceError, match="2 of its differences are open"):
        close(services, day)
    end_reviews(services)
    assert steps(close(services, day)) == {"matched": (1, 0), "not_theirs": (2, 1_000_000)}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_payment_that_a_covered_day_lacks_is_one_difference_however_often_its_file_is_compared(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = three_days(services, clock)[2:4]
    for _ in range(2):
        reconcile(services, rows, covers=(day, day), by=BY, second=SECOND)
    assert DifferenceInStatement.select().count() == 1


def test_a_second_file_of_one_line_does_not_close_a_day_whose_real_statement_has_an_open_difference(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = three_days(services, clock)
    failed = ["F-1", "unknown", rows[2][2], "Failed", *rows[2][4:]]
    store(services, with_balances([*rows[:2], failed, *rows[2:]]))
    assert {each.date for each in services.days.list(operator()) if each.is_covered} == {day.isoformat()}
    for _ in range(2):
        with pytest.raises(ServiceError, match="1 of its differences is open"):
            close(services, day)
        store(services, [rows[2]])
    end_reviews(services)
    assert steps(close(services, day)) == {"matched": (3, 0), "not_ours": (1, 0)}


def test_a_day_is_covered_by_an_unbroken_balance_from_before_it_to_after_it(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = three_days(services, clock)
    for part in (rows[1:], rows[:4], [*rows[:2], *rows[3:]]):
        store(services, part)
        end_reviews(services)
        with pytest.raises(ServiceError, match=NOT_COVERED):
            close(services, day)
    store(services, rows[::-1])
    closed = close(services, day)
    assert (closed.ours_cents, closed.theirs_cents, steps(closed)) == (1_500_000, 1_500_000, {"matched": (3, 0)})
    assert closed.confirmed_by is None


def test_of_the_files_around_a_day_the_nearest_cover_it(services: Services, clock: MovableClock, day: date) -> None:
    rows = with_balances([*three_days(services, clock), *(mtn_row(pay(services, clock)) for _ in range(2))])
    stored = [store(services, part) for part in (rows[:4], rows[4:5], rows[5:6], rows[6:])]
    coverage = coverage_of("sandbox", *bounds_of_day(day))
    assert coverage is not None
    assert coverage.statement_ids == (stored[0], stored[1])


def test_files_whose_balances_join_count_as_one_and_each_receipt_counts_once(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = three_days(services, clock)
    store(services, rows[:3])
    store(services, rows[3:])
    assert [row.kind for row in StatementCoverage.select()] == ["balance", "balance"]
    store(services, rows[1:4])
    closed = close(services, day)
    assert (closed.theirs_cents, steps(closed)) == (1_500_000, {"matched": (3, 0)})
    with pytest.raises(ServiceError, match=NOT_COVERED):
        close(services, day + timedelta(days=1))


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_day_is_covered_by_a_chain_of_files_of_one_line(services: Services, clock: MovableClock, day: date) -> None:
    for line in three_days(services, clock):
        store(services, [line])
    assert steps(close(services, day)) == {"matched": (3, 0)}


def test_a_file_between_two_others_that_is_missing_leaves_its_day_uncovered(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = three_days(services, clock)
    store(services, rows[:1])
    store(services, rows[4:])
    with pytest.raises(ServiceError, match=NOT_COVERED):
        close(services, day)
    store(services, rows[1:4])
    assert steps(close(services, day)) == {"matched": (3, 0)}


def test_without_balances_lines_on_both_sides_cover_a_day(services: Services, clock: MovableClock, day: date) -> None:
    rows = [row[:-1] for row in three_days(services, clock)]

    def stored(*lines: list[str]) -> None:
        reconcile(services, csv_file(lines, WITHOUT_BALANCE))

    for lines in (rows[1:4], rows[:4], rows[1:]):
        stored(*lines)
        with pytest.raises(ServiceError, match=NOT_COVERED):
            close(services, day)
    stored(rows[0], rows[4])
    assert len(open_reviews(services)) == 3
    with pytest.raises(ServiceError, match="3 of its differences are open"):
        close(services, day)
    end_reviews(services)
    assert steps(close(services, day)) == {"not_theirs": (3, 1_500_000)}


def test_a_difference_of_a_part_is_taken_over_by_the_covering_statement_that_has_its_line(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = three_days(services, clock)
    store(services, [rows[1], rows[3]])
    (lacking,) = open_reviews(services)
    assert lacking.verdict is Verdict.NOT_THEIRS
    failed = [*rows[2][:3], "Failed", *rows[2][4:]]
    store(services, with_balances([*rows[:2], failed, *rows[3:]]))
    with pytest.raises(ServiceError, match="1 of its differences is open"):
        close(services, day)
    (_, differs) = sorted(open_reviews(services), key=lambda each: each.opened_at)
    services.differences.end(EndDifference(differs.difference_id, "explained", BY), operator())
    closed = close(services, day)
    assert steps(closed) == {"matched": (2, 0), "status_differs": (1, 500_000)}
    assert [each.difference_id for each in open_reviews(services)] == [lacking.difference_id]


def test_only_thirty_minutes_around_midnight_are_timing_and_any_other_day_takes_two(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = [mtn_row(pay(services, clock, 1000))]
    at_hour(clock, 0, 5)
    rows.append(mtn_row(pay(services, clock, 100), Date=f"{day - timedelta(days=1)} 23:50:00"))
    at_hour(clock, 15)
    rows.append(mtn_row(pay(services, clock, 70), Date=f"{day - timedelta(days=1)} 23:51:00"))
    rows.append(mtn_row(pay(services, clock, 5000)))
    at_hour(clock, 10)
    rows.append(mtn_row(pay(services, clock, 2000)))
    clock.advance(86_400)
    store(services, with_balances(rows))
    with pytest.raises(ServiceError, match="This bridge takes two operators: other_day UGX 70"):
        close(services, day)
    for second in ("", BY.upper()):
        with pytest.raises(ServiceError, match="Two different people"):
            close(services, day, second)
    closed = close(services, day, SECOND)
    assert steps(closed) == {"matched": (1, 0), "timing": (1, 10_000), "other_day": (1, 7_000)}
    assert (closed.closed_by, closed.confirmed_by) == (BY, SECOND)
    event = AuditEvent.get(AuditEvent.action == "day.closed")
    assert event.decided_by == f"{BY}, {SECOND}"


def test_what_two_operators_state_is_kept_with_their_names_and_shows_what_the_file_lacks(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = three_days(services, clock)
    stated = {"covers": (day, day), "by": BY, "second": SECOND}
    with pytest.raises(ServiceError, match="Two different people"):
        reconcile(services, [rows[2]], **(stated | {"second": "mary  akello"}))
    with pytest.raises(ServiceError, match="no line of the days"):
        reconcile(services, [rows[4]], **stated)
    for ends in ((day + timedelta(days=1), day), (day, day + timedelta(days=9)), (day - timedelta(days=400), day)):
        with pytest.raises(ServiceError, match="at most 400 days, in their order, of which the last is over"):
            reconcile(services, [rows[2]], **(stated | {"covers": ends}))
    assert not StatementDay.select().exists()
    dry = reconcile(services, [rows[2]], is_dry_run=True, **stated)
    assert [each.verdict for each in dry.differences()] == [Verdict.NOT_THEIRS] * 2
    assert not StatementCoverage.select().exists()
    found = reconcile(services, [rows[2]], **stated)
    assert list(found.differences()) == list(dry.differences())
    (row,) = StatementCoverage.select().where(StatementCoverage.kind == "stated")
    assert row.stated_by == f"{BY}, {SECOND}"
    event = AuditEvent.get(AuditEvent.action == "statement.covers")
    assert (event.object_id, event.reason, event.decided_by) == (
        found.statement.statement_id, f"{day} to {day}", f"{BY}, {SECOND}",
    )  # fmt: skip
    with pytest.raises(ServiceError, match="2 of its differences are open"):
        close(services, day)


def test_the_statements_of_a_closed_day_stay_and_an_undone_one_covers_nothing(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = three_days(services, clock)
    first, second = store(services, rows[:3]), store(services, rows[3:])

    def undo(statement_id: str) -> None:
        services.provider_statements.undo(UndoImport(statement_id, BY, SECOND), operator())

    undo(second)
    with pytest.raises(ServiceError, match=NOT_COVERED):
        close(services, day)
    second = store(services, rows[3:])
    close(services, day)
    for statement_id in (first, second):
        with pytest.raises(ServiceError, match=f"{day} was closed with it"):
            undo(statement_id)
    assert check_everything() == []


def test_a_day_with_a_line_of_theirs_is_not_closed_as_empty(services: Services, clock: MovableClock, day: date) -> None:
    line = mtn_row(
        pay(services, clock), Id="F-1", Date=f"{day} 09:00:00", Status="Failed", **{"External id": "unknown"}
    )
    clock.advance(2 * 86_400)
    assert services.days.page(CloseDay(day, "sandbox", BY), operator()).may_be_empty
    store(services, [line])
    assert not services.days.page(CloseDay(day, "sandbox", BY), operator()).may_be_empty
    with pytest.raises(ServiceError, match="A statement has lines of this day"):
        close(services, day, is_empty=True)


def test_titles_that_state_a_period_around_a_day_cover_it_once_that_is_over(
    services: Services, clock: MovableClock, day: date
) -> None:
    before, after = day - timedelta(days=1), day + timedelta(days=1)
    at_hour(clock, 12)
    line = mtn_row(pay(services, clock))[:-1]
    clock.advance(3600)

    def stored(first: object, last: object) -> None:
        titles = f"Statement of payments\nFrom Date,{first}\nTo Date,{last}\n".encode()
        reconcile(services, titles + csv_file([line], WITHOUT_BALANCE))

    stored(before, after)
    clock.advance(2 * 86_400)
    for ends in ((day, day), (before, day), (day, after), (before, "soon"), ("05/06/2026", after)):
        stored(*ends)
        with pytest.raises(ServiceError, match=NOT_COVERED):
            close(services, day)
    stored(f"{before} 00:00:00", after)
    assert steps(close(services, day)) == {"matched": (1, 0)}


def test_a_day_is_covered_from_a_line_before_its_first_moment_to_one_after_its_last(
    services: Services, clock: MovableClock, day: date
) -> None:
    after = day + timedelta(days=1)
    line = mtn_row(pay(services, clock), **{"External id": "unknown"})[:-1]
    clock.advance(3 * 86_400)

    def stored(*dates: str) -> None:
        lines = [[f"F-{dated}", line[1], dated, *line[3:]] for dated in dates]
        reconcile(services, csv_file(lines, WITHOUT_BALANCE))

    stored(f"{day} 00:00:00", f"{after} 00:00:00")
    stored(f"{day - timedelta(days=1)} 23:59:59", f"{day} 23:59:59")
    with pytest.raises(ServiceError, match=NOT_COVERED):
        close(services, day)
    stored(f"{day - timedelta(days=1)} 23:59:59", f"{day} 00:00:00", f"{after} 00:00:00")
    assert steps(close(services, day, SECOND)) == {"held": (1, -500_000)}


def test_balances_join_only_in_the_order_of_time(services: Services, clock: MovableClock, day: date) -> None:
    rows = three_days(services, clock)
    store(services, rows[:2])
    # The balances join, and the second file begins before the first one ends.
    earlier = [*rows[2][:2], f"{day} 08:00:00", *rows[2][3:]]
    store(services, [earlier, *rows[3:]])
    end_reviews(services)
    with pytest.raises(ServiceError, match=NOT_COVERED):
        close(services, day)


def test_a_receipt_counts_as_the_newest_statement_has_it_and_a_payment_lacks_no_line_that_another_statement_has(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = [row[:-1] for row in three_days(services, clock)]
    failed = [*rows[1][:3], "Failed", *rows[1][4:]]
    reconcile(services, csv_file([rows[0], failed, rows[4]], WITHOUT_BALANCE))
    clock.advance(60)
    reconcile(services, csv_file(rows, WITHOUT_BALANCE))
    with pytest.raises(ServiceError, match="1 of its differences is open"):
        close(services, day)
    (differs,) = [each for each in open_reviews(services) if each.verdict is Verdict.STATUS_DIFFERS]
    services.differences.end(EndDifference(differs.difference_id, "explained", BY), operator())
    closed = close(services, day)
    assert (closed.theirs_cents, steps(closed)) == (1_500_000, {"matched": (3, 0)})
    assert [each.verdict for each in open_reviews(services)] == [Verdict.NOT_THEIRS] * 2
    assert check_everything(vault=services.runtime.vault) == []
    end_reviews(services)
    assert check_everything(vault=services.runtime.vault) == []


def test_an_amount_that_the_newest_statement_does_not_have_keeps_its_day_open_until_its_import_is_undone(
    services: Services, clock: MovableClock, day: date
) -> None:
    rows = [row[:-1] for row in three_days(services, clock)]
    dearer = [*rows[1][:7], "6,000.00", *rows[1][8:]]
    wrong = reconcile(services, csv_file([rows[0], dearer, *rows[2:]], WITHOUT_BALANCE)).statement
    clock.advance(60)
    reconcile(services, csv_file(rows, WITHOUT_BALANCE))
    assert open_reviews(services) == ()
    with pytest.raises(ServiceError, match="1 of its differences is open"):
        close(services, day)
    services.provider_statements.undo(UndoImport(wrong.statement_id, BY, SECOND), operator())
    assert steps(close(services, day)) == {"matched": (3, 0)}
    assert check_everything(vault=services.runtime.vault) == []
