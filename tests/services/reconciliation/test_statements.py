"""Reconciliation: every line of a statement is compared, and every difference is kept until an operator ends it."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conftest import MovableClock
from tests.services.reconciliation.statement_files import MTN, csv_file, kampala, mtn_row, open_reviews, reconcile
from tests.spreadsheets.workbooks import raw_workbook, workbook
from tests.support.books import check_everything
from tests.support.money import balances, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.models.clients import AuditEvent
from ussd_server.models.statements import ProviderStatement, StatementDifference
from ussd_server.models.transactions import Transaction
from ussd_server.services.movements.messages import ListMovements, MovementView
from ussd_server.services.operators.messages import CreateOperator
from ussd_server.services.reconciliation.messages import (
    ComparedLine,
    ConcludeFromStatement,
    EndDifference,
    ListDifferences,
    Verdict,
)
from ussd_server.services.transactions.messages import CreateRefund, GetTransaction
from ussd_server.status import Code, ServiceError
from ussd_server.wire import ListPage

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
SILENT, FAILS_THEN_SUCCEEDS = "+256770000007", "+256770000009"


def pay(services: Services, call: RequestContext, kind: str = "collection", number: str = "+256770000000") -> str:
    count = Transaction.select().count()
    made = services.transactions.create(request(kind, number, 5000, reference=f"r{count}"), call)
    return made.transaction.transaction_id


def row(transaction_id: str) -> Transaction:
    found: Transaction = Transaction.get_by_id(transaction_id)
    return found


def day(services: Services, call: RequestContext, clock: MovableClock, count: int) -> list[str]:
    """Payments of one day, an hour apart."""
    made = []
    for number in range(count):
        made.append(pay(services, call, "disbursement" if number % 3 == 2 else "collection"))
        work(services, clock, 2)
        clock.advance(3600)
    return made


def held_movements(services: Services) -> tuple[MovementView, ...]:
    return services.movements.list(ListMovements(is_held=True), operator()).items


def test_a_statement_that_agrees_has_no_difference(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    made = day(services, call, clock, 3)
    result = reconcile(services, [mtn_row(row(each)) for each in made])
    assert result.statement.lines == {Verdict.MATCHED: 3}
    assert (result.statement.ours_cents, result.statement.theirs_cents) == (500_000, 500_000)
    assert list(result.differences()) == []
    assert open_reviews(services) == ()


def test_every_kind_of_difference_is_found_and_listed_once(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    made = day(services, call, clock, 7)
    silent = pay(services, call, number=SILENT)
    work(services, clock, 45, step=5)
    made.append(pay(services, call))
    work(services, clock, 2)
    rows = [mtn_row(row(each)) for each in made]
    fee_at = kampala(row(made[1]).completed_at)
    lines = [
        rows[0],
        mtn_row(row(made[1]), Amount="4,000"),
        mtn_row(row(made[2]), Status="Failed"),
        # Made[3] is missing. The next one has no id of theirs, and the next no name of ours.
        mtn_row(row(made[4]), Id=""),
        mtn_row(row(made[5]), **{"External id": "", "Amount": "UGX 5,000"}),
        mtn_row(row(made[6]), Id="another"),
        mtn_row(row(silent), Id="S-1"),
        ["99", "", fee_at, "Successful", "Payment", "256772123456", "", "5,000", "UGX", "", ""],
        [row(made[0]).provider_transaction_id, "", fee_at, "Successful", "Fee", "", "", "50", "UGX", "", ""],
        ["98", row(made[0]).provider_reference, fee_at, "Successful", "Reversal", "", "", "5,000", "UGX", "", ""],
        rows[7],
    ]
    seen: list[ComparedLine] = []
    result = reconcile(services, lines, on_line=seen.append)
    assert [each.verdict for each in seen] == [
        "matched", "amount_differs", "status_differs", "matched", "matched", "matched", "status_differs", "not_ours",
        "fee", "reversal", "matched", "not_theirs",
    ]  # fmt: skip
    found = list(result.differences())
    assert [(each.line, each.transaction_id, each.ours, each.theirs) for each in found] == [
        (5, made[1], 500_000, 400_000),
        (6, made[2], "succeeded", "failed"),
        (10, silent, "ambiguous", "succeeded"),
        (11, None, None, 500_000),
        (13, made[0], None, -500_000),
        (None, made[3], 500_000, None),
    ]
    assert Counter(each.verdict for each in seen) == result.statement.lines
    # Ours lacks the silent one and theirs; they lack what they call failed, and made[3].
    assert result.statement.ours_cents == 6 * 500_000 - 2 * 500_000
    assert result.statement.theirs_cents == 400_000 + 5 * 500_000 - 500_000 + 500_000 - 500_000
    reviews = open_reviews(services)
    assert [each.line for each in reversed(reviews)] == [6, 10, None]
    held = held_movements(services)
    assert sorted((each.line.line or 0, each.direction, each.amount_cents) for each in held if each.line) == [
        (5, "in", 400_000),
        (11, "in", 500_000),
        (13, "out", 500_000),
    ]
    assert [each.phone_number for each in held if each.line and each.line.line == 11] == ["+256772123456"]
    first = services.differences.list(ListDifferences(result.statement.statement_id), operator()).items
    assert [each.line for each in first] == [each.line for each in found]

    again = reconcile(services, lines)
    assert again.is_repeat
    assert list(again.differences()) == found
    assert again.statement.statement_id == result.statement.statement_id
    # Another file with the same lines brings the same differences and movements, which wait once.
    other = reconcile(services, csv_file(lines) + b"\n")
    assert not other.is_repeat
    assert (open_reviews(services), held_movements(services)) == (reviews, held)
    of_other = services.differences.list(ListDifferences(other.statement.statement_id), operator())
    assert [each.difference_id for each in of_other.items] == [each.difference_id for each in first]
    listed = services.provider_statements.list(ListPage(), operator()).items
    assert [each.statement_id for each in listed] == [other.statement.statement_id, result.statement.statement_id]


def test_a_payment_is_never_matched_by_its_amount(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    made = pay(services, call)
    work(services, clock, 2)
    found = reconcile(services, [mtn_row(row(made), Id="7", **{"External id": "8"})])
    assert [each.verdict for each in found.differences()] == ["not_ours", "not_theirs"]


def test_a_second_payment_under_our_name_is_not_ours(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    made = pay(services, call)
    work(services, clock, 2)
    found = reconcile(services, [mtn_row(row(made)), mtn_row(row(made), Id="7")])
    (second,) = found.differences()
    assert (second.verdict, second.line, second.transaction_id) == ("not_ours", 5, made)


def test_a_refund_of_ours_is_a_reversal_and_no_difference(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    made = pay(services, call)
    work(services, clock, 2)
    refund = services.refunds.create(CreateRefund(made, "back"), call).transaction.transaction_id
    work(services, clock, 5)
    assert row(made).status == "reversed"
    receipt = row(refund).provider_transaction_id
    for name, line_id in ((row(refund).provider_reference, "id"), (row(made).provider_reference, receipt)):
        lines = [mtn_row(row(made)), mtn_row(row(refund), Id=line_id, **{"External id": name})]
        result = reconcile(services, lines)
        assert result.statement.lines == {Verdict.MATCHED: 1, Verdict.REVERSAL: 1}
        assert (result.statement.ours_cents, result.statement.theirs_cents) == (0, 0)
    later = pay(services, call)
    work(services, clock, 2)
    without = reconcile(services, [mtn_row(row(made)), mtn_row(row(later))])
    assert [each.verdict for each in without.differences()] == ["not_theirs"]


def test_only_what_lies_within_the_period_is_missing(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    made = day(services, call, clock, 5)
    found = reconcile(services, [mtn_row(row(made[1])), mtn_row(row(made[3]))])
    assert [each.transaction_id for each in found.differences()] == [made[2]]


def test_a_success_of_theirs_is_concluded_by_two_operators(
    services: Services, call: RequestContext, clock: MovableClock
) -> None:
    silent, failed = pay(services, call, number=SILENT), pay(services, call, number=FAILS_THEN_SUCCEEDS)
    work(services, clock, 2.5)
    assert [row(each).status for each in (silent, failed)] == ["ambiguous", "failed"]
    reconcile(services, [mtn_row(row(silent), Id="S-1"), mtn_row(row(failed), Id="F-1")])
    differences = services.differences
    for found in open_reviews(services):
        asked = ConcludeFromStatement(found.difference_id, "statement, line 5", "Jane Doe", "jane  doe")
        with pytest.raises(ServiceError):
            differences.conclude(asked, operator())
        ended = differences.conclude(
            ConcludeFromStatement(found.difference_id, "statement, line 5", "Jane Doe", "Mary Roe"), operator()
        )
        assert (ended.ended_by, ended.reason) == ("Jane Doe, Mary Roe", "statement, line 5")
        with pytest.raises(ServiceError):
            differences.end(EndDifference(found.difference_id, "again"), operator())
    for made, receipt in ((silent, "S-1"), (failed, "F-1")):
        view = services.transactions.get(GetTransaction(made), call)
        assert (view.status, view.events[-1].source, view.provider_transaction_id) == ("succeeded", "operator", receipt)
    assert balances(call.client_id)["main"] == (6_000_000, 0)
    actions = [event.action for event in AuditEvent.select()]
    assert (actions.count("transaction.settled"), actions.count("difference.ended")) == (2, 2)
    work(services, clock, 60, step=5)
    assert check_everything() == []


def test_a_review_ends_once_with_a_reason(services: Services, call: RequestContext, clock: MovableClock) -> None:
    made = day(services, call, clock, 3)
    content = csv_file([mtn_row(row(made[0])), mtn_row(row(made[2]))])
    reconcile(services, content)
    (found,) = open_reviews(services)
    differences = services.differences
    for wrong in (EndDifference(found.difference_id, " "), EndDifference("unknown", "a reason")):
        with pytest.raises(ServiceError):
            differences.end(wrong, operator())
    with pytest.raises(ServiceError) as refused:
        differences.conclude(ConcludeFromStatement(found.difference_id, "why", "Jane", "Mary"), operator())
    assert refused.value.code is Code.INVALID_REQUEST
    services.operators.create(CreateOperator("jane@ops.example", "correct horse battery"), operator())
    with pytest.raises(ServiceError, match="active operator"):
        differences.end(EndDifference(found.difference_id, "paid in cash", "Stranger"), operator())
    ended = differences.end(EndDifference(found.difference_id, "paid in cash", "Jane@ops.example"), operator())
    assert (ended.reason, ended.ended_by) == ("paid in cash", "jane@ops.example")
    assert open_reviews(services) == ()
    reconcile(services, content + b"\n")
    assert open_reviews(services) == (), "what an operator has ended does not come back with another file"


GOOD = ["1", "", "2026-11-20 14:03:12", "Successful", "Payment", "", "", "5,000", "UGX", "", ""]


def changed(**changes: str) -> list[str]:
    return [changes.get(name, value) for name, value in zip(MTN, GOOD, strict=True)]


BAD_FILES = [
    (csv_file([GOOD]).replace(b"Payment", b"Pay\xff"), "Row 4, column E: the text is neither UTF-8 nor UTF-16"),
    (b"%PDF-1.7", "The file is a PDF document"),
    (csv_file([GOOD], MTN[:7]), "Row 3: the headings lack Amount or Credit or Debit."),
    (b"Hello,World\n1,2\n", "No row has the headings Id or External id, Date, Amount or Credit or Debit."),
    (csv_file([GOOD, changed(Id="2", Currency="KES")]), "Row 5, column I: the currency is 'KES', and not UGX."),
    (csv_file([changed(Amount="EUR 5")]), "Row 4, column H: the currency is 'EUR', and not UGX."),
    (b"", "The file is empty."),
    (csv_file([]), "The statement has headings and no payments."),
    (bytes.fromhex("d0cf11e0a1b11ae1") + "EncryptedPackage".encode("utf-16-le"), "The file has a password"),
    (raw_workbook(b"<row/>", declared_bytes=2_000_000_000), "The XLSX file unpacks to more than"),
    (
        csv_file([changed(Id="2.35034E+10")]),
        "Row 4, column A: a spreadsheet changed the number to 2.35034E+10; use the file as it was downloaded.",
    ),
    (csv_file([changed(Amount="1,23")]), "Row 4, column H: the amount '1,23' cannot be read."),
    (csv_file([changed(Amount="=1+1")]), "Row 4, column H: the amount '=1+1' cannot be read."),
    (csv_file([changed(Amount="")]), "Row 4, column H: the amount is missing."),
    (csv_file([changed(Date="yesterday")]), "Row 4, column C: the date 'yesterday' cannot be read."),
    (csv_file([changed(Date="")]), "Row 4, column C: the date is missing."),
    (csv_file([changed(Status="Perhaps")]), "Row 4, column D: the status 'Perhaps' is not known."),
    (
        csv_file([changed(Date="21/11/2026 10:00"), changed(Id="2", Date="11/21/2026 10:00")]),
        "Row 5, column C: day and month stand in another order than in row 4.",
    ),
    (
        csv_file([changed(Id=str(place), Amount="999999999999999") for place in range(100)]),
        "Row 5, column H: the amounts add up to more than 1,000,000,000,000,000.",
    ),
    (csv_file([GOOD, changed(Id="2", Date="2020-11-20 14:03")]), "The dates of the statement lie more than 400"),
]


@ON_SQLITE
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence_and_leaves_nothing(
    services: Services,
) -> None:
    for content, sentence in BAD_FILES:
        with pytest.raises(ServiceError) as refused:
            reconcile(services, content)
        assert str(refused.value).startswith(sentence)
    assert (ProviderStatement.select().count(), StatementDifference.select().count()) == (0, 0)


@ON_SQLITE
def test_dates_are_read_in_the_four_usual_forms(services: Services) -> None:
    for dates, first, last in [
        (("2026-11-20 14:03:12", "2026-11-21 00:00:00"), "2026-11-20 14:03:12", "2026-11-21 00:00:01"),
        (("20/11/2026 14:03:12", "21/11/2026 00:00:00"), "2026-11-20 14:03:12", "2026-11-21 00:00:01"),
        (("11/20/2026 14:03", "11/21/2026 00:00"), "2026-11-20 14:03:00", "2026-11-21 00:01:00"),
        (("20/11/2026 14:03", "21/11/2026 00:00"), "2026-11-20 14:03:00", "2026-11-21 00:01:00"),
        (("12/11/2026 14:03", "12/13/2026 14:03"), "2026-12-11 14:03:00", "2026-12-13 14:04:00"),
    ]:
        lines = [changed(Id=str(place), Date=date) for place, date in enumerate(dates)]
        statement = reconcile(services, lines).statement
        assert (kampala(statement.first_at), kampala(statement.last_at)) == (first, last), dates


@ON_SQLITE
def test_a_workbook_with_merged_headings_cut_names_and_formulas_is_read(services: Services) -> None:
    rows: list[list[object]] = [
        ["Statement of ACME"],
        ["Id", "Date", "Status", "Type", "Money", "", "Parties"],
        ["", "", "", "", "Amount", "Currency", "From", "To"],
        [1, "2026-11-20 14:03:12", "Successful", "Batch t", 5000, "UGX", "", "FRI:256772123456/MSISDN"],
        [2, "2026-11-20 14:03:13", "Successful", "Reversa", "(5,000.00)", "UGX", "=HYPERLINK(1)", ""],
        ["Total", "", "", "", "=SUM(E4:E5)"],
    ]
    found = list(reconcile(services, workbook(rows), "mtn", is_confirmed=False).differences())
    assert [(each.line, each.verdict, each.theirs, each.party) for each in found] == [
        (4, "not_ours", 500_000, "+256772123456"),
        (5, "reversal", -500_000, ""),
    ]
