"""Lines of a statement matched with payments: doubled lines, failures beside a success, reversals, shifted dates."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.services.reconciliation.statement_files import kampala, mtn_row, reconcile
from tests.support.money import operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.models.movements import MovementReceipt
from ussd_server.models.transactions import Transaction
from ussd_server.providers.statement_format import DateOrder
from ussd_server.services.reconciliation import statements
from ussd_server.services.reconciliation.comparing import our_payments
from ussd_server.services.reconciliation.messages import (
    ComparedLine,
    ListDifferences,
    Reconciliation,
    StatementReading,
)
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.status import ServiceError

SUCCEEDS, FAILS = "+256770000000", "+256770000001"
HOUR = timedelta(hours=1)


def paid(
    services: Services,
    call: RequestContext,
    clock: MovableClock,
    kind: str = "collection",
    number: str = SUCCEEDS,
) -> Transaction:
    """A payment of 5,000 that has its outcome, and an hour that passes after it."""
    asked = request(kind, number, 5000, reference=f"r{Transaction.select().count()}")
    made = services.transactions.create(asked, call).transaction.transaction_id
    work(services, clock, 2)
    clock.advance(3600)
    found: Transaction = Transaction.get_by_id(made)
    return found


def compared(services: Services, rows: list[list[str]]) -> tuple[list[ComparedLine], Reconciliation]:
    lines: list[ComparedLine] = []
    return lines, reconcile(services, rows, on_line=lines.append)


def verdicts(services: Services, rows: list[list[str]]) -> list[tuple[str, bool]]:
    return [(each.verdict.value, each.is_difference) for each in compared(services, rows)[0]]


def sums(result: Reconciliation) -> tuple[int, int]:
    return result.statement.ours_cents, result.statement.theirs_cents


MATCHED, SECOND = ("matched", False), ("not_ours", True)


def test_each_line_that_is_there_again_is_a_difference_of_its_own(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    for kind, sign in (("collection", 1), ("disbursement", -1)):
        amount = f"{'+' if sign > 0 else '-'}5,000.00"
        row = mtn_row(paid(services, call, clock, kind), Type="of a kind we do not know", Amount=amount)
        lines, result = compared(services, [row, row, row])
        assert [each.verdict for each in lines] == ["matched", "not_ours", "not_ours"]
        assert [each.theirs for each in lines] == [sign * 500_000] * 3
        assert sums(result) == (sign * 500_000, sign * 1_500_000)
        stored = services.differences.list(ListDifferences(result.statement.statement_id), operator())
        assert [(each.line, each.verdict) for each in stored.items] == [(5, "not_ours"), (6, "not_ours")]
        assert {each.transaction_id for each in stored.items} == {lines[0].transaction_id}
        # Another file with the same lines brings the same two differences.
        _, other = compared(services, [row, row, row, [""] * 11])
        again = services.differences.list(ListDifferences(other.statement.statement_id), operator())
        assert [each.difference_id for each in again.items] == [each.difference_id for each in stored.items]


def test_a_failed_line_beside_the_success_of_the_same_payment_is_explained(
    services: Services, call: RequestContext, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = paid(services, call, clock), paid(services, call, clock, number=FAILS)
    assert (good.status, bad.status) == ("succeeded", "failed")
    success = mtn_row(good)
    others = [
        mtn_row(good, Status="Failed"),
        mtn_row(good, Status="Failed", Id="an earlier attempt"),
        mtn_row(good, Status="Pending", Amount="1"),
    ]
    for batch in (1000, 1):
        monkeypatch.setattr(statements, "_BATCH", batch)
        for rows in itertools.permutations([success, *others]):
            lines, result = compared(services, list(rows))
            assert [(each.verdict, each.is_difference) for each in lines] == [MATCHED] * 4
            assert sums(result) == (500_000, 500_000)
        # Their success of what failed here is a difference whatever stands beside it.
        for rows in itertools.permutations([mtn_row(bad, Id="7"), mtn_row(bad, Id="7", Status="Failed")]):
            found = [each for each in compared(services, list(rows))[0] if each.is_difference]
            assert [(each.verdict, each.ours, each.theirs) for each in found if each.line] == [
                ("status_differs", "failed", "succeeded")
            ]
        for rows in itertools.permutations([mtn_row(bad, Id="7", Status=status) for status in ("Failed", "Pending")]):
            assert verdicts(services, list(rows)) == [MATCHED, MATCHED]
    failed_alone = verdicts(services, [mtn_row(good, Status="Failed"), mtn_row(good, Status="Failed")])
    assert failed_alone == [("status_differs", True), MATCHED]


def test_a_failed_refund_beside_the_one_that_succeeded_is_explained(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    made = paid(services, call, clock)
    asked = CreateRefund(made.id, "back")
    refund_id = services.refunds.create(asked, call).transaction.transaction_id
    work(services, clock, 5)
    made, refund = Transaction.get_by_id(made.id), Transaction.get_by_id(refund_id)
    rows = [mtn_row(made), mtn_row(refund, Id="first try", Status="Failed"), mtn_row(refund)]
    lines, result = compared(services, rows)
    assert [(each.verdict, each.is_difference) for each in lines] == [MATCHED, MATCHED, ("reversal", False)]
    assert sums(result) == (0, 0)


def test_a_reversal_moves_money_against_its_payment_with_and_without_a_sign(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    for kind, sign in (("collection", -1), ("disbursement", 1)):
        row = paid(services, call, clock, kind)
        for amount in ("5,000", f"{sign * 5000:+}", "5,000.00"):
            reversal = mtn_row(row, Id="taken back", Type="Reversal", Amount=amount)
            lines, result = compared(services, [mtn_row(row), reversal])
            assert [(each.verdict, each.theirs) for each in lines] == [
                ("matched", -sign * 500_000),
                ("reversal", sign * 500_000),
            ]
            assert sums(result) == (-sign * 500_000, 0), (kind, amount)


def test_a_reversal_of_a_refund_without_a_sign_brings_its_money_back(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    made = paid(services, call, clock)
    refund_id = services.refunds.create(CreateRefund(made.id, "back"), call).transaction.transaction_id
    work(services, clock, 5)
    made, refund = Transaction.get_by_id(made.id), Transaction.get_by_id(refund_id)
    came_back = mtn_row(refund, Id="taken back", Type="Reversal", Amount="5,000")
    lines, result = compared(services, [mtn_row(made), mtn_row(refund), came_back])
    assert [(each.verdict, each.theirs) for each in lines][2:] == [("reversal", 500_000)]
    assert sums(result) == (0, 500_000)


def test_a_line_under_our_own_name_with_another_id_writes_that_id(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    for kind in ("collection", "disbursement"):
        row = paid(services, call, clock, kind)
        for _ in range(2):
            assert verdicts(services, [mtn_row(row, Id=f"other {kind}")]) == [MATCHED]
        (receipt,) = MovementReceipt.select().where(MovementReceipt.written == f"other {kind}")
        assert (receipt.transaction_id, row.provider_transaction_id is None) == (row.id, False)
        assert Transaction.get_by_id(row.id).provider_receipt == f"other {kind}"


def test_fees_are_never_differences_and_never_in_the_sums(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    row = paid(services, call, clock)
    for written, cents in (
        (("50", "50.25"), (-5_000, -5_025)),
        (("-50", "(50)", "\u221250.25", "UGX -50", "+50"), (-5_000, -5_000, -5_025, -5_000, 5_000)),
    ):
        fees = [mtn_row(row, Type="Fee", Amount=amount) for amount in written]
        lines, result = compared(services, [mtn_row(row), *fees])
        assert [(each.verdict, each.theirs) for each in lines[1:]] == [("fee", fee) for fee in cents]
        assert list(result.differences()) == []
        assert sums(result) == (500_000, 500_000)


def test_a_statement_of_failures_alone_lacks_our_successes(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    first, good, last = (paid(services, call, clock, number=number) for number in (FAILS, SUCCEEDS, FAILS))
    lines, result = compared(services, [mtn_row(each, Id=each.reference, Status="Failed") for each in (first, last)])
    assert [each.verdict for each in lines] == ["matched", "matched", "not_theirs"]
    assert lines[-1].transaction_id == good.id
    assert sums(result) == (500_000, 0)


def test_a_payment_that_was_pending_when_the_statement_ended_differs_until_a_newer_one(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    first, late = paid(services, call, clock), paid(services, call, clock)
    pending = mtn_row(late, Status="Pending", Date=kampala(late.created_at))
    lines, result = compared(services, [mtn_row(first), pending])
    assert [(each.verdict, each.ours, each.theirs) for each in lines[1:]] == [
        ("status_differs", "succeeded", "pending")
    ]
    assert sums(result) == (1_000_000, 500_000)


def shifted(row: Transaction, shift: timedelta, **changes: Any) -> list[str]:
    return mtn_row(row, Date=kampala((row.completed_at or row.updated_at) + shift), **changes)


def test_dates_that_are_all_off_by_the_same_hours_are_refused_unless_their_zone_is_named(
    services: Services, call: RequestContext, clock: MovableClock, tmp_path: Any
) -> None:
    made = [paid(services, call, clock) for _ in range(6)]
    # The last payment is missing, and lies beyond the statement's last line when its dates are in UTC.
    for hours, sentence in (
        (-3, "3 hours earlier"),
        (1, "1 hour later"),
        (0.5, "0.5 hours later"),
        (24, "24 hours later"),
    ):
        rows = [shifted(each, hours * HOUR) for each in made[:4]]
        with pytest.raises(ServiceError) as refused:
            compared(services, rows)
        assert str(refused.value) == (
            f"The dates of the statement are {sentence} than our times of the payments that match; "
            "name the time zone of its dates in USSD_STATEMENT_HEADINGS."
        )
    for minutes in (-4, 0, 4):
        assert verdicts(services, [shifted(each, timedelta(minutes=minutes)) for each in made]) == [MATCHED] * 6
    headings = tmp_path / "headings.csv"
    headings.write_text("provider,part,text,meaning\nsandbox,zone,dates,+00:00\nmtn,zone,dates,+05:30\n")
    services.provider_statements._headings = headings
    without_one = [shifted(each, -3 * HOUR) for each in made if each != made[2]]
    lines, _ = compared(services, without_one)
    assert [(each.verdict, each.transaction_id) for each in lines[5:]] == [("not_theirs", made[2].id)]
    headings.write_text("provider,part,text,meaning\nsandbox,zone,dates,Kampala\n")
    with pytest.raises(ServiceError, match="gives a zone the meaning 'Kampala', which is no offset such as"):
        compared(services, without_one)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_payments_that_a_statement_lacks_are_named_once_however_many_pages_they_fill(
    services: Services, call: RequestContext, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(our_payments, "_PAGE", 2)
    made = [paid(services, call, clock) for _ in range(5)]
    lines, _ = compared(services, [mtn_row(made[0]), mtn_row(made[4])])
    assert [each.transaction_id for each in lines] == [made[place].id for place in (0, 4, 1, 2, 3)]


def test_dates_that_are_off_by_different_times_hide_no_missing_payment(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    made = [paid(services, call, clock) for _ in range(5)]
    rows = [
        shifted(made[0], -3 * HOUR),
        shifted(made[1], -3 * HOUR),
        shifted(made[4], -4 * HOUR - timedelta(minutes=20)),
    ]
    lines, _ = compared(services, rows)
    assert [(each.verdict, each.transaction_id) for each in lines[3:]] == [
        ("not_theirs", made[2].id),
        ("not_theirs", made[3].id),
    ]


def test_our_times_do_not_settle_whether_day_or_month_comes_first(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    now = clock.now()
    clock.advance((now.replace(year=now.year + 1, month=3, day=4, hour=9) - now).total_seconds())
    row = paid(services, call, clock)
    assert row.completed_at is not None
    for form, order in (("%m/%d/%Y %H:%M", DateOrder.MONTH_FIRST), ("%d/%m/%Y %H:%M", DateOrder.DAY_FIRST)):
        line = mtn_row(row, Date=f"{row.completed_at + 3 * HOUR:{form}}")
        with pytest.raises(ServiceError, match=r"3 April .* or 4 March|4 March .* or 3 April"):
            compared(services, [line])
        result = reconcile(services, [line], reading=StatementReading(order))
        assert result.statement.lines == {"matched": 1}
        assert result.statement.first_at.month == 3


def test_a_line_without_a_sign_whose_type_says_the_other_direction_differs_by_twice_the_amount(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    for kind, type_of_line, cents in (("collection", "Transfer", 500_000), ("disbursement", "Payment", -500_000)):
        row = mtn_row(paid(services, call, clock, kind), Type=type_of_line)
        (line,), result = compared(services, [row])
        assert (line.verdict.value, line.ours, line.theirs) == ("amount_differs", cents, -cents)
        assert sums(result) == (cents, -cents)
